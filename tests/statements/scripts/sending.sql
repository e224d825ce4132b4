-- The binary form of values, as types' send functions give it; receive functions take nothing that SQL can say.
\pset format unaligned
\pset tuples_only on
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE t (a int, b text, c numeric);
SELECT boolsend(true), int2send(-2::int2), int4send(1), int8send(-1), oidsend(7), float4send(1.5), float8send('-0');
SELECT float8send('NaN'), numeric_send(0), numeric_send(-12345.6700), numeric_send('NaN'), numeric_send('-Infinity');
SELECT textsend('é€'), varcharsend('a'), bpcharsend('ab'::char(4)), namesend('n'), charsend('x'), byteasend('\x00ff');
SELECT unknownsend('u'), cstring_send('c'), void_send(NULL), textsend(NULL), pg_typeof(textsend('a'));
SELECT date_send('2024-02-29'), date_send('infinity'), date_send('0044-03-15 BC'), time_send('12:34:56.789'), timetz_send('24:00+02:30');
SELECT timestamp_send('2024-02-29 12:00'), timestamptz_send('-infinity'), interval_send('1 year -2 days 03:04:05.6'), interval_send('infinity');
SELECT uuid_send('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), bit_send(B'10101'), varbit_send(B''), varbit_send(B'111100001');
SELECT inet_send('10.1.2.3/8'), inet_send('::1'), cidr_send('10.0.0.0/8'), macaddr_send('08:00:2b:01:02:03'), macaddr8_send('08:00:2b:01:02:03:04:05');
SELECT json_send('{"a": 1}'), jsonb_send('{"b":1,"a":[true,null]}'), jsonpath_send('$.a[*]?(@ > 1)'), xml_send('<a/>');
SELECT pg_lsn_send('1/2'), tidsend('(1,2)'), xidsend('7'), cidsend('8'), xid8send('9'), pg_snapshot_send('10:20:10,14'), txid_snapshot_send('10:20:10,14');
SELECT regclasssend('pg_class'), regtypesend('int4'), regprocsend('now'), regproceduresend('abs(int)'), regopersend('||/');
SELECT regoperatorsend('+(int,int)'), regrolesend('postgres'), regnamespacesend('pg_catalog'), regcollationsend('"C"'), regconfigsend('simple');
SELECT int2vectorsend('1 2'), oidvectorsend('3'), array_send('{1,NULL,3}'::int[]), array_send('{{a,b},{c,d}}'::text[]), array_send('[5:6]={1,2}'::int8[]);
SELECT array_send('{}'::date[]), length(array_send(ARRAY[ROW(1, 'a')::pair])), array_send(ARRAY['sad'::mood]) IS NULL, enum_send('glad'::mood), enum_send('sad'::mood);
SELECT record_send(ROW(1::int2, NULL::text, 'x'::text, true)), record_send(ROW()), record_send(ROW('2020-01-01'::date, ARRAY[1]));
SELECT range_send('[1,5)'::int4range), range_send('empty'::int4range), range_send('(,2020-01-01]'::daterange), range_send(numrange(NULL, NULL));
SELECT multirange_send('{[1,3),[5,7)}'::int4multirange), multirange_send('{}'::nummultirange), int4send(5::positive);
INSERT INTO t VALUES (1, 'x', 1.10), (NULL, NULL, NULL);
SELECT int4send(a), textsend(b), numeric_send(c), length(array_send(ARRAY[a])) FROM t;
SELECT a FROM t WHERE int4send(a) = '\x00000001' ORDER BY textsend(b);
CREATE TABLE made (a int, b bytea GENERATED ALWAYS AS (int4send(a)) STORED);
INSERT INTO made VALUES (258);
TABLE made;
SET client_encoding = latin1;
SELECT textsend(chr(233)), json_send(to_json(chr(233))), array_send(ARRAY[chr(233)]), record_send(ROW(chr(233))), textsend(chr(8364));
RESET client_encoding;
SELECT int4recv('x');
\echo :LAST_ERROR_SQLSTATE
SELECT textrecv(NULL);
SELECT int4recv('\x00000001'::bytea);
SELECT array_recv('x', 23, -1), record_recv('x', 0, -1);
SELECT internal_in('x');
SELECT NULL::internal;
SELECT 1::internal;
CREATE VIEW v AS SELECT numeric_recv('x', 0, -1);
SELECT int4send('x');
SELECT int4send(1, 2);
SELECT nosuch_send(1);
