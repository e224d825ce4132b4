-- What the queries of typical.txt are about.
CREATE TABLE emp (
    id int PRIMARY KEY, name text, dept int, salary numeric(10,2), hired date, boss int, rating float8,
    note varchar(20), code char(4), tags text[], extra jsonb, bonus numeric, ts timestamp, tz timestamptz, ok bool);
INSERT INTO emp SELECT i,
    CASE WHEN i % 11 = 0 THEN NULL ELSE 'name' || (i * 7 % 13) END,
    CASE WHEN i % 7 = 0 THEN NULL ELSE i % 5 END,
    (1000 + (i * 37) % 900)::numeric(10,2) / 3,
    date '2020-01-01' + (i * 13 % 700),
    CASE WHEN i > 3 THEN (i * 5) % 3 + 1 END,
    CASE WHEN i % 9 = 0 THEN NULL WHEN i = 5 THEN 'NaN'::float8 ELSE (i * i % 17)::float8 / 4 END,
    'n' || (i % 4),
    substr('abcdefgh', i % 4 + 1, i % 3 + 1),
    CASE WHEN i % 6 = 0 THEN NULL ELSE ARRAY['t' || (i % 3), 'u' || (i % 2)] END,
    CASE WHEN i % 5 = 0 THEN NULL ELSE jsonb_build_object('a', i % 3, 'b', 'x' || i) END,
    CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN (i % 3)::numeric + 0.50 WHEN 2 THEN (i % 3)::numeric(10,1)
        ELSE (i % 3)::numeric END,
    timestamp '2024-01-01 00:00:00' + make_interval(hours => i * 7),
    timestamptz '2024-03-01 00:00:00+00' + make_interval(mins => i * 77),
    CASE WHEN i % 3 = 0 THEN NULL ELSE i % 2 = 0 END
  FROM generate_series(1, 40) i;
CREATE TABLE dept (id int PRIMARY KEY, title text NOT NULL, budget bigint);
INSERT INTO dept SELECT i, 'dept' || i, i * 1000000000::bigint FROM generate_series(0, 5) i;
CREATE TABLE nums (x int, y bigint, z smallint);
INSERT INTO nums SELECT CASE WHEN i % 5 = 0 THEN NULL ELSE i % 4 END, i::bigint * i, (i % 7)::smallint
  FROM generate_series(1, 30) i;
CREATE TABLE empty (a int, b text);
CREATE TABLE reading (at date, sensor int, value numeric(6,1)) PARTITION BY RANGE (at);
CREATE TABLE reading_late PARTITION OF reading FOR VALUES FROM ('2024-03-01') TO ('2024-05-01');
CREATE TABLE reading_early PARTITION OF reading FOR VALUES FROM ('2024-01-01') TO ('2024-03-01');
CREATE TABLE reading_rest PARTITION OF reading DEFAULT;
INSERT INTO reading SELECT date '2023-12-20' + i * 9, i % 3, i / 7.0 FROM generate_series(1, 20) i;
CREATE TABLE city (name text, people int);
CREATE TABLE capital (country text) INHERITS (city);
INSERT INTO city VALUES ('Lyon', 520), ('Kyoto', 1460);
INSERT INTO capital VALUES ('Paris', 2100, 'FR'), ('Tokyo', 13900, 'JP');
CREATE VIEW well_paid AS SELECT e.id, e.name, d.title FROM emp e JOIN dept d ON d.id = e.dept WHERE e.salary > 450;
CREATE VIEW per_dept AS SELECT dept, count(*) AS n, sum(salary) AS total FROM emp GROUP BY dept;
