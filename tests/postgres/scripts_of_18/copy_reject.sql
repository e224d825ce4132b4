create table t (a int, b text);
copy t from stdin (on_error ignore);
1	a
x	b
2	c
y	d
\.
copy t from stdin (on_error ignore, log_verbosity silent);
x	b
3	c
\.
copy t from stdin (on_error ignore, log_verbosity verbose);
x	b
3	c
99999999999	c
\.
copy t from stdin (on_error ignore, log_verbosity default, reject_limit 1);
x	b
3	c
y	c
\.
copy t from stdin (on_error ignore, reject_limit 2, log_verbosity verbose);
x	b
3	c
y	c
\.
copy t from stdin (on_error ignore, reject_limit 2, log_verbosity silent);
x	b
3	c
y	c
z	c
\.
copy t from '/nowhere' (reject_limit 2);
copy t from '/nowhere' (on_error stop, reject_limit 2);
copy t from '/nowhere' (on_error ignore, reject_limit 0);
copy t from '/nowhere' (on_error ignore, reject_limit -1);
copy t from '/nowhere' (on_error ignore, reject_limit 'x');
copy t from stdin (on_error ignore, reject_limit '5');
x	b
\.
copy t from '/nowhere' (on_error ignore, reject_limit 1.5);
copy t from '/nowhere' (on_error ignore, reject_limit 99999999999999999999);
copy t from '/nowhere' (on_error ignore, reject_limit);
copy t from '/nowhere' (on_error ignore, reject_limit 1, reject_limit 2);
copy t from '/nowhere' (on_error ignore, log_verbosity quiet);
copy t from '/nowhere' (on_error, log_verbosity silent);
copy t from stdin (on_error stop, log_verbosity silent);
x	b
\.
copy t to stdout (on_error ignore);
copy t to stdout (reject_limit 3);
copy t to stdout (log_verbosity silent);
copy t from '/nowhere' (format binary, on_error ignore);
copy t from '/nowhere' (format binary, on_error stop);
copy t from stdin (format csv, on_error ignore, reject_limit 5, header);
a,b
x,1
1,"two
lines"
"3","x"
3 4,5
\.
copy t from stdin (format csv, on_error ignore, log_verbosity verbose, header match);
a,b
x,1
,2
"",3
\.
copy t from stdin (on_error ignore, log_verbosity verbose);
1
\.
copy t from stdin (on_error ignore, log_verbosity verbose);
1	2	3
\.
create domain d as int check (value > 0);
create table e (a d not null, b timestamp, c int[]);
copy e from stdin (on_error ignore, log_verbosity verbose);
1	2020-01-01	{1,2}
-1	2020-01-01	{1,2}
1	nodate	{1,2}
1	2020-01-01	{1,x}
1	2020-01-01	{1
\N	2020-01-01	{1}
\.
create view vt as select a, b from t;
copy vt from '/nowhere' (on_error ignore);
copy t from stdin (on_error ignore) where a > 5;
x	b
9	c
4	d
\.
copy t (b, a) from stdin (on_error ignore, log_verbosity verbose, null 'NIL');
b	NIL
q	r
\.
select * from t order by 1, 2;
select * from e order by 1;
create materialized view m as select 1 as a;
copy m to stdout;
create materialized view n as select 1 as a with no data;
copy n to stdout;
copy vt to stdout;
create table p (a int) partition by list (a);
copy p to stdout;
copy t from stdin (force_null *, format csv);
1,""
\.
copy t from stdin (format csv, force_not_null *, force_null (b));
2,""
\.
copy t to stdout (format csv, force_quote *);
