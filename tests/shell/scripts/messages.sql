select foo;
select 1 from nosuch;
select 'abc
def' from nosuch where 'long line' = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
select 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', foo, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
select 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', foo;
select	'日本語日本語',	föö;
select '日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語', föö, '日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語';
selec
t
1;
create publication p for tables in schema nosuch;
create publication p for table nosuch with (publish = 'insert');
create publication p with (publish = 'foo');
create publication p with (nosuch = 1);
\set VERBOSITY terse
select foo;
\set VERBOSITY sqlstate
select foo;
drop table if exists nosuch;
\set VERBOSITY default
drop table if exists nosuch, nosuch2;
\set SHOW_CONTEXT always
drop table if exists nosuch;
\set SHOW_CONTEXT never
select 1/0;
set client_min_messages = error;
drop table if exists nosuch;
reset client_min_messages;
rollback;
commit;
begin;
begin;
commit;
\echo :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE
select 1 \; select 1/0 \; select 2;
select 1 as first \; drop table if exists nosuch \; select 2 as second;
set nosuch to 1;
set work_mem to 'x';
select U&'\zzzz';
select E'\xff';
select 'unterminated;
