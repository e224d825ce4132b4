-- labels in stored expressions follow a renaming, those of arrays, domains and rows, too
create type e as enum ('a', 'b');
create domain de as e check (value <> 'b');
create type c as (x e, y e[]);
create view v as select '{a,b}'::e[] as arr, 'a'::de as dom, '{a}'::de[] as doms, row('a', '{a,b}')::c as comp, '(a,"{a}")'::c as lit;
create table t (x e check (x = any ('{a,b}'::e[])), y e[] default '{a}', z de default 'a', check (x in ('a', 'b')));
create function f() returns e[] begin atomic; select '{a,b}'::e[]; end;
alter type e rename value 'a' to 'aa';
select * from v;
select f();
insert into t (x) values ('aa') returning *;
\d t
\d+ v
alter type e add value 'a';
select * from v;
select f();
insert into t (x) values ('aa') returning *;
insert into t (x) values ('a') returning *;
