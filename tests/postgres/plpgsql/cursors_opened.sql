-- what OPEN says, and what FETCH: scrolling, several statements, functions that are not volatile, privileges
create table t(a int primary key, b text);
insert into t select g, 'b'||g from generate_series(1,4) g;
create domain dd as int check (value > 0);
create table td(d dd, e text);
do $$ declare c refcursor; r record; begin
 open c for select count(*) from t; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for select * from t; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for select * from t order by b; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for select * from t for update; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c scroll for select * from t for update; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c scroll for select count(*) from t; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c cursor for select count(*) from t; r record; begin
 open c; fetch c into r; raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch last from c into r; raise notice '%', r; 
 fetch first from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for execute 'select 1; select 2'; fetch c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for execute 'select count(*) from t'; fetch c into r; raise notice '%', r; 
 raise notice '%', (select is_scrollable from pg_cursors where name = c::text);
 fetch prior from c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for execute ''; fetch c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for execute 'show datestyle'; fetch c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for execute 'create table q()'; fetch c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for execute 'select 1 into qq'; fetch c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for show datestyle; fetch c into r; raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin
 open c for update nosuch set a = 1; end $$;
do $$ declare c refcursor; r record; begin
 open c for update t set q = 1; end $$;
do $$ declare c refcursor; r record; begin
 open c for update t set a = 1/0 returning a; raise notice 'opened'; fetch c into r; end $$;
do $$ declare c refcursor; r record; begin
 open c for select 1/0 from t; raise notice 'opened'; fetch c into r; end $$;
do $$ declare c refcursor; r record; x int := 0; begin
 open c for select 1/x from t; raise notice 'opened'; fetch c into r; end $$;
do $$ declare c refcursor; r record; x int := 1; begin
 open c for update t set b = x::text where a = x returning a, x; x := 2; fetch c into r; raise notice '% %', r, (select string_agg(b,',' order by a) from t); end $$;
do $$ declare c refcursor; r record; x int := 1; begin
 open c for execute 'update t set b = $1 where a = 2 returning a, b, $1' using 'hey'; x := 2; fetch c into r; raise notice '% %', r, (select string_agg(b,',' order by a) from t); end $$;
do $$ declare c refcursor; r record; begin
 open c for insert into td values (-1,'x') returning *; raise notice 'o'; fetch c into r; end $$;
do $$ declare c refcursor; r record; begin
 open c for insert into td values (1,'x') returning *; raise notice 'o'; fetch c into r; raise notice '% %', r, pg_typeof(r.d); end $$;
do $$ declare r record; begin
 insert into td values (1,'x') returning * into r; raise notice '% %', r, pg_typeof(r.d);
 select * into r from td; raise notice '% %', r, pg_typeof(r.d);
 for r in execute 'insert into td values (1,''x'') returning *' loop raise notice '% %', r, pg_typeof(r.d); end loop;
 for r in insert into td values (1,'x') returning * loop raise notice '% %', r, pg_typeof(r.d); end loop;
 for r in execute 'select * from td limit 1' loop raise notice '% %', r, pg_typeof(r.d); end loop;
 execute 'select * from td limit 1' into r; raise notice '% %', r, pg_typeof(r.d);
 with q as (insert into td values (1,'x') returning *) select * into r from q; raise notice '% %', r, pg_typeof(r.d);
 end $$;
create function st(k int) returns text language plpgsql stable as $$ declare c refcursor; r record; begin
 if k = 1 then open c for select * from t for update; end if;
 if k = 2 then open c for with q as (update t set b = '1' returning *) select * from q; end if;
 if k = 3 then open c for execute 'update t set b = 1'; end if;
 if k = 4 then open c for execute 'update t set b = ''1'' returning *'; end if;
 if k = 5 then open c for select * from t; end if;
 if k = 6 then open c for explain select * from t; end if;
 if k = 7 then open c for explain analyze update t set b = '1'; end if;
 if k = 8 then for r in update t set b = '1' returning * loop end loop; end if;
 if k = 9 then for r in select * from t for share loop end loop; end if;
 if k = 10 then perform * from t for share;  end if;
 return 'ok'; end $$;
select st(1);
select st(2);
select st(3);
select st(4);
select st(5);
select st(6);
select st(7);
select st(8);
select st(9);
select st(10);
create role joe; grant insert on t to joe; 
set role joe;
do $$ declare c refcursor; r record; begin
 open c for update t set b = '1' returning *; raise notice 'o'; fetch c into r;  end $$;
do $$ declare c refcursor; r record; begin
 open c for insert into t values (99) returning a; raise notice 'o'; fetch c into r;  end $$;
do $$ declare c refcursor; r record; begin
 open c for select * from t; raise notice 'o'; fetch c into r;  end $$;
reset role; 
do $$ declare c cursor (x int) for insert into t values (x, 'c') returning *; r record; begin
 open c(31); fetch c into r; raise notice '%', r; close c; for r in c(32) loop raise notice '%', r; end loop;
 for r in c(x := 31) loop raise notice '%', r; end loop; end $$;
do $$ declare c cursor (x int) for insert into t values (x, 'c') returning *; r record; begin
 open c(41); begin fetch c into r; raise notice '%', r; raise division_by_zero; exception when division_by_zero then raise notice 'caught'; end;
 fetch c into r; raise notice '% %', r, found;
 raise notice '%', (select count(*) from t where a = 41);
 end $$;
do $$ declare c cursor (x int) for insert into t values (x, 'c') returning *; r record; begin
 c := 'named'; open c(1); begin fetch c into r; raise notice '%', r; exception when unique_violation then raise notice 'caught'; end;
 fetch c into r; raise notice '% %', r, found;
 end $$;
do $$ declare c cursor for update t set b = b || '.' where a < 3 returning *; r record; begin
 c := 'named'; open c; fetch c into r; update t set b = 'cur' where current of c;
 end $$;
do $$ declare c cursor for update t set b = b || '.' where a < 3 returning *; r record; begin
 c := 'named'; open c; update t set b = 'cur' where current of c;
 end $$;
do $$ declare c cursor for update t set b = b || '.' where a < 3 returning *; r record; begin
 open c; truncate t; fetch c into r; raise notice '%', r;
 end $$;
do $$ declare c cursor for update t set b = b || '.' where a < 3 returning *; r record; begin
 open c; alter table t add x int default 1; fetch c into r; raise notice '%', r;
 end $$;
