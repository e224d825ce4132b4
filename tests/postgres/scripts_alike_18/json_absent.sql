-- jsonb leaves out the nulls of JSON, too
SELECT JSON_OBJECT('a': jsonb 'null', 'b': 1 ABSENT ON NULL RETURNING jsonb);
SELECT JSON_OBJECT('a': jsonb 'null', 'b': 1 ABSENT ON NULL RETURNING json);
SELECT JSON_OBJECT('a': json 'null', 'a': 1 ABSENT ON NULL WITH UNIQUE RETURNING jsonb);
SELECT JSON_OBJECT('a': 1, 'a': json 'null' ABSENT ON NULL RETURNING jsonb);
SELECT JSON_OBJECT('a': jsonb '{"x": null}' ABSENT ON NULL RETURNING jsonb);
SELECT JSON_OBJECTAGG(k: v ABSENT ON NULL) FROM (VALUES ('a', jsonb 'null'), ('b', '1'), ('c', NULL)) t (k, v);
SELECT JSON_OBJECTAGG(k: v ABSENT ON NULL RETURNING jsonb) FROM (VALUES ('a', json 'null'), ('b', '1')) t (k, v);
SELECT JSON_OBJECTAGG(k: v ABSENT ON NULL WITH UNIQUE RETURNING jsonb) FROM (VALUES ('a', json 'null'), ('a', '1')) t (k, v);
SELECT JSON_ARRAY(json 'null', 1 ABSENT ON NULL RETURNING jsonb);
-- indexes on what is printed as a call
CREATE TABLE j (doc jsonb);
CREATE INDEX ON j (JSON_VALUE(doc, '$.name'));
CREATE INDEX ON j (JSON_QUERY(doc, '$.a'), JSON_EXISTS(doc, '$.b'));
CREATE INDEX ON j (JSON_OBJECT('a': doc));
\d j
-- REINDEX tells what it did
CREATE TABLE n (id int, b int);
CREATE INDEX ON n (id);
CREATE UNIQUE INDEX ON n (b);
\set VERBOSITY terse
REINDEX (VERBOSE) TABLE n;
REINDEX (VERBOSE) INDEX n_id_idx;
REINDEX (VERBOSE) TABLE CONCURRENTLY n;
REINDEX (VERBOSE, CONCURRENTLY) INDEX n_id_idx;
CREATE TEMP TABLE m (id int PRIMARY KEY);
REINDEX (VERBOSE) TABLE CONCURRENTLY m;
