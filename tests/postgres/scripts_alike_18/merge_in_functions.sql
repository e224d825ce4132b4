create table t (a int primary key, b text, n int default 7);
create table s (a int, b text);
create function f1(x int) returns void begin atomic merge into t using s on t.a=s.a when matched and s.b='x' then update set b=s.b, n=x+1 when matched then delete when not matched and s.a>3 then insert (a,b) values (s.a, s.b||'!') when not matched then do nothing; end;
\sf f1
create function f2() returns setof t begin atomic merge into only t as tt using (select a, max(b) m from s group by a) q on tt.a=q.a and q.m<>'' when not matched by source and tt.n>2 then update set n=default, b='k' when not matched then insert overriding user value values (q.a) when matched then update set (b,n)=(select q.m, 3) when not matched by source then delete returning tt.a, tt.b, tt.n; end;
\sf f2
create function f3() returns table(x text, y int) begin atomic merge into t using s b join s c using (a) on t.a=c.a when matched then do nothing when not matched then insert default values returning merge_action(), t.a; end;
\sf f3
create function f4() returns setof text begin atomic with w as (select 1 one) merge into t using w on t.a=one when matched then update set (a,b)=row(1,'e') when not matched then insert values (one, 'ins') returning merge_action(); end;
\sf f4
select pg_get_functiondef('f4'::regproc);
insert into s values (1,'x'),(4,'y'),(2,'z');
insert into t values (1,'one');
select f1(9); select * from t order by 1;
select f2();
select * from f3();
select f4();
select * from t order by 1;
alter table t rename to t9; alter table t9 rename b to bb;
\sf f2
select f4();
drop table t9;
create function sq(int) returns setof text language sql as $$ merge into t9 using s on t9.a=s.a and s.a<$1 when matched then update set bb=bb||'+' when not matched then insert values (s.a+10) returning merge_action()||t9.a $$;
select sq(3);
create function pl(int) returns int language plpgsql as $$ declare n int; a text; begin merge into t9 using (select $1 as x) v on v.x=t9.a when matched then delete when not matched then insert values (v.x); get diagnostics n=row_count; raise notice 'found % n %', found, n; merge into t9 using (values (1)) v(x) on x=a and false when matched then delete; raise notice 'found %', found;
merge into t9 using (select $1+1 as x) v on v.x=t9.a when not matched then insert values (v.x) returning merge_action() into a; raise notice '%', a; 
merge into t9 using (values (91),(92)) v on column1=a when not matched then insert values (column1) returning a into strict n; return n; end $$;
select pl(70);
do $$ declare r record; begin for r in merge into t9 using (values (91),(92)) v(q) on q=a when not matched then insert values (q) returning merge_action() m, a loop raise notice '%', r; end loop; for r in execute 'merge into t9 using (values (91),(92)) v(q) on q=a when matched then update set n=n+$1 returning *' using 5 loop raise notice '%', r; end loop; end $$;
do $$ begin execute 'merge into t9 using (values (91)) v(q) on q=a when matched then delete'; raise notice '%', found; end $$;
do $$ declare c cursor for select * from t9 for update; begin for r in c loop merge into t9 using (values (1)) v on true when matched and current of c then delete; end loop; end $$;
prepare p(int,text) as merge into t9 using (values ($1,$2)) v(x,y) on a=x when matched then update set bb=y when not matched then insert values (x,y) returning merge_action(), a, bb;
execute p(1,'exe'); execute p(1000,'exe2'); execute p(1000,'exe3');
prepare pp as merge into t9 using (select $1 as x) v on a=x when matched and n=$2 then update set bb=$3 when not matched then insert values ($4);
select name, parameter_types, result_types from pg_prepared_statements order by 1;
copy (merge into t9 using (values (1),(77)) v(x) on a=x when matched then update set n=0 when not matched then insert values (x) returning merge_action(), a, n) to stdout;
copy (merge into t9 using (values (1),(77)) v(x) on a=x when matched then update set n=0) to stdout;
\gdesc
merge into t9 using (values (1),(77)) v(x) on a=x when matched then update set n=0 returning merge_action(), t9.*, v.* \gdesc
merge into t9 using (values (1),(77)) v(x) on a=x when matched then update set n=0 \gdesc
select * from (merge into t9 using (values (1)) v(x) on a=x when matched then delete returning *) z;
create view vw as with m as (merge into t9 using (values (1)) v(x) on a=x when matched then delete returning *) select * from m;
with m as (merge into t9 using (values (1)) v(x) on a=x when matched then update set n=55 returning t9.n, x), d as (delete from t9 where a>100 returning a) select m.n, m.x, d.a from m, d;
with m as (merge into t9 using (values (1)) v(x) on a=x when matched then update set n=56) select 1;
with m as (merge into t9 using (values (1)) v(x) on a=x when matched then update set n=57) select * from m;
with i as (insert into t9 values (500) returning a) merge into t9 using i on t9.a=i.a when matched then delete when not matched then insert values (i.a+1) returning merge_action(), t9.a;
select * from t9 order by a;
begin; declare c cursor for merge into t9 using s on true when matched then delete;
rollback;
