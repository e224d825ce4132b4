"""`pgrepl diff` of a catalog with a real server."""

from __future__ import annotations

import pytest

from pgrepl.cli import run
from tests.postgres.served import Served

SCHEMA = """
CREATE SCHEMA s;
CREATE TABLE s.t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a varchar(20) COLLATE "C" DEFAULT 'x',
    b numeric(10,2) CHECK (b > 0), c int GENERATED ALWAYS AS (1 + 1) STORED);
CREATE INDEX i ON s.t (a) WHERE b > 5;
CREATE TABLE p (a int, d date DEFAULT '2020-01-01', PRIMARY KEY (a)) PARTITION BY LIST (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE f (n serial, t bigint REFERENCES s.t ON DELETE CASCADE);
CREATE VIEW v AS SELECT id, upper(a::text) AS a FROM s.t;
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE PUBLICATION one FOR TABLE s.t (id, a) WHERE (id > 5), p WITH (publish = 'insert, update');
CREATE PUBLICATION two FOR TABLES IN SCHEMA s WITH (publish_via_partition_root);
"""


def test_the_same_definitions_are_the_same(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.both(SCHEMA)
    arguments = ["diff", "sub", served.conninfo, "--catalog", str(served.folder / "catalog.db")]
    assert run(arguments) == 0
    assert capsys.readouterr() == ("", "")
    served.pub(
        "ALTER TABLE f ADD COLUMN more text; CREATE TYPE span AS RANGE (subtype = int);"
        " CREATE TABLE odd (b span); ALTER PUBLICATION one DROP TABLE p"
    )
    assert run(arguments) == 1
    found = capsys.readouterr()
    assert found.out == (
        "ALTER TABLE public.f ADD COLUMN more text;\n"
        "ALTER PUBLICATION one SET TABLE ONLY s.t (id, a) WHERE ((id > 5));\n"
    )
    assert found.err.startswith("pgrepl: warning: not compared: public.odd: ")


PROGRAMS = """
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE DOMAIN moods AS mood[] DEFAULT '{low}' NOT NULL CHECK (cardinality(VALUE) > 0);
CREATE TYPE pair AS (m moods, n numeric(8,2), t text COLLATE "C");
CREATE FUNCTION double(a int) RETURNS int IMMUTABLE RETURN a * 2;
CREATE DOMAIN doubled AS int CHECK (double(VALUE) > 0);
CREATE TABLE k (id doubled DEFAULT double(3) PRIMARY KEY, p pair, m mood DEFAULT 'low');
CREATE VIEW kv AS SELECT id, double(id) AS twice, (p).n FROM k WHERE m > 'low';
CREATE FUNCTION of_row(k) RETURNS mood LANGUAGE sql AS 'SELECT ($1).m';
CREATE MATERIALIZED VIEW km AS SELECT of_row(k) AS m, id FROM k;
CREATE UNIQUE INDEX km_id ON km (id);
CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
CREATE TRIGGER g BEFORE UPDATE OF m ON k FOR EACH ROW WHEN (NEW.m IS DISTINCT FROM OLD.m) EXECUTE FUNCTION g();
ALTER TABLE k DISABLE TRIGGER g;
CREATE PROCEDURE pr(INOUT a int DEFAULT 1, VARIADIC b text[] DEFAULT '{}') LANGUAGE plpgsql AS $$BEGIN a := 2; END$$;
"""
CHANGES = """
ALTER TYPE mood ADD VALUE 'mid' AFTER 'low';
ALTER DOMAIN moods DROP DEFAULT;
ALTER TYPE pair ADD ATTRIBUTE more date;
CREATE OR REPLACE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
CREATE OR REPLACE TRIGGER g BEFORE DELETE ON k FOR EACH ROW EXECUTE FUNCTION g();
"""


def test_types_routines_and_triggers(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.both(PROGRAMS)
    arguments = ["diff", "sub", served.conninfo, "--catalog", str(served.folder / "catalog.db")]
    assert run(arguments) == 0, capsys.readouterr()
    for text in CHANGES.strip().splitlines():
        served.pub(text)
    assert run(arguments) == 1
    found = capsys.readouterr().out
    assert found == (
        "SET check_function_bodies = false;\n"
        "ALTER TYPE public.mood ADD VALUE 'mid' AFTER 'low';\n"
        "ALTER DOMAIN public.moods DROP DEFAULT;\n"
        "ALTER TYPE public.pair ADD ATTRIBUTE more date;\n"
        "CREATE OR REPLACE FUNCTION public.g()\n RETURNS trigger\n LANGUAGE plpgsql\n"
        "AS $function$BEGIN RETURN NULL; END$function$;\n"
        "CREATE OR REPLACE TRIGGER g BEFORE DELETE ON public.k FOR EACH ROW EXECUTE FUNCTION public.g();\n"
        "ALTER TABLE public.k ENABLE TRIGGER g;\n"
    )
    served.sub(found)
    assert run(arguments) == 0, capsys.readouterr()


def test_a_server_that_does_not_answer(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    catalog = str(served.folder / "catalog.db")
    assert run(["diff", "sub", "host=127.0.0.1 port=1 dbname=x", "--catalog", catalog]) == 2
    assert capsys.readouterr().err.startswith("pgrepl: error: connection to server at ")
