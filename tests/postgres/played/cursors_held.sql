-- errors in the rows of cursors that COMMIT holds
create table t(a int primary key, b text); insert into t select g, 'b'||g from generate_series(1,5) g;
begin; declare c cursor with hold for select a, 10/(a-3) from t; insert into t values (77,'x'); commit; select * from pg_cursors; select * from t where a = 77;
begin; declare c cursor with hold for select a, 10/(a-30) from t where a < 3; commit; fetch all from c; fetch backward all in c; close c;
do $$ declare r record; begin for r in select 1/(a-3) as x from t loop raise notice '%', r; commit; end loop; end $$;
do $$ declare r record; begin for r in select a as x from t order by 1 loop raise notice '%', r; commit; end loop; end $$;
do $$ declare c refcursor := ''; begin open c for select 1; end $$;
