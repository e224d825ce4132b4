-- COPY shows the line of a duplicate key where it inserts rows one by one
create function tr() returns trigger language plpgsql as $$ begin return new; end $$;
create table p(a int primary key, b text) partition by range (a); create table p1 partition of p for values from (0) to (10); create table p2 partition of p for values from (10) to (20);
create table q(a int primary key, b text);
\echo none
copy p from stdin;
1	x
1	y
11	z
\.
copy q from stdin;
1	x
1	y
\.
\echo before row on the parent
create trigger t before insert on p for each row execute function tr();
copy p from stdin;
1	x
1	y
11	z
\.
alter table p disable trigger t;
copy p from stdin;
1	x
1	y
11	z
\.
drop trigger t on p;
\echo before row on a partition
create trigger t before insert on p1 for each row execute function tr();
copy p from stdin;
1	x
1	y
11	z
\.
copy p1 from stdin;
1	x
1	y
\.
drop trigger t on p1;
\echo new table on the parent
create trigger t after insert on p referencing new table as n execute function tr();
copy p from stdin;
1	x
1	y
11	z
\.
alter table p disable trigger t;
copy p from stdin;
1	x
1	y
11	z
\.
drop trigger t on p;
create trigger t after insert on p1 referencing new table as n execute function tr();
copy p from stdin;
1	x
1	y
11	z
\.
copy p1 from stdin;
1	x
1	y
\.
drop trigger t on p1;
create trigger t after insert on q referencing new table as n execute function tr();
copy q from stdin;
1	x
1	y
\.
drop trigger t on q; create trigger t after insert on q for each row execute function tr();
copy q from stdin;
1	x
1	y
\.
create trigger t2 before insert on q for each row execute function tr();
copy q from stdin;
1	x
1	y
\.
\echo stmt
create trigger t before insert on p execute function tr();
copy p from stdin;
1	x
1	y
11	z
\.
create trigger t3 after insert on p for each row execute function tr();
copy p from stdin;
1	x
1	y
11	z
\.
