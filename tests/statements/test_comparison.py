"""Plans: what a plan says brings the catalog to what is declared, so that a second plan is empty."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pgrepl.cli import run
from tests.harness.database import Database
from tests.harness.dose import dose
from tests.harness.forked import pgrepl

# for each object some ways to declare it
WAYS: dict[str, list[str]] = {
    "ann": ["CREATE ROLE ann", "CREATE ROLE ann LOGIN CONNECTION LIMIT 4; ALTER ROLE ann SET work_mem = '8MB'",
            "CREATE ROLE ann CREATEDB VALID UNTIL '2031-01-01'; COMMENT ON ROLE ann IS 'it''s'"],
    "bob": ["CREATE ROLE bob; GRANT ann TO bob", "CREATE ROLE bob; GRANT ann TO bob WITH ADMIN TRUE, INHERIT FALSE"],
    "s": ["CREATE SCHEMA s", "CREATE SCHEMA s; ALTER SCHEMA s OWNER TO ann; GRANT USAGE ON SCHEMA s TO bob",
          "CREATE SCHEMA s; COMMENT ON SCHEMA s IS 'a schema'"],
    "defaults": ["ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO bob",
                 "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO ann WITH GRANT OPTION;"
                 " ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM PUBLIC",
                 "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT ALL ON SEQUENCES TO PUBLIC"],
    "order": ["CREATE COLLATION s.o FROM \"C\"", "CREATE COLLATION s.o (provider = builtin, locale = 'C')",
              "CREATE COLLATION s.o (locale = 'C'); ALTER COLLATION s.o OWNER TO ann; COMMENT ON COLLATION s.o IS 'o'"],
    "mood": ["CREATE TYPE mood AS ENUM ('low', 'high')", "CREATE TYPE mood AS ENUM ('low', 'high', 'top')",
             "CREATE TYPE mood AS ENUM ('none', 'low', 'mid', 'high', 'top'); COMMENT ON TYPE mood IS 'm'"],
    "small": ["CREATE DOMAIN s.small AS int CHECK (VALUE < 10)",
              "CREATE DOMAIN s.small AS int DEFAULT 3 NOT NULL CHECK (VALUE < 9) CONSTRAINT c CHECK (VALUE > 0);"
              " COMMENT ON CONSTRAINT c ON DOMAIN s.small IS 'c'",
              "CREATE DOMAIN s.small AS int DEFAULT 4; COMMENT ON DOMAIN s.small IS 's'"],
    "pair": ["CREATE TYPE s.pair AS (a int, m mood)",
             "CREATE TYPE s.pair AS (a bigint, m mood, \"C\" text COLLATE \"C\"); COMMENT ON TYPE s.pair IS 'C'",
             "CREATE TYPE s.pair AS (m mood[], b s.small); ALTER TYPE s.pair OWNER TO ann"],
    "span": ["CREATE TYPE s.span AS RANGE (subtype = s.small)", "CREATE TYPE s.span AS RANGE (subtype = mood)",
             "CREATE TYPE s.span AS RANGE (subtype = text, collation = \"C\", multirange_type_name = spans);"
             " ALTER TYPE s.span OWNER TO ann; COMMENT ON TYPE s.span IS 's'"],
    "f": ["CREATE FUNCTION s.f(a int, b text DEFAULT 'x') RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'",
          "CREATE FUNCTION s.f(a int, b text DEFAULT 'y') RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
          " 'BEGIN RETURN a; END'; GRANT EXECUTE ON FUNCTION s.f TO bob",
          "CREATE FUNCTION s.f(a int, b text DEFAULT 'y') RETURNS bigint IMMUTABLE RETURN a;"
          " COMMENT ON FUNCTION s.f IS 'f'",
          "CREATE PROCEDURE s.f(a int, b text) LANGUAGE plpgsql AS 'BEGIN COMMIT; END'"],
    "g": ["CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
          "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql SET work_mem = '8MB' AS 'BEGIN RETURN OLD; END'"],
    "h": ["CREATE FUNCTION s.h(int, int) RETURNS boolean IMMUTABLE RETURN $1 % 10 = $2 % 10",
          "CREATE FUNCTION s.h(int, int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 - $2; END'"],
    "op": ["CREATE OPERATOR s.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = s.h)",
           "CREATE OPERATOR s.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = s.h, COMMUTATOR = OPERATOR(s.===));"
           " ALTER OPERATOR s.=== (int, int) OWNER TO ann; COMMENT ON OPERATOR s.=== (int, int) IS 'o'",
           "CREATE OPERATOR s.=== (LEFTARG = bigint, RIGHTARG = int, FUNCTION = int84eq);"
           " CREATE OPERATOR @! (RIGHTARG = int, FUNCTION = int4um)"],
    "q": ["CREATE SEQUENCE s.q", "CREATE SEQUENCE s.q AS int INCREMENT 5 MAXVALUE 999 CACHE 2 CYCLE"],
    "t": [
        "CREATE TABLE s.t (id int PRIMARY KEY, a text, m mood DEFAULT 'low', n s.small);"
        " CREATE TRIGGER g BEFORE INSERT ON s.t FOR EACH ROW EXECUTE FUNCTION g();"
        " ALTER TABLE s.t DISABLE TRIGGER g",
        "CREATE TABLE s.t (id int PRIMARY KEY, a text, m mood DEFAULT 'high', n s.small);"
        " CREATE TRIGGER g AFTER INSERT OR DELETE ON s.t FOR EACH ROW WHEN (true) EXECUTE FUNCTION g();"
        " COMMENT ON TRIGGER g ON s.t IS 'g'; COMMENT ON CONSTRAINT t_pkey ON s.t IS 'key'",
        "CREATE TABLE s.t (id int PRIMARY KEY, a text, b int DEFAULT 3)",
        "CREATE TABLE s.t (id bigint PRIMARY KEY, a text NOT NULL DEFAULT 'x', c numeric(10,2) CHECK (c > 0));"
        " CREATE INDEX i ON s.t (a); COMMENT ON INDEX s.i IS 'i'; COMMENT ON CONSTRAINT t_c_check ON s.t IS 'c'",
        "CREATE TABLE s.t (id bigint GENERATED ALWAYS AS IDENTITY, a varchar(20), CONSTRAINT k UNIQUE (a, id));"
        " CREATE UNIQUE INDEX i ON s.t (id) WHERE id > 0; ALTER TABLE s.t REPLICA IDENTITY FULL;"
        " COMMENT ON COLUMN s.t.a IS 'an a'; GRANT SELECT (a), UPDATE ON s.t TO bob",
        "CREATE TABLE s.t (id int GENERATED BY DEFAULT AS IDENTITY (INCREMENT 5), a text COLLATE \"C\","
        " b int DEFAULT nextval('s.q')); ALTER TABLE s.t ENABLE ROW LEVEL SECURITY; ALTER TABLE s.t OWNER TO ann",
        "CREATE TABLE s.t (a text, id serial PRIMARY KEY, b text) WITH (fillfactor = 70); COMMENT ON TABLE s.t IS 't'",
    ],
    "r": ["CREATE TABLE r (a int PRIMARY KEY, \"Odd\" text)",
          "CREATE TABLE r (a int PRIMARY KEY, t text); CREATE TABLE r2 (b int REFERENCES r ON DELETE CASCADE)",
          "CREATE TABLE r (a int PRIMARY KEY); CREATE TABLE r2 (b int CONSTRAINT fk REFERENCES r DEFERRABLE)"],
    "p": ["CREATE TABLE p (a int, b text) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
          "CREATE TABLE p (a int, b text, c date, PRIMARY KEY (a)) PARTITION BY LIST (a);"
          " CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1, 2); CREATE TABLE p3 PARTITION OF p DEFAULT"],
    "v": ["CREATE VIEW v AS SELECT id, a FROM s.t", "CREATE VIEW v AS SELECT id, upper(a) AS a FROM s.t WHERE id > 1;"
          " CREATE VIEW v2 AS SELECT id FROM v; GRANT SELECT ON v TO bob",
          "CREATE VIEW v AS SELECT id, id::int OPERATOR(s.===) 3 AS a FROM s.t"],
    "pub": ["CREATE PUBLICATION pub FOR TABLE s.t WHERE (id > 5)", "CREATE PUBLICATION pub FOR TABLE s.t (id), r",
            "CREATE PUBLICATION pub FOR TABLES IN SCHEMA s WITH (publish = 'insert');"
            " COMMENT ON PUBLICATION pub IS 'p'",
            "CREATE PUBLICATION pub; ALTER PUBLICATION pub OWNER TO postgres",
            "CREATE PUBLICATION pub FOR TABLE r WHERE (a > 3) WITH (publish_via_partition_root)"],
    "srv": ["CREATE SERVER srv FOREIGN DATA WRAPPER postgresql OPTIONS (host 'a', dbname 'x')",
            "CREATE SERVER srv VERSION '9' FOREIGN DATA WRAPPER postgresql OPTIONS (host 'b', \"port\" '5');"
            " GRANT USAGE ON FOREIGN SERVER srv TO bob; COMMENT ON SERVER srv IS 's'; ALTER SERVER srv OWNER TO ann;"
            " CREATE USER MAPPING FOR bob SERVER srv OPTIONS (\"user\" 'b'); CREATE USER MAPPING FOR PUBLIC SERVER srv",
            "CREATE SERVER srv FOREIGN DATA WRAPPER lake OPTIONS (dbname 'x');"
            " CREATE USER MAPPING FOR bob SERVER srv OPTIONS (\"user\" 'c')"],
    "sub": ["CREATE SUBSCRIPTION sub CONNECTION 'dbname=x' PUBLICATION a WITH (connect = false)",
            "CREATE SUBSCRIPTION sub CONNECTION 'host=/nosuch dbname=y' PUBLICATION a, b"
            " WITH (connect = false, slot_name = 'other', binary, origin = none, streaming = parallel,"
            " schema_changes = columns)"],
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(pick: random.Random, step: int) -> str:
    """Labels of an enum that is used are not dropped: they are more with every step."""
    return "".join(f"{ways[step] if name == 'mood' else pick.choice(ways)};\n" for name, ways in WAYS.items())


def plan(text: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, str, int]:
    Path("declared.sql").write_text(text)
    code = run(["plan", "declared.sql", *options])
    done = capsys.readouterr()
    return done.out, done.err, code


@pytest.mark.parametrize("seed", dose(range(4), 4))
def test_after_applying_a_second_plan_is_empty(seed: int, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Database(here).close()
    pick = random.Random(seed)
    for step in range(3):
        text = script(pick, step)
        printed, _, code = plan(text, capsys, "--drop")
        assert code == 0
        _, said, code = plan(text, capsys, "--drop", "--apply")
        assert code == 0 and "ERROR" not in said, f"{said}\n{text}\n{printed}"
        assert plan(text, capsys, "--drop") == ("", "", 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_long(seed: int, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test_after_applying_a_second_plan_is_empty(seed, here, capsys)


def test_without_drop_what_is_not_declared_stays(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there(
            "CREATE TABLE t (a int PRIMARY KEY, gone int CHECK (gone > 0))",
            "CREATE TABLE other (a int PRIMARY KEY)",
            "CREATE PUBLICATION p FOR TABLE t, other",
            "CREATE PUBLICATION undeclared FOR TABLE other",
        )
    declared = (
        "CREATE TABLE t (a int PRIMARY KEY, b text);\nCREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 1), other;\n"
    )
    printed, said, code = plan(declared, capsys)
    assert printed == (
        "ALTER TABLE public.t ADD COLUMN b text;\n"
        "ALTER PUBLICATION p SET TABLE ONLY public.other, TABLE ONLY public.t (a) WHERE ((a > 1));\n"
    )
    assert (said, code) == ("pgrepl: 2 differences are left, where something would be dropped: see --drop\n", 0)
    assert plan("CREATE PUBLICATION p FOR TABLE other;", capsys, "--drop")[0] == (
        "ALTER PUBLICATION p SET TABLE ONLY public.other;\nDROP PUBLICATION undeclared;\n"
    )


def test_a_comment_goes_with_what_it_is_about(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trigger = "CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';\n"
    with Database(here) as there:
        there(
            f"{trigger} CREATE TABLE t (a int CONSTRAINT c CHECK (a > 0), b int CONSTRAINT d CHECK (b > 0))",
            "COMMENT ON CONSTRAINT c ON t IS 'c'; COMMENT ON CONSTRAINT d ON t IS 'd'; COMMENT ON COLUMN t.b IS 'b'",
            "CREATE INDEX i ON t (a); COMMENT ON INDEX i IS 'i'",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION g(); COMMENT ON TRIGGER g ON t IS 'g'",
            "CREATE DOMAIN n AS int CONSTRAINT n CHECK (VALUE > 0); COMMENT ON CONSTRAINT n ON DOMAIN n IS 'n'",
            "CREATE TYPE p AS (x int, y int); COMMENT ON COLUMN p.y IS 'y'",
        )
    declared = (
        f"{trigger} CREATE TABLE t (a int CONSTRAINT c CHECK (a > 1), b int GENERATED ALWAYS AS (a + 1) STORED);\n"
        "COMMENT ON CONSTRAINT c ON t IS 'c'; COMMENT ON COLUMN t.b IS 'b';\n"
        "CREATE DOMAIN n AS int; CREATE TYPE p AS (x int);\n"
    )
    printed, said, code = plan(declared, capsys)  # what is not dropped keeps its comment
    assert (printed, code) == ("", 1) and "With --drop the column is dropped and made again." in said
    printed, _, _ = plan(declared.replace("GENERATED ALWAYS AS (a + 1) STORED", ""), capsys)
    assert printed == (
        "ALTER TABLE public.t DROP CONSTRAINT c;\n"
        "ALTER TABLE public.t ADD CONSTRAINT c CHECK ((a > 1));\nCOMMENT ON CONSTRAINT c ON public.t IS 'c';\n"
    )
    printed, _, _ = plan(declared, capsys, "--drop")
    assert sorted(line for line in printed.splitlines() if line.startswith("COMMENT")) == [
        "COMMENT ON COLUMN public.t.b IS 'b';",
        "COMMENT ON CONSTRAINT c ON public.t IS 'c';",
    ]
    assert plan(declared, capsys, "--drop", "--apply")[2] == 0
    assert plan(declared, capsys, "--drop") == ("", "", 0)


def test_default_privileges(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there(
            "CREATE ROLE joe",
            "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO joe",
            "ALTER DEFAULT PRIVILEGES FOR ROLE joe IN SCHEMA public GRANT SELECT ON SEQUENCES TO PUBLIC",
        )
    declared = (
        "CREATE SCHEMA s;\nALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO joe;\nCREATE TABLE t (a int);\n"
        "ALTER DEFAULT PRIVILEGES FOR ROLE joe REVOKE ALL ON FUNCTIONS FROM PUBLIC;\n"
        "ALTER DEFAULT PRIVILEGES FOR ROLE CURRENT_ROLE IN SCHEMA s GRANT USAGE ON TYPES TO joe WITH GRANT OPTION;\n"
    )
    for_all, for_joe = ("ALTER DEFAULT PRIVILEGES FOR ROLE " + role for role in ("postgres", "joe"))
    first = f"{for_all} REVOKE ALL ON TABLES FROM joe;\n"
    gone = f"{for_joe} IN SCHEMA public REVOKE ALL ON SEQUENCES FROM PUBLIC;\n"
    rest = (
        "CREATE SCHEMA s;\nALTER SCHEMA s OWNER TO postgres;\n"
        "CREATE TABLE public.t (\n    a integer\n);\nALTER TABLE public.t OWNER TO postgres;\n"
        "GRANT SELECT ON TABLE public.t TO joe;\n"
        f"{for_all} GRANT SELECT ON TABLES TO joe;\n"
        f"{for_joe} REVOKE ALL ON FUNCTIONS FROM PUBLIC;\n"
        f"{for_all} IN SCHEMA s GRANT USAGE ON TYPES TO joe WITH GRANT OPTION;\n"
    )
    assert plan(declared, capsys) == (first + rest, "", 0)
    assert plan(declared, capsys, "--drop") == (first + gone + rest, "", 0)
    assert plan(declared, capsys, "--drop", "--apply")[2] == 0
    assert plan(declared, capsys, "--drop") == ("", "", 0)
    with Database(here) as there:
        there("CREATE DATABASE other")
    assert run(["diff", "postgres", "other"]) == 1
    assert f"{for_joe} GRANT EXECUTE ON FUNCTIONS TO PUBLIC;\n" in capsys.readouterr().out


def test_views_and_filters_let_go_of_a_column_that_changes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there(
            "CREATE TABLE t (a int PRIMARY KEY)",
            "CREATE VIEW v AS SELECT a FROM t",
            "CREATE PUBLICATION p FOR TABLE t WHERE (a > 1)",
        )
    printed, _, _ = plan("CREATE TABLE t (a bigint PRIMARY KEY);", capsys)
    assert printed == (
        "ALTER PUBLICATION p DROP TABLE ONLY public.t;\nDROP VIEW public.v;\n"
        "ALTER TABLE public.t ALTER COLUMN a TYPE bigint USING a::bigint;\n"
        "CREATE VIEW public.v AS\n SELECT a\n   FROM public.t;\nALTER VIEW public.v OWNER TO postgres;\n"
        "ALTER PUBLICATION p SET TABLE ONLY public.t WHERE ((a > 1));\n"
    )


def test_a_filter_goes_before_the_column_that_changes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there("CREATE TABLE t (a int)", "CREATE TABLE u (a int)", "CREATE PUBLICATION p FOR TABLE t WHERE (a > 1), u")
    declared = "CREATE TABLE t (a bigint); CREATE TABLE u (a int); CREATE PUBLICATION p;"
    assert plan(declared, capsys, "--apply")[2] == 0
    assert plan(declared, capsys) == ("", "", 0)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("SELECT 1;\nselec;", 'declared.sql:2:1: ERROR:  syntax error at or near "selec"\n'),
        ("INSERT INTO t VALUES (1);", "declared.sql:1:1: ERROR:  INSERT cannot be part of a plan\n"),
        ("DROP TABLE t;", "declared.sql:1:1: ERROR:  DROP TABLE cannot be part of a plan\n"),
        ("CREATE DATABASE d;", "declared.sql:1:1: ERROR:  CREATE DATABASE cannot be part of a plan\n"
         "    HINT:  A plan is for one database: make it first.\n"),
        ("\\c other", "declared.sql:1:1: ERROR:  \\connect cannot be part of a plan\n"),
        ("CREATE TABLE t (a int) PARTITION BY LIST (a);", "ERROR:  table public.t cannot be altered to what is"
         " declared: partition key\nHINT:  With --drop the table is dropped and made again.\n"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned(declared: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there("CREATE TABLE t (a int)")
    assert plan(declared, capsys) == ("", message, 1)


DECLARED = """
CREATE ROLE analyst;
CREATE TABLE orders (id bigint PRIMARY KEY, country text NOT NULL, total numeric(10,2));
CREATE PUBLICATION big FOR TABLE orders (id, total) WHERE (id > 1000);
GRANT SELECT ON orders TO analyst;
"""


def test_as_a_person_runs_it(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(DECLARED)
    assert pgrepl("plan", "shop.sql", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "catalog.db").exists()
    pgrepl("-q", "-c", "CREATE DATABASE shop", "-c", "CREATE DATABASE other", cwd=tmp_path)
    planned = pgrepl("plan", "shop.sql", "-d", "shop", cwd=tmp_path)
    assert planned.stderr == "" and planned.returncode == 0
    piped = pgrepl("-q", "-d", "shop", "-v", "ON_ERROR_STOP=1", "-f", "-", cwd=tmp_path, script=planned.stdout)
    assert (piped.stdout, piped.stderr, piped.returncode) == ("", "", 0)
    again = pgrepl("plan", "-", "-d", "shop", cwd=tmp_path, script=DECLARED)
    assert (again.stdout, again.stderr, again.returncode) == ("", "", 0)
    different = pgrepl("diff", "shop", "other", cwd=tmp_path)
    assert (different.stdout, different.returncode) == ("DROP PUBLICATION big;\nDROP TABLE public.orders;\n", 1)
    brought = pgrepl("diff", "other", "shop", cwd=tmp_path)
    pgrepl("-q", "-d", "other", cwd=tmp_path, script=brought.stdout)
    assert pgrepl("diff", "shop", "other", cwd=tmp_path).returncode == 0
    for wrong in ("nosuch", "nosuch=1 dbname=shop"):
        assert pgrepl("diff", "shop", wrong, cwd=tmp_path).returncode == 2
    assert 'There is no file "nosuch" either.' in pgrepl("diff", "shop", "nosuch", cwd=tmp_path).stderr


def test_two_catalogs_differ_in_roles_too(tmp_path: Path) -> None:
    pgrepl("-q", "-c", "CREATE ROLE ann LOGIN", "-c", "CREATE TABLE t (a int)", cwd=tmp_path)
    (tmp_path / "there").mkdir()
    pgrepl("-q", "-c", "CREATE TABLE t (a int DEFAULT 1)", cwd=tmp_path / "there")
    done = pgrepl("diff", "catalog.db", "there", cwd=tmp_path)
    shown = "ALTER TABLE public.t ALTER COLUMN a SET DEFAULT 1;\nDROP ROLE ann;\n"
    assert (done.stdout, done.stderr, done.returncode) == (shown, "", 1)
    assert pgrepl("diff", "there", f"host={tmp_path} dbname=postgres", cwd=tmp_path).stdout.startswith(
        "CREATE ROLE ann"
    )


@pytest.mark.parametrize(
    "change",
    [
        'ALTER TABLE fk ADD CONSTRAINT "n v" FOREIGN KEY (a) REFERENCES pk NOT VALID',
        'ALTER TABLE pk ADD CONSTRAINT "not null" NOT NULL b',
    ],
)
def test_what_17_does_not_know_is_planned_for_18(change: str, tmp_path: Path) -> None:
    made = "CREATE TABLE pk (a int PRIMARY KEY, b int); CREATE TABLE fk (a int) PARTITION BY LIST (a)"
    pgrepl("-q", "-c", "CREATE DATABASE one", "-c", "CREATE DATABASE other", cwd=tmp_path)
    pgrepl("-q", "-d", "one", "-c", made, cwd=tmp_path)
    pgrepl("-q", "-d", "other", "-c", "SET pgrepl.postgres_version = 18", "-c", made, "-c", change, cwd=tmp_path)
    found = pgrepl("diff", "one", "other", cwd=tmp_path).stdout
    assert found.startswith("SET pgrepl.postgres_version = 18;\n")
    assert pgrepl("-q", "-d", "one", cwd=tmp_path, script=found).stderr == ""
    assert pgrepl("diff", "one", "other", cwd=tmp_path).stdout == ""


def test_identity_columns_of_partitions_and_new_ones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1), (2)")
    declared = (
        "CREATE TABLE t (id int, n int GENERATED ALWAYS AS IDENTITY);\n"
        "CREATE TABLE e (id int GENERATED ALWAYS AS IDENTITY, k int) PARTITION BY LIST (k);\n"
        "CREATE TABLE e1 PARTITION OF e DEFAULT;\n"
    )
    _, said, code = plan(declared, capsys, "--apply")
    assert code == 0 and "ERROR" not in said
    assert plan(declared, capsys) == ("", "", 0)
    with Database(here) as there:
        there("INSERT INTO e (k) VALUES (5)")
        assert there("SELECT t.id, n, e.id, e.tableoid::regclass FROM t, e ORDER BY 1") == [
            ("1", "1", "1", "e1"),
            ("2", "2", "1", "e1"),
        ]


def test_a_column_list_is_a_set(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR TABLE t (id, v)")
    declared = "CREATE TABLE t (v text, id int PRIMARY KEY);\nCREATE PUBLICATION p FOR TABLE t (v, id);\n"
    assert plan(declared, capsys) == ("", "", 0)


def test_privileges_of_columns_and_grant_options(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(here) as there:
        there(
            "CREATE ROLE ann; CREATE ROLE bob; CREATE TABLE t (id int)",
            "GRANT ALL ON t TO ann WITH GRANT OPTION; ALTER TABLE t OWNER TO ann",
            "GRANT SELECT ON t TO bob; GRANT SELECT (id) ON t TO bob",
        )
    declared = "CREATE ROLE ann; CREATE ROLE bob; CREATE TABLE t (id int); GRANT SELECT (id) ON t TO bob;\n"
    assert plan(declared, capsys, "--apply")[2] == 0
    assert plan(declared, capsys) == ("", "", 0)
