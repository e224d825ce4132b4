-- cursors over statements that change rows: they run at the first FETCH, with the values of OPEN
create table t(a int primary key, b text);
create function tr() returns trigger language plpgsql as $$ begin raise notice '% % % %', tg_name, tg_when, tg_op, coalesce(new, old); return coalesce(new,old); end $$;
create trigger b before insert or update or delete on t for each row execute function tr();
create trigger z after insert or update or delete on t for each row execute function tr();
create trigger s after insert or update or delete on t execute function tr();
insert into t values (0,'zero');
do $$ declare c refcursor; r record; begin
 open c for insert into t values (1,'x'),(2,'y') returning *;
 raise notice 'opened %', (select count(*) from t);
 fetch c into r; raise notice 'r %', r;
 raise notice 'count %', (select count(*) from t);
 fetch c into r; raise notice 'r %', r;
 fetch c into r; raise notice 'r % %', r, found;
 close c; end $$;
do $$ declare c cursor for update t set b=b||'!' returning a,b; r record; begin
 open c;
 raise notice 'opened %', (select string_agg(b,',') from t);
 fetch c into r; raise notice 'r %', r;
 move c; 
 close c; 
 for r in c loop raise notice 'loop %', r; end loop;
 end $$;
do $$ declare c refcursor; r record; begin
 open c for delete from t where a=1 returning *;
 close c;
 raise notice 'n %', (select count(*) from t);
 open c no scroll for delete from t where a=1 returning *;
 fetch c into r; raise notice '%', r; close c;
 end $$;
do $$ declare c refcursor; r record; begin
 open c for execute 'delete from t where a=$1 returning *' using 2;
 raise notice 'n %', (select count(*) from t);
 fetch c into r; raise notice '%', r; 
 end $$;
do $$ declare c refcursor; r record; begin
 open c for with q as (insert into t values (5,'five') returning *) select * from q;
 raise notice 'n %', (select count(*) from t);
 fetch c into r; raise notice '%', r; 
 end $$;
do $$ declare c refcursor; r record; begin
 open c for insert into t values (9,'x');
 fetch c into r; raise notice '%', r; 
 end $$;
do $$ declare c refcursor; r record; begin
 open c for insert into t values (0,'x') returning a;
 raise notice 'open';
 fetch c into r; raise notice '%', r; 
 end $$;
do $$ declare c refcursor; r record; n int; begin
 open c for select * from t order by a for update;
 raise notice 'open';
 fetch c into r; raise notice '%', r; 
 get diagnostics n = row_count; raise notice '%', n;
 end $$;
create function f() returns refcursor language plpgsql as $$ declare c refcursor := 'cc'; begin open c for insert into t values (20,'f'),(21,'g') returning *; return c; end $$;
begin; select f(); select name, statement, is_scrollable, is_holdable from pg_cursors order by 1; fetch 1 from cc; select * from t; fetch all from cc; move backward all in cc; fetch cc; commit;
begin; select f(); commit; select * from t;
begin; select f(); rollback; select * from t;
begin; select f(); savepoint s; fetch 1 from cc; rollback to s; fetch 1 from cc; rollback;
begin; select f(); fetch 0 from cc; fetch backward 1 from cc; rollback;
begin; select f(); fetch absolute 2 from cc;  fetch absolute 1 from cc; rollback;
create function rf() returns refcursor language plpgsql stable as $$ declare c refcursor := 'cc'; begin open c for insert into t values (20,'f'),(21,'g') returning *; return c; end $$;
begin; select rf(); fetch all from cc; rollback;
