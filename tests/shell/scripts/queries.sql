select 1 as a, 'x' as "B b", null as n, true as t, 1.50::numeric(4,2) as num;
select 1; select 2;
select 1\; select 2;
select 1 \g
select 2 \gx
select 3 as x \gset
\echo :x
select 3 as x, null as y, 'v' as "Z" \gset p_
\echo :p_x :p_y :p_Z
select 1 where false \gset
select 1 union select 2 \gset
select 1 as "AUTOCOMMIT" \gset
select 1 as "bad name" \gset
select 'select 1 as a', 'select 2 as b' union all select null, 'selec' \gexec
select 1 as a, 2 as b \gdesc
create table gd(a int, b varchar(10), c numeric(10,2)[]);
select * from gd \gdesc
show work_mem \gdesc
drop table gd \gdesc
selec \gdesc
select 1\; select 2 \gdesc
select 1 +
  2 as
 sum;
select '
abc
', $$x
y$$;
-- comment
/* multi
line */ select 1 /* c */ as c -- trailing
;
select ( 1
; 2);
selec
;
select 1 as "a
b", E'x\ny' as c;
select 'it''s', E'a\'b', U&'\0041', b'1', 'a' 'b';
select $tag$ ; $$ ' $tag$, "no;col";
begin;
select 1/0;
select 1;
rollback;
\set ON_ERROR_ROLLBACK on
begin;
select 1/0;
select 1 as still;
savepoint s;
release s;
commit;
\set ON_ERROR_ROLLBACK off
\set AUTOCOMMIT off
select 1 as x;
rollback;
create table tt(a int);
rollback;
select * from tt;
commit;
-- a comment before
begin;
commit;
\set AUTOCOMMIT on
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
select generate_series(1,3);
\echo :ERROR :SQLSTATE :ROW_COUNT
select 1/0;
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
;
\echo :ERROR :SQLSTATE :ROW_COUNT
create role row_counter;
drop role row_counter;
\echo :ERROR :SQLSTATE :ROW_COUNT :LASTOID
\set FETCH_COUNT 2
select generate_series(1,5) as g;
\pset border 2
select generate_series(1,4) as g \gx
select generate_series(1,1) as g;
select 1 where false;
\echo :ROW_COUNT
\pset border 1
\set FETCH_COUNT 0
\set SHOW_ALL_RESULTS off
select 1\; select 2;
\set SHOW_ALL_RESULTS on
\set ECHO queries
select 1 as a;
select 2 as a
  ;
\set ECHO errors
selec;
\set ECHO none
select 2;
\set ECHO all
\set SINGLELINE on
select 1
select 2 -- c
\set SINGLELINE off
\set SINGLESTEP on
select 'step';

select 'step 2';
x
\set SINGLESTEP off
\pset null '¤'
select null as n, '' as e;
select 1 as a \g (format=csv) 
select 1 as a, 2 as b \g (format=unaligned tuples_only=on fieldsep=',')
select 1 as a \g (border=2
  null=x)
select 1 as a \gx (border=2) 
select 1 as a \g (expanded=foo)
select 1 \g g.out
\! cat g.out
select 1 \g |cat
select 1 \g /nodir/x
create role g_role \g g2.out
drop role g_role;
select 1 as a \bind \g
select 1\; select 2 \bind \g
select 'a' as r, 'x' as c, 1 as v union all select 'b','y',2 union all select 'a','y',3 \crosstabview
select 'a' as r, 'x' as c, 1 as v, 2 as o union all select 'b','y',2,1 union all select 'a','y',null,3 \crosstabview 1 2 3 4
select 'a' as r, 'x' as c, 1 as v union all select 'a','x',2 \crosstabview
select 1 as a, 2 as b \crosstabview
select 'a' as r, 'x' as c, 1 as v, 2 as w \crosstabview
select 'a' as r, 'x' as c, 1 as v, 2 as w \crosstabview r c w
select 'a' as r, 'x' as c, 1 as v, 2 as w \crosstabview r r
select 'a' as r, 'x' as c, 1 as v, 2 as w \crosstabview 1 9
select 'a' as r, 'x' as c, 1 as v, 2 as w \crosstabview 1 foo
select 1 \watch c=2 i=x
select 1 \watch c=0
\p
\watch 0.1 0.2
\set cmd 'select 42 as v;'
:cmd
\set c1 ':c1 x'
select ':c1', :c1;
\set lit 'a''b'
\set ident 'Odd name'
select :'lit' as :"ident", :x as x, :{?x} as known, :{?nosuch} as unknown;
select :nosuch;
select ':x', "ident:x", $$:x$$;
select array[1,2,3][1:2] as slice, '1'::int as cast;
select 2 as semi\; select 3 as forced
;
set client_min_messages = warning;
\set ON_ERROR_STOP on
select 'the last one has no semicolon' as last
