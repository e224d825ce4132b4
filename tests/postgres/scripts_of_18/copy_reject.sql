create table t (a int, b int);
copy t from stdin with (on_error ignore, reject_limit 2);
1	1
x	2
3	y
4	4
\.
select * from t;
copy t from stdin with (on_error ignore, reject_limit 1);
x	1
5	5
y	2
\.
copy t from stdin with (on_error ignore, log_verbosity silent);
x	1
6	6
\.
copy t from stdin with (on_error ignore, log_verbosity verbose, reject_limit '3');
x	1
7	7
\.
select * from t;
