\echo a  b 'c d' "e f" 'it''s' 'x\ty\n' '\101\x42' `echo hi`
\echo 'caf\303\251' '\xe6\x97\xa5' '\q' 'back\\slash' 'a\000b'
\echo 'abc
\echo "abc
\echo `abc
\echo "a""b" "c
\echo a;b; 'c;' ;
\echo a\b
\echo a \\ \echo b
\echo \\\\
\foo \\ \echo not reached
\set foo bar
\echo :foo :'foo' :"foo" :{?foo} :{?nofoo} :nofoo :'nofoo' :"nofoo" ':foo' ":foo" x:foo :foo.x ::foo :foo:foo
\set q 'it''s \\ "x"'
\echo :q :'q' :"q"
select :'q' as q;
\set a b c d
\echo :a
\set empty
\echo [:empty] :'empty' :"empty"
\unset foo
\echo :foo
\set 9abc x
\echo :9abc
\set a-b x
\unset a-b
\unset
\errverbose
\encoding
\encoding utf8
\encoding foo
\lo_foo
\dzzz
\dR
\dAz
\connn
\?? x
\
\ x
\é
\h zzz such command
\h drop publication
\h savepoint;
\h alter subscription extra words
\copyright
\password_ x
\g (
\g (foo) x
\g (format=x)
\timing on
\timing off
\watch x
\watch c=0
\watch c=1 c=2
\watch 1 2
\watch i=x
\watch m=x
\watch foo=1
\gset
\gdesc
\gexec
\crosstabview
\g
\p
\echo done
