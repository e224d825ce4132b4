-- what is computed once for each row: expressions of a new index, subqueries that give several columns
\set VERBOSITY terse
create function f(a int) returns int language plpgsql immutable as $$ begin raise notice 'f %', a; return a; end $$;
create table t (a int, b int, c int);
insert into t values (1, 1, 1), (2, 2, 2), (3, null, 3);
create unique index on t (f(a));
create unique index on t (f(b)) where f(a) > 1;
create index on t (f(c), b);
drop table t;
create function g(x int) returns int language plpgsql volatile as $$ begin raise notice 'g %', x; return x; end $$;
create table t (a int primary key, b int, c int);
insert into t values (1, 1, 1);
insert into t values (1, 2, 3) on conflict (a) do update set (b, c) = (select g(excluded.b), g(excluded.c));
insert into t values (1, 2, 3) on conflict (a) do update
set (b, c) = (select g(excluded.b), g(t.c) where t.a = excluded.a) returning *;
insert into t values (1, 2, 3) on conflict (a) do update set (b, c) = row(g(excluded.b), g(t.c));
insert into t values (1, 5, 6) on conflict (a) do update
set (b, c) = (select g(x), y from (values (7, 8)) v (x, y)), a = excluded.a where g(t.a) = 1;
insert into t values (1, 5, 6) on conflict (a) do update set (b, c) = (select g(x), x from (values (7), (8)) v (x));
insert into t values (1, 5, 6) on conflict (a) do update set (b, c) = (select g(1), 2 where false) returning *;
insert into t values (2, 3, null), (3, 3, 9);
create unique index on t (f(c));
create unique index on t (f(b));
create unique index on t (f(b), c);
