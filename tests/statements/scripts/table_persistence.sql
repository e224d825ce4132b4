create table t (id serial primary key, a int, b text);
create index ta on t (a);
create index th on t using hash (a);
create index tp on t (a) where b is null;
alter table t cluster on ta;
\d t
alter table t alter a type bigint;
\d t
alter table t set without cluster;
\d t
alter table t cluster on th;
alter table t cluster on tp;
alter table t cluster on nope;
alter table t cluster on t;
create table t2 (a int primary key);
alter table t cluster on t2_pkey;
create table p (a int primary key) partition by range (a);
alter table p cluster on p_pkey;
alter table p set without cluster;
alter table t set unlogged;
\d t
\d t_id_seq
\d t_pkey
alter table t set unlogged;
alter table t set logged, set logged;
alter table t set logged, set unlogged;
create publication pub for table t;
create publication pub for table t2;
alter table t2 set unlogged;
alter table t set logged;
\d t
create table f (x int references t2);
alter table f set unlogged;
alter table f set logged;
alter table p set unlogged;
\d p
create unlogged table u (a int primary key);
create table uf (x int references u);
create unlogged table uf (x int references u);
alter table uf set logged;
alter table u set logged;
alter table uf set logged;
create temp table tt (a int);
alter table tt set logged;
create sequence s;
alter sequence s set unlogged;
\d s
alter sequence s set logged;
alter view s set logged;
create view v as select 1 as a;
alter table v set logged;
create unlogged sequence us;
create unlogged table ut (a serial, b int generated always as identity);
\ds
drop publication pub;
alter table p cluster on t_pkey;
create index idx_cl on t2 using brin (a);
alter table t2 cluster on idx_cl;
