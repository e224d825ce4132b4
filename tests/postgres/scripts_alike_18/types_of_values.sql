-- labels of an enum that is new in the transaction; NULL in domains inside rows and arrays
begin; create type m2 as enum ('p'); alter type m2 add value 'q'; select 'q'::m2; commit;
begin; select 1; create type m3 as enum ('p'); alter type m3 rename to m4; alter type m4 add value 'q'; select 'q'::m4; commit;
create type inner_t as (x int, y int);
create type outer_t as (i inner_t, n text);
select '((3,4),w)'::outer_t;
select '(1,2'::inner_t; select '(1,a)'::inner_t; select '(a,b,c)'::inner_t; select '(1)'::inner_t; select '(1,2)x'::inner_t; select '(1,2,3)'::inner_t; select '(,)'::inner_t; select '()'::inner_t; select '("(1,2)",w)'::outer_t;
create domain nn as int not null; create type pn as (a nn, b int);
select '(,)'::pn;
select '(1,)'::pn;
create type m6 as enum ('a'); begin; alter type m6 rename to m7; alter type m7 add value 'b'; select 'b'::m7; rollback;
select '{NULL}'::nn[];
select '{1,NULL}'::nn[];
select array[null]::nn[];
create domain evn as int check (value is not null and value % 2 = 0);
create type pe as (a evn, b evn[]);
select '(,)'::pe;
select '(2,"{2,NULL}")'::pe;
create table tpe (p pe);
copy tpe from stdin;
(,)
\.
copy tpe from stdin;
(2,"{4}")
\.
select row(null,null)::pe;
-- a label of a type of the same transaction
BEGIN;
CREATE TYPE bogus AS ENUM ('good');
ALTER TYPE bogus ADD VALUE 'ugly';
SELECT 'ugly'::bogus, enum_range(null::bogus);
ROLLBACK;
