CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10,2), d date, ts timestamp, tz timestamptz, tm time, tt timetz, iv interval, f4 real, f8 double precision, s smallint, l bigint, g boolean, v varchar(10), ch char(5), u uuid, js json, jb jsonb, by bytea, n name, o oid, lsn pg_lsn, ia int[], ta text[], na numeric[], bi bit(3), vb varbit(5), v2 varchar, "Up Case" int, "user" text, va varchar(10)[], m2 int[][], ts3 timestamp(3), q "char", tc text COLLATE "C");
CREATE TABLE u (a int, b text, d date, x int, y int, z text);
CREATE TABLE w (id bigint PRIMARY KEY, a int REFERENCES t, v varchar(20), n numeric);
CREATE SCHEMA s2;
CREATE TABLE s2.t (a int, k text);
CREATE TABLE e ();
CREATE TABLE one (a int);
