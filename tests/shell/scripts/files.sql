\qecho q
\warn w
\warn -n w
\warn
\i nofile
\i
\ir
\ir nofile
\i /
\cd nodir
\! echo hi
\! exit 3
\echo :SHELL_ERROR :SHELL_EXIT_CODE
\echo `exit 4` x
\echo :SHELL_ERROR :SHELL_EXIT_CODE
\echo `echo one; echo two` after
\set name it's
\set 'shell arg' x
\set arg 'it''s a; "test"'
\echo `echo :'arg'` `echo :name`
\setenv
\setenv FOO=x
\setenv FOO bar
\getenv v FOO
\echo :v
\getenv v
\getenv v NOSUCHVAR
\echo :v
\! echo "[$FOO]"
\setenv FOO
\! echo "[$FOO]"
\o out.txt
\qecho in file
select 1 as in_file;
\echo on stdout
create role file_tag;
drop role file_tag;
\o
\! cat out.txt
\o |cat
\qecho piped
\o
\o /nodir/x
\w /nodir/x
\w
sel
\w w.txt
\! cat w.txt
\w |cat
\w | exit 2
\echo :SHELL_ERROR :SHELL_EXIT_CODE
\r
\! mkdir sub; echo '\echo inside' > sub/a.sql; echo '\ir b.sql' >> sub/a.sql; printf 'selec;\n\n\\foo\n\\echo b' > sub/b.sql
\i sub/a.sql
\ir sub/a.sql
\set ON_ERROR_STOP on
\! printf 'select 1;\n' > sub/c.sql
\i sub/c.sql
\unset ON_ERROR_STOP
\s
\s x
\p
\r
\p
select 1 \r
\p
sel
\p
ect
\p
\r
\e
\p
select 5
\e
;
\prompt
\prompt 'p: ' v1
value one
\echo :v1
\prompt v2
value two
\echo :v2
\restrict
\restrict k1
\echo no
\unrestrict
\unrestrict k2
\unrestrict k1
\unrestrict k1
\echo yes
\i sub/a.sql extra words
\cd sub
\! ls
\q
