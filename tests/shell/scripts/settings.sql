\echo a  b 'c d' "e f" 'it''s' 'x\ty\n' '\101\x42' `echo hi`
\echo -n no newline
\echo
\echo '-n' x
\echo -n -n x
\echo
\set foo bar
\echo :foo :'foo' :"foo" :{?foo} :{?nofoo} :nofoo :'nofoo' :"nofoo"
\set q 'it''s \\ "x"'
\echo :q :'q' :"q"
\set a b c d
\echo :a
\unset foo
\echo :foo
\set 9abc x
\echo :9abc
\set a-b x
\unset a-b
\unset
\set AUTOCOMMIT maybe
\set ECHO maybe
\set VERBOSITY loud
\set SHOW_CONTEXT x
\set HISTCONTROL x
\set COMP_KEYWORD_CASE x
\set ECHO_HIDDEN x
\set ON_ERROR_ROLLBACK x
\set FETCH_COUNT x
\set HISTSIZE x
\set IGNOREEOF x
\echo :IGNOREEOF
\set QUIET tr
\echo :QUIET
\unset QUIET
\echo :QUIET
\set ON_ERROR_STOP
\echo :ON_ERROR_STOP
\unset ON_ERROR_STOP
\foo
\foo bar
\x y z
\x
\a extra
\a
\t maybe
\t
\t
\pset
\pset border 2 3
\pset border
\pset foo
\pset format l
\pset format latex-
\pset format xyz
\pset linestyle u
\pset linestyle x
\pset linestyle ascii
\pset null '(null)'
\pset null
\pset fieldsep '\t'
\pset fieldsep
\pset recordsep
\pset recordsep 'x'
\pset recordsep '\n'
\pset recordsep_zero
\pset recordsep '\n'
\pset fieldsep_zero
\pset fieldsep '|'
\pset title 'a b'
\pset title
\C foo bar
\C
\T a b
\T
\pset tableattr
\pset columns 50
\pset columns
\pset columns 0
\pset pager always
\pset pager
\pset pager
\pset pager x
\pset pager_min_lines x
\pset pager_min_lines 1
\pset pager_min_lines 5
\pset expanded auto
\pset x
\pset vertical
\pset vertical
\pset xheader_width
\pset xheader_width column
\pset xheader_width 7
\pset xheader_width x
\pset xheader_width full
\pset unicode_border_linestyle double
\pset unicode_border_linestyle x
\pset unicode_column_linestyle x
\pset unicode_header_linestyle d
\pset csv_fieldsep ';'
\pset csv_fieldsep ab
\pset csv_fieldsep '\n'
\pset footer
\pset footer
\pset footer off
\pset footer x
\pset numericlocale
\pset numericlocale
\pset numericlocale z
\f x
\f
\pset format html
\H
\H
\pset
\timing
\timing
\timing x
\timing on off
\timing off
