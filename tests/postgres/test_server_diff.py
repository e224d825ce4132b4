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
        "ALTER TABLE f ADD COLUMN more text; CREATE TYPE mood AS ENUM ('a');"
        " CREATE TABLE odd (b mood); ALTER PUBLICATION one DROP TABLE p"
    )
    assert run(arguments) == 1
    found = capsys.readouterr()
    assert found.out == (
        "ALTER TABLE public.f ADD COLUMN more text;\n"
        "ALTER PUBLICATION one SET TABLE ONLY s.t (id, a) WHERE ((id > 5));\n"
    )
    assert found.err.startswith("pgrepl: warning: not compared: public.odd: ")


def test_a_server_that_does_not_answer(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    catalog = str(served.folder / "catalog.db")
    assert run(["diff", "sub", "host=127.0.0.1 port=1 dbname=x", "--catalog", catalog]) == 2
    assert capsys.readouterr().err.startswith("pgrepl: error: connection to server at ")
