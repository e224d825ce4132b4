create type e as enum ('a');
create domain d as int check (value > 0);
create domain nn as int not null;
create domain dz as int check (1/value > 0);
create type ct as (a int, b d);
create table t (a d, b nn, c ct);
copy t from stdin (on_error ignore);
1	1	(1,1)
0	1	(1,1)
2	\N	(1,1)
3	1	(1,0)
4	1	(1,1)
\.
select * from t;
create table z (a dz);
copy z from stdin (on_error ignore);
1
-1
\.
copy z from stdin (on_error ignore);
1
0
\.
create table te (x e);
begin;
alter type e add value 'z';
copy te from stdin (on_error ignore);
a
z
\.
rollback;
select * from z;
create table rc (a regclass);
copy rc from stdin (on_error ignore);
nosuch
a.b.c.d
pg_class
\.
copy rc from stdin (on_error ignore);
nosuch
pg_class
\.
select * from rc;
