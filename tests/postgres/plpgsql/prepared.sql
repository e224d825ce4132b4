-- PREPARE and EXECUTE in bodies
create table tp (a int, b text);
create function prep() returns int language plpgsql as $$ declare x int; r record; begin execute 'prepare pp as select $1 + 1 as q'; execute 'execute pp(4)' into x; execute 'prepare pi (int, text) as insert into tp values ($1, $2)'; execute 'execute pi(7, ''seven'')'; execute format('execute pi(%s, %L)', x, 'dyn'); for r in execute 'execute pp(10)' loop raise notice '%', r.q; end loop; for r in select name, statement, parameter_types from pg_prepared_statements order by 1 loop raise notice '%', r; end loop; execute 'deallocate pp'; return x; end $$; select prep(); table tp;
do $$ declare x int; begin prepare ps(int) as update tp set a = a + $1 where b = 'dyn' returning a; execute 'execute ps(100)' into x; raise notice '%', x; execute 'execute ps(''x'')'; end $$;
do $$ begin execute 'execute nosuch(1)'; end $$; do $$ begin execute 'execute pi(1)'; end $$;
create function cur() returns void language plpgsql as $$ begin declare cc cursor with hold for select * from tp order by a; end $$; create function cur() returns void language plpgsql as $$ begin execute 'declare cc cursor with hold for select * from tp order by a'; end $$; select cur(); select name, statement, is_holdable from pg_cursors; fetch all from cc; close cc;
create function sx() returns int language sql as $$ execute pi(9, 'x'); select 1 $$; select sx(); table tp;
prepare nest as select prep(); deallocate pi; execute nest; deallocate all; do $$ begin execute 'create table ctas as execute nosuch'; end $$;
prepare src as select 5 as five; do $$ begin execute 'create temp table ctas as execute src'; end $$; table ctas;
create function rd() returns int language plpgsql stable as $$ declare x int; begin execute 'execute src' into x; return x; end $$; select rd(); create function rdx() returns int language plpgsql stable as $$ begin execute 'execute wr'; return 1; end $$; prepare wr as insert into tp values (0, 'w'); select rdx();
