create role mrg; create table t (a int, b text); insert into t values (1,'x'); grant all on t to mrg; alter table t enable row level security;
set role mrg;
merge into t using (values (1)) v(x) on a=x when matched then update set b='y';
merge into t using (values (1)) v(x) on a=x when matched then update set b='y' when not matched then insert values (x);
merge into t using (values (1)) v(x) on a=x when matched then update set b='y' when not matched then do nothing;
merge into t using (values (1)) v(x) on a=x when not matched by source then delete;
reset role; select * from t; drop table t; drop role mrg;
create temp table tt (a int, b text);
merge into tt using (values (1)) v(x) on a=x when not matched then insert values (x) returning *;
-- deferred constraints, foreign keys with actions
create table pk (a int primary key); create table fk (a int references pk on delete cascade on update cascade, b int unique deferrable initially deferred);
insert into pk values (1),(2),(3); insert into fk values (1,1),(2,2),(3,3);
merge into pk using (values (1),(2),(9)) v(x) on a=x when matched and x=1 then delete when matched then update set a=20 when not matched then insert values (x);
select * from fk order by 1; select * from pk order by 1;
merge into fk using (values (20,3),(3,2),(9,9)) v(x,y) on a=x when matched then update set b=y when not matched then insert values (x,y);
select * from fk order by 1;
merge into fk using (values (77)) v(x) on a=x when not matched then insert values (x,x);
begin; merge into fk using (values (9)) v(x) on a=x when matched then update set b=3; commit;
-- arrays, composites, domains
create type ct as (x int, y text); create domain pos as int check (value>0);
create table ad (k int, a int[], c ct, d pos);
merge into ad using (values (1)) v(x) on k=x when not matched then insert (k,a[1],a[2],c.x,d) values (x,5,6,7,1);
merge into ad using (values (1)) v(x) on k=x when matched then update set a[2]=9, c.y='yy', d=2;
merge into ad using (values (1)) v(x) on k=x when matched then update set d=-1;
merge into ad using (values (1)) v(x) on k=x when matched then update set (a[3],c.x)=(select 1,2) returning *;
select * from ad;
-- conditions with volatile functions, params, whole rows
create sequence sq;
create table vt (a int, n int default nextval('sq'), ts timestamptz default '2020-01-01');
merge into vt using generate_series(1,3) g on false when not matched and g<>2 then insert (a) values (g) returning a, n;
merge into vt using generate_series(1,3) with ordinality as g(x,o) on a=x when matched and vt is not null and g.o=3 then delete when not matched then insert values (x, default, default);
merge into vt v using vt w on v.a=w.a and v.n=w.n when matched then update set n=w.n+100 returning v, w;
-- NULL conditions
merge into vt using (values (null::int)) g(x) on a=x when matched then delete when not matched and null then insert values (1) when not matched then insert values (x,0);
select a,n from vt order by a nulls first, n;
-- subquery in source with ctes
with recursive r(n) as (select 1 union all select n+1 from r where n<3) select count(*) from r;
with c as (select 1 as x), d as materialized (select x+1 as x from c) merge into vt using (select * from c union all select * from d) q on a=q.x when matched and exists (select from d where d.x=vt.a) then update set n=-(select max(x) from d) when not matched by source then update set n=(select x from c) returning a, n, (select count(*) from c);
create view vvv as select * from vt; 
create function trg() returns trigger language plpgsql as $$ begin new.n := 5; return new; end $$;
create trigger tg before insert or update on vt for each row when (new.n is distinct from 5) execute function trg();
merge into vvv using (values (2),(70)) g(x) on a=x when matched then update set n=8 when not matched then insert values (x,9) returning merge_action(), vvv.a, vvv.n;
set default_transaction_read_only=on; merge into vt using (values (1)) v(x) on a=x when matched then delete; reset default_transaction_read_only;
lock table vt in share mode;
\set ECHO errors
merge into vt using (values (1)) v(x) on a=x when matched then delete;
\echo :ROW_COUNT :SQLSTATE
merge into vt using (values (1)) v(x) on a=x when matched delete;
merge into vt using (values (1)) v(x) when matched then delete;
merge into vt using (values (1)) v(x) on true;
merge into vt using vt, vt v on true when matched then delete;
merge vt using vt v on true when matched then delete;
merge into vt using (values (1)) v(x) on true when matched by source then delete;
merge into vt using (values (1)) v(x) on true when not matched then insert (a) default values;
merge into vt using (values (1)) v(x) on true when not matched then insert values (1),(2);
merge into vt using (values (1)) v(x) on true when matched then update set a=1 where true;
