-- MERGE in WITH, beside other statements
\set VERBOSITY terse
create table t (a int primary key, b text);
create table u (a int primary key, b text);
create table l (n serial, what text);
create function st() returns trigger language plpgsql as $$ begin raise notice '% % % % t=% u=% l=%', tg_name, tg_when, tg_op, tg_table_name, (select count(*) from t), (select count(*) from u), (select count(*) from l); return null; end $$;
create function rw() returns trigger language plpgsql as $$ begin raise notice '% % % % old % new % t=% u=%', tg_name, tg_when, tg_op, tg_table_name, old, new, (select count(*) from t), (select count(*) from u); return coalesce(new, old); end $$;
create function tt() returns trigger language plpgsql as $$ begin
 if tg_op <> 'INSERT' then raise notice '% % old %', tg_name, tg_table_name, (select string_agg(o::text, ' ' order by o) from o); end if;
 if tg_op <> 'DELETE' then raise notice '% % new %', tg_name, tg_table_name, (select string_agg(n::text, ' ' order by n) from n); end if;
 return null; end $$;
create trigger tbs before insert or update or delete on t execute function st();
create trigger tas after insert or update or delete on t execute function st();
create trigger tbr before insert or update or delete on t for each row execute function rw();
create trigger tar after insert or update or delete on t for each row execute function rw();
create trigger ubs before insert or update or delete on u execute function st();
create trigger uas after insert or update or delete on u execute function st();
create trigger ubr before insert or update or delete on u for each row execute function rw();
create trigger uar after insert or update or delete on u for each row execute function rw();
create trigger zti after insert on t referencing new table as n execute function tt();
create trigger ztu after update on t referencing new table as n old table as o execute function tt();
create trigger ztd after delete on t referencing old table as o execute function tt();
create trigger zui after insert on u referencing new table as n execute function tt();
create trigger zuu after update on u referencing new table as n old table as o execute function tt();
create trigger zud after delete on u referencing old table as o execute function tt();

insert into t values (1,'a'),(2,'b'),(3,'c');
insert into u values (1,'u1'),(2,'u2');
merge into t using (values (1),(9)) v(x) on a = x when matched then update set b = 'm' when not matched then insert values (x) returning merge_action(), t.*;
with w as (insert into u values (3,'w3') returning *) merge into t using w on t.a = w.a when matched then update set b = w.b when not matched then insert values (w.a, w.b);
with w as (merge into t using (values (1),(10)) v(x) on a = x when matched then delete when not matched then insert values (x) returning merge_action() m, t.*) insert into u select a + 100, m from w;
with w as (merge into t using (values (2),(11)) v(x) on a = x when matched then update set b = 'm4' when not matched then insert values (x)), x as (insert into t values (12) returning a) select * from x;
with w as (merge into t using (values (2),(13)) v(x) on a = x when matched then update set b = 'm5' when not matched then insert values (x) returning t.a), x as (update t set b = 'x' where a = 3 returning a) merge into u using (select * from w union all select * from x) s on u.a = s.a when matched then delete when not matched then insert values (s.a, 'new');
with w as (merge into t using (values (99)) v(x) on a = x when matched then update set b = 'm6') delete from u where a = 1;
select * from t order by 1; select * from u order by 1;
