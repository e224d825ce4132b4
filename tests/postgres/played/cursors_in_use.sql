-- what a cursor or a loop reads cannot be dropped, emptied or altered
create table t(a int primary key, b text); insert into t select g, 'b'||g from generate_series(1,5) g; create table o(a int);
create table p(a int) partition by range (a); create table p1 partition of p for values from (0) to (10); insert into p values (1);
begin; declare c cursor for select * from t order by b; truncate t; rollback;
begin; declare c cursor for select * from t order by b; alter table t add x int; rollback;
begin; declare c cursor for select * from t order by b; drop table o; fetch 1 from c; close c; drop table t; rollback;
begin; declare c cursor for select count(*) from t x; fetch all from c; truncate t; rollback;
begin; declare c cursor with hold for select * from t order by b; commit; begin; alter table t add x int; fetch 1 from c; rollback; close c;
begin; declare c cursor for select * from p; drop table p1; rollback; begin; declare c cursor for select * from p; alter table p add y int; rollback; begin; declare c cursor for select * from p1; alter table p add y int; rollback;
do $$ declare r record; begin for r in select * from t order by b loop truncate t; end loop; end $$;
do $$ declare r record; begin for r in select * from t order by b loop alter table t add y int; end loop; end $$;
do $$ declare r record; begin for r in select a from t order by b loop execute 'drop table o'; exit; end loop; end $$;
do $$ declare c refcursor; r record; begin open c for select * from t order by b; fetch c into r; drop table t; end $$;
do $$ declare c refcursor; r record; begin open c for delete from t returning *; fetch c into r; drop table t; create table t(a int); raise notice '%', r; end $$;
do $$ declare c refcursor; r record; begin open c for select * from t; close c; drop table t; end $$;
