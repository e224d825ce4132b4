create table r (a int, b text) with (fillfactor=50, toast.autovacuum_enabled=false, autovacuum_enabled=false);
\d+ r
alter table r set (toast.vacuum_truncate = on, parallel_workers=3, fillfactor=60);
\d+ r
alter table r reset (toast.autovacuum_enabled, fillfactor);
\d+ r
alter table r reset (foo.bar);
alter table r reset (bar);
alter table r set (oids = true);
create table r2 (a int) with (oids = true);
create table r2 (a int) with (oids = false);
create table r3 (a int) with (fillfactor=50, toast.fillfactor=20);
create table r3 (a int) with (x.y.z=2);
create table r3 (a int) with (user_catalog_table=true, parallel_workers=-1);
create table r3 (a int) with ("a=b"=2);
create table r3 (a int) with (vacuum_index_cleanup=maybe);
create table r3 (a int) with (vacuum_index_cleanup=off);
create table p3 (a int) partition by list (a) with (fillfactor=3);
create index on r (a) with (fillfactor=9);
create index on r (a) with (deduplicate_items=maybe);
create index ri on r (a) with (deduplicate_items=off, fillfactor = 20);
\d ri
\d+ r
alter index ri set (fillfactor=30);
alter index ri reset (fillfactor);
alter index ri set (foo=30);
create view v with (security_barrier, security_invoker=false) as select * from r;
\d+ v
alter view v set (security_barrier=off);
alter view v reset (security_barrier);
alter view v set (fillfactor=20);
alter table v set (fillfactor=20);
alter view v set (check_option=local);
\d+ v
alter table r alter a set (n_distinct=-0.5);
alter table r alter a set (n_distinct=-5);
alter table r alter a set (foo=-5);
\d+ r
alter table r alter a reset (n_distinct);
alter view v alter a set (n_distinct=1);
alter sequence s set (fillfactor=1);
create sequence s;
alter sequence s set (fillfactor=10);
alter table s set (fillfactor=10);
create table w with (fillfactor=10) as select 1 as a where false;
create table w2 without oids as select 1 as a where false;
create table w3 (a) with oids as select 1;

