-- rows in stored expressions follow what ALTER TYPE does to the attributes
create type c as (a int, b text);
create view v as select '(1,x)'::c as lit, row(1,'x')::c as made, '{"(1,x)"}'::c[] as arr, array['(1,x)'::c] as arr2;
create table t (n int, x c default '(1,x)', y c[] default '{"(1,x)"}');
alter table t alter x set default row(2,'y')::c;
create function f() returns c begin atomic; select '(1,x)'::c; end;
create function g(p c default '(1,x)') returns c language sql as 'select p';
select * from v; select f(), g();
insert into t (n) values (1);
alter type c add attribute z int;
select * from v; select f(), g();
insert into t (n) values (2);
select * from t order by n;
\d t
\d+ v
alter type c rename attribute a to aa;
select * from v; select f(), g();
insert into t (n) values (3);
\d t
alter type c drop attribute b;
select * from v; select f(), g();
insert into t (n) values (4);
select * from t order by n;
\d t
\d+ v
