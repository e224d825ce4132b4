create table t (a int primary key, b text);
insert into t values (1,'one'),(2,'two'),(3,'three');
-- control
do $$ declare i int; begin for i in 1..3 loop raise notice 'i=%', i; end loop; end $$;
do $$ begin for i in reverse 10..1 by 3 loop raise notice 'i=%', i; end loop; raise notice '%', found; end $$;
do $$ begin for i in 1..0 loop raise notice 'i=%', i; end loop; raise notice '%', found; end $$;
do $$ declare i int := 0; begin loop i := i + 1; exit when i > 3; continue when i = 2; raise notice '%', i; end loop; end $$;
do $$ declare r record; begin for r in select * from t order by a loop raise notice '% %', r.a, r.b; end loop; end $$;
do $$ declare x int; y text; begin for x, y in select * from t order by a loop raise notice '% %', x, y; end loop; raise notice '% %', x,y; end $$;
do $$ declare r t%rowtype; begin select * into r from t where a = 2; raise notice '%', r; r.b := 'zwei'; raise notice '% %', r, r.b; end $$;
do $$ declare x t.b%type; begin select b into x from t where a = 5; raise notice '% %', x, found; end $$;
do $$ declare x t.b%type; begin select b into strict x from t where a = 5; end $$;
do $$ declare x t.b%type; begin select b into strict x from t; end $$;
do $$ declare x int; begin insert into t values (4, 'four') returning a into x; raise notice '%', x; update t set b = upper(b) where a > 2; get diagnostics x = row_count; raise notice '%', x; delete from t where a = 4; raise notice '%', found; end $$;
select * from t order by a;
do $$ begin insert into t values (1, 'dup'); exception when unique_violation then raise notice '% %', sqlstate, sqlerrm; end $$;
do $$ begin insert into t values (7, 'x'); perform 1/0; exception when division_by_zero then raise notice 'caught'; end $$;
select * from t order by a;
do $$ declare c text; m text; begin perform 1/0; exception when others then get stacked diagnostics c = pg_exception_context, m = message_text; raise notice '% | %', m, c; end $$;
do $$ <<outer>> declare x int := 1; begin declare x int := 2; begin raise notice '% %', x, outer.x; end; end $$;
do $$ begin case 3 when 1, 2 then raise notice 'a'; when 3 then raise notice 'b'; else raise notice 'c'; end case; end $$;
do $$ begin case when false then raise notice 'a'; end case; end $$;
do $$ declare a int[] := '{1,2,3}'; x int; begin foreach x in array a loop raise notice '%', x; end loop; a[2] := 9; a := a || 4; raise notice '%', a; end $$;
do $$ declare a int[] := array[[1,2],[3,4]]; x int[]; begin foreach x slice 1 in array a loop raise notice '%', x; end loop; end $$;
do $$ begin execute 'insert into t values ($1, $2)' using 10, 'ten'; execute format('update %I set b = %L where a = 10', 't', 'TEN'); end $$;
do $$ declare n int; begin execute 'select count(*) from t where a < $1' into n using 10; raise notice '%', n; end $$;
do $$ declare c cursor for select * from t order by a; r record; begin open c; loop fetch c into r; exit when not found; raise notice '%', r; end loop; close c; end $$;
do $$ declare c cursor (lo int, hi int) for select a from t where a between lo and hi order by a; x int; begin open c(1, 2); fetch c into x; raise notice '%', x; move c; fetch c into x; raise notice '% %', x, found; close c; for r in c(hi := 3, lo := 2) loop raise notice 'r %', r.a; end loop; end $$;
do $$ declare c refcursor; x int; begin open c scroll for select a from t order by a; fetch last from c into x; raise notice '%', x; fetch prior from c into x; raise notice '%', x; fetch absolute 1 from c into x; raise notice '%', x; fetch relative 2 from c into x; raise notice '%', x; fetch backward 1 from c into x; raise notice '% %', x, c; end $$;
do $$ begin assert 1 = 1; assert 1 = 2, 'math'; end $$;
do $$ begin assert null; end $$;
do $$ begin raise; end $$;
do $$ begin raise division_by_zero; end $$;
do $$ begin raise sqlstate '12345' using message = 'm', detail = 'd', hint = 'h'; end $$;
do $$ begin raise exception using errcode = 'no_such_thing'; end $$;
do $$ begin raise warning 'w %% %', null::int; raise info 'i'; raise log 'l'; raise debug 'd'; end $$;
do $$ declare a int; begin select a from t into a where a = 1; end $$;
do $$ #variable_conflict use_column
declare a int := 2; b text; begin select t.b into b from t where a = 1; raise notice '%', b; end $$;
do $$ #variable_conflict use_variable
declare a int := 2; x int; begin select count(*) into x from t where a = 2; raise notice '%', x; end $$;
do $$ begin select 1; end $$;
do $$ begin insert into nosuch values (1); end $$;
do $$ declare x int := 'a'; begin end $$;
do $$ declare x numeric(5,2) := 1.239; y varchar(3); begin raise notice '%', x; y := 'abcdef'; end $$;
do $$ declare x date := '2020-01-31'; begin x := x + interval '1 month'; raise notice '%', x; end $$;
do $$ declare x text; begin x := 5; raise notice '%', x; x := x || 1; raise notice '%', x; end $$;
do $$ declare x int; begin x := '12'::text; raise notice '%', x; x := 1.5; raise notice '%', x; end $$;
do $$ begin return 5; end $$;
do $$ begin return; raise notice 'no'; end $$;
do $$ begin exit; end $$;
do $$ begin <<a>> begin exit a; raise notice 'x'; end; raise notice 'y'; end $$;
do $$ begin <<a>> loop <<b>> loop exit a; end loop; end loop a; raise notice 'y'; end $$;
do $$ begin loop exit; end loop zz; end $$;
do $$ begin commit; end $$;
begin; do $$ begin commit; end $$; rollback;
do $$ begin insert into t values (20, 'x'); commit; insert into t values (21, 'y'); rollback; end $$;
select * from t where a >= 20;
do $$ begin begin insert into t values (30, 'x'); commit; exception when others then raise notice '%', sqlerrm; end; end $$;
do $$ declare r record; begin r := row(1, 'a'::text); raise notice '% %', r.f1, r; r.f1 := 5; raise notice '%', r; end $$;
do $$ declare x int; begin x := (select max(a) from t); raise notice '%', x; x := count(*) from t; raise notice '%', x; x := a from t; end $$;
do $$ declare x int; begin x := 1, 2; end $$;
do $$ declare x int; begin if (select a from t) = 1 then null; end if; end $$;
do $$ declare v t; begin v := (7, 'seven'); raise notice '% %', v.a, v; insert into t values (v.*); end $$;
select * from t where a = 7;
do $$ begin perform foo(); end $$;
do $$
declare x int;
begin
  x := 1;
  -- comment
  if x = 1 then
     raise exception 'line %', 7;
  end if;
end $$;
do $$ begin
begin
 raise exception 'a';
exception when raise_exception then
 raise notice 'h';
 raise exception 'b';
end;
end $$;
do $$ begin
begin
 perform 1/0;
exception when division_by_zero then
 raise;
end;
end $$;
do $$ declare x constant int := 1; begin x := 2; end $$;
do $$ declare x int not null := 1; begin x := null; end $$;
do $$ declare x int; x text; begin end $$;
do $$ declare x int begin end $$;
do $$ begin if 1 = 1 then raise notice 'x'; end $$;
do $$ begin for i in 1..3 raise notice 'x'; end loop; end $$;
do $$ begin raise notice 'x' end $$;
do $$ declare y alias for x; begin end $$;
do $$ declare x int := 1; y alias for x; begin y := 3; raise notice '%', x; end $$;
do language plpgsql 'begin raise notice ''it''''s %'', 1; end';
do 'begin x; end';
do language sql 'x';
do language nosuch 'x';
drop table t;
