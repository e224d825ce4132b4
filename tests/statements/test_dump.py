"""A dump, played in an empty instance, makes the same objects: a dump of those is the same script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.definitions.changes import dump
from pgrepl.statements.run import run
from tests.query.make_queries import SCHEMA

MORE = """
CREATE TABLE "Odd t" ("A b" int);
COMMENT ON TABLE "Odd t" IS 'it''s';
CREATE SUBSCRIPTION s1 CONNECTION 'dbname=x password=''q''' PUBLICATION a, "B"
    WITH (connect = false, slot_name = NONE, streaming = parallel, two_phase, origin = none,
        schema_changes = columns);
"""


CONSTRAINTS = """
CREATE TABLE c (a int CONSTRAINT valid CHECK (a > 0), b text);
CREATE INDEX i ON c (a);
ALTER TABLE c ADD PRIMARY KEY (a), ADD CONSTRAINT later CHECK (a < 10) NOT VALID, CLUSTER ON i;
CREATE TABLE r (a int CONSTRAINT fk REFERENCES c);
COMMENT ON CONSTRAINT valid ON c IS 'valid';
COMMENT ON CONSTRAINT later ON c IS 'not yet';
COMMENT ON CONSTRAINT c_pkey ON c IS 'key';
COMMENT ON CONSTRAINT fk ON r IS 'refers';
COMMENT ON INDEX i IS 'an index';
COMMENT ON INDEX c_pkey IS 'of the key';
CREATE TABLE q (a int, z int) PARTITION BY LIST (a);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1);
ALTER TABLE q ADD CONSTRAINT qc CHECK (z > 0) NOT VALID;
ALTER TABLE q1 ADD CONSTRAINT q1c CHECK (z > 1) NOT VALID;
"""
INHERITED = """
CREATE TABLE p (a int DEFAULT 1, b int NOT NULL, c int, g int);
CREATE TABLE k (x int) INHERITS (p);
ALTER TABLE k ALTER a SET DEFAULT 2, ALTER c SET DEFAULT 3, ALTER g SET NOT NULL;
CREATE TABLE k2 () INHERITS (p);
ALTER TABLE k2 ALTER a DROP DEFAULT;
CREATE TABLE own (a int DEFAULT 9) INHERITS (p);
CREATE TABLE q (a int DEFAULT 1, b int, c int DEFAULT 5) PARTITION BY LIST (a);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1);
ALTER TABLE q1 ALTER b SET DEFAULT 7, ALTER b SET NOT NULL, ALTER c DROP DEFAULT;
CREATE TABLE ge (a int, b int GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE ge1 () INHERITS (ge);
CREATE TABLE ge2 (b int GENERATED ALWAYS AS (a * 3) STORED) INHERITS (ge);
"""


# what only 18 makes, by names with spaces
OF_18 = """
SET pgrepl.postgres_version = 18;
CREATE TABLE pk (a int);
ALTER TABLE pk ADD CONSTRAINT "not null" NOT NULL a, ADD PRIMARY KEY (a);
CREATE TABLE "f k" (a int) PARTITION BY LIST (a);
CREATE TABLE fk1 PARTITION OF "f k" FOR VALUES IN (1);
ALTER TABLE "f k" ADD CONSTRAINT "n v" FOREIGN KEY (a) REFERENCES pk NOT VALID;
"""


OPERATORS = """
CREATE SCHEMA s;
CREATE TABLE t (a int, b text);
CREATE FUNCTION s.same(int, int) RETURNS boolean IMMUTABLE RETURN $1 % 10 = $2 % 10;
CREATE FUNCTION quoted(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN quote_literal($1); END';
CREATE OPERATOR s.=== (FUNCTION = s.same, LEFTARG = int, RIGHTARG = int, COMMUTATOR = OPERATOR(s.===),
    NEGATOR = OPERATOR(s.!==), RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
CREATE OPERATOR #! (FUNCTION = quoted, RIGHTARG = text);
CREATE OPERATOR %= (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = %==);
CREATE OPERATOR %== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = %=);
CREATE FUNCTION body(int) RETURNS boolean RETURN $1 OPERATOR(s.===) 5 AND $1 %= 5;
CREATE FUNCTION rows_same(t, t) RETURNS boolean RETURN $1.a = $2.a;
CREATE OPERATOR @= (FUNCTION = rows_same, LEFTARG = t, RIGHTARG = t);
CREATE DOMAIN five AS int CHECK (VALUE OPERATOR(s.===) 5) CHECK (VALUE %= 5);
CREATE TABLE u (a five DEFAULT 5, b text DEFAULT (#! 'x'), CHECK (a OPERATOR(s.===) 15), CHECK (body(a)));
CREATE VIEW v AS SELECT a OPERATOR(s.===) ALL (ARRAY[5, 15]) AS x, t @= t AS y FROM t;
CREATE INDEX i ON t ((a OPERATOR(s.===) 5));
CREATE COLLATION s.plain FROM "C";
CREATE COLLATION "Both" (lc_collate = 'C', lc_ctype = 'POSIX');
CREATE COLLATION b (provider = builtin, locale = 'C.UTF8');
CREATE TYPE m AS ENUM ('x', 'y');
CREATE TYPE s.r AS RANGE (subtype = m, multirange_type_name = "Mr");
CREATE DOMAIN w AS text COLLATE s.plain CHECK (VALUE COLLATE "Both" > 'a');
CREATE TYPE words AS RANGE (subtype = w, collation = b, subtype_opclass = text_pattern_ops);
CREATE TYPE fl AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE TABLE ranges (a s.r DEFAULT s.r('x', 'y'), b "Mr", c words[], CHECK (a @> 'x'::m), d fl PRIMARY KEY);
COMMENT ON TYPE s.r IS 'r';
ALTER TYPE fl OWNER TO catalogs_owner;
GRANT ALL ON TYPE words TO catalogs_reader;
COMMENT ON COLLATION b IS 'builtin';
ALTER COLLATION s.plain OWNER TO catalogs_owner;
CREATE TABLE c (a text COLLATE "Both", b w) PARTITION BY LIST (a COLLATE b);
CREATE INDEX ci ON c (b COLLATE b);
CREATE VIEW cv AS SELECT b COLLATE b AS x FROM c;
COMMENT ON OPERATOR #! (NONE, text) IS 'quoted';
ALTER OPERATOR %= (int, int) OWNER TO catalogs_owner;
"""


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[list[Session]]:
    catalogs = [open_catalog(tmp_path / f"{name}.db") for name in ("first", "second")]
    made = [open_session(catalog) for catalog in catalogs]
    yield made
    for session in made:
        session.close()
    for catalog in catalogs:
        catalog.close()


def dumped(session: Session) -> str:
    with reading(session):
        return "\n".join(dump(session, schema=True, publications=True, subscriptions=True))


@pytest.mark.parametrize(
    "made", [(SCHEMA.read_text("utf-8"), MORE), (CONSTRAINTS,), (INHERITED,), (OF_18,), (OPERATORS,)]
)
def test_a_dump_of_what_a_dump_made_is_the_same(sessions: list[Session], made: tuple[str, ...]) -> None:
    first, second = sessions
    roles = "CREATE ROLE catalogs_owner; CREATE ROLE catalogs_reader"
    if "CREATE ROLE" not in made[0]:
        list(run(first, roles))
    for text in made:
        list(run(first, text))
    list(run(second, roles))
    script = dumped(first)
    list(run(second, script))
    assert dumped(second) == script


def test_a_partitioned_table_is_not_unlogged_in_18(sessions: list[Session]) -> None:
    """Its partitions stay so."""
    first, second = sessions
    list(run(first, "CREATE UNLOGGED TABLE p (a int) PARTITION BY LIST (a)"))
    list(run(first, "CREATE UNLOGGED TABLE p1 PARTITION OF p FOR VALUES IN (1)"))
    assert dumped(first).count("UNLOGGED") == 2
    for session in sessions:
        list(run(session, "SET pgrepl.postgres_version = 18"))
    list(run(second, dumped(first)))
    assert dumped(second) == dumped(first)
    assert "CREATE UNLOGGED TABLE public.p1 (" in dumped(second)


def test_a_dump_asks_nothing_of_the_search_path(sessions: list[Session]) -> None:
    first, second = sessions
    made = """
        CREATE SCHEMA s;
        SET search_path = s, public;
        CREATE TYPE mood AS ENUM ('x', 'y');
        CREATE DOMAIN pos AS int CHECK (value > 0);
        CREATE TYPE pair AS (a pos, m mood);
        CREATE FUNCTION f(m mood) RETURNS mood LANGUAGE sql IMMUTABLE AS 'SELECT m';
        CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TABLE c (id int PRIMARY KEY, m mood DEFAULT 'x', p pair, l pos[], CHECK (f(m) = 'x'));
        CREATE TABLE r (id int REFERENCES c, m mood GENERATED ALWAYS AS ('y'::mood) STORED);
        CREATE TABLE k (x int) INHERITS (r);
        CREATE INDEX i ON c (f(m));
        ALTER TABLE c CLUSTER ON i, REPLICA IDENTITY USING INDEX c_pkey;
        CREATE SEQUENCE n OWNED BY c.id;
        CREATE TABLE q (a mood) PARTITION BY LIST (f(a));
        CREATE TABLE q1 PARTITION OF q FOR VALUES IN ('y');
        CREATE VIEW v AS SELECT f(m) FROM c JOIN r USING (m);
        CREATE MATERIALIZED VIEW mv AS TABLE v;
        CREATE TRIGGER t BEFORE UPDATE ON c FOR EACH ROW WHEN (f(NEW.m) = 'y') EXECUTE FUNCTION tf();
        CREATE PUBLICATION p FOR TABLE c WHERE (id > 1), r;
        COMMENT ON FUNCTION f(mood) IS 'f';
        COMMENT ON COLUMN c.m IS 'm';
    """
    list(run(first, made))
    script = dumped(first)
    list(run(second, script))
    assert dumped(second) == script
    list(run(first, "RESET search_path"))
    assert dumped(first) == script


def test_default_privileges_come_last_in_a_dump(sessions: list[Session]) -> None:
    first, second = sessions
    made = """
        CREATE ROLE joe;
        CREATE SCHEMA s;
        ALTER DEFAULT PRIVILEGES GRANT SELECT, UPDATE ON TABLES TO joe;
        ALTER DEFAULT PRIVILEGES FOR ROLE joe REVOKE ALL ON FUNCTIONS FROM PUBLIC;
        ALTER DEFAULT PRIVILEGES FOR ROLE joe IN SCHEMA s GRANT ALL ON TYPES TO PUBLIC;
        CREATE TABLE t (a int);
    """
    list(run(first, made))
    script = dumped(first)
    assert script.splitlines()[-3:] == [
        "ALTER DEFAULT PRIVILEGES FOR ROLE postgres GRANT SELECT,UPDATE ON TABLES TO joe;",
        "ALTER DEFAULT PRIVILEGES FOR ROLE joe REVOKE ALL ON FUNCTIONS FROM PUBLIC;",
        "ALTER DEFAULT PRIVILEGES FOR ROLE joe IN SCHEMA s GRANT USAGE ON TYPES TO PUBLIC;",
    ]
    list(run(second, "CREATE ROLE joe"))
    list(run(second, script))
    assert dumped(second) == script


def test_column_privileges_statistics_and_subscriptions_are_dumped(sessions: list[Session]) -> None:
    session = sessions[0]
    for text in (SCHEMA.read_text("utf-8"), MORE):
        list(run(session, text))
    lines = dumped(session).splitlines()
    for line in (
        "ALTER TABLE ONLY s.t ALTER COLUMN id SET STATISTICS 50;",
        "ALTER TABLE ONLY s.t ALTER COLUMN c SET STORAGE EXTERNAL;",
        "GRANT UPDATE(n) ON TABLE s.t TO catalogs_reader;",
        "CREATE SUBSCRIPTION s1 CONNECTION 'dbname=x password=''q''' PUBLICATION a, \"B\" WITH (connect = false, "
        "slot_name = NONE, streaming = parallel, two_phase = on, origin = none, schema_changes = columns);",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            CONSTRAINTS,
            [
                "ALTER TABLE public.q1 ADD CONSTRAINT q1c CHECK ((z > 1)) NOT VALID;",
                "ALTER TABLE public.q ADD CONSTRAINT qc CHECK ((z > 0)) NOT VALID;",
                "ALTER TABLE public.c ADD CONSTRAINT later CHECK ((a < 10)) NOT VALID;",
                "ALTER TABLE public.c CLUSTER ON i;",
                "COMMENT ON INDEX public.i IS 'an index';",
                "COMMENT ON INDEX public.c_pkey IS 'of the key';",
                "COMMENT ON CONSTRAINT c_pkey ON public.c IS 'key';",
                "COMMENT ON CONSTRAINT later ON public.c IS 'not yet';",
                "COMMENT ON CONSTRAINT valid ON public.c IS 'valid';",
                "COMMENT ON CONSTRAINT fk ON public.r IS 'refers';",
            ],
        ),
        (
            INHERITED,
            [
                "    a integer DEFAULT 1,",
                "ALTER TABLE ONLY public.k ALTER COLUMN a SET DEFAULT 2;",
                "ALTER TABLE ONLY public.k ALTER COLUMN c SET DEFAULT 3;",
                "ALTER TABLE ONLY public.k ALTER COLUMN g SET NOT NULL;",
                "ALTER TABLE ONLY public.k2 ALTER COLUMN a SET DEFAULT NULL;",
                "    a integer DEFAULT 9",
                "    a integer DEFAULT 1,",
                "    c integer DEFAULT 5",
                "    a integer DEFAULT 1,",
                "    b integer DEFAULT 7 NOT NULL,",
                "    c integer DEFAULT NULL",
            ],
        ),
    ],
    ids=["constraints", "inherited"],
)
def test_what_pg_dump_writes_beside_create_table_is_dumped(
    sessions: list[Session], made: str, expected: list[str]
) -> None:
    """The words of pg_dump 17 for the same objects."""
    list(run(sessions[0], made))
    words = (" NOT VALID", " CLUSTER ON ", "COMMENT ON ", " SET ", " DEFAULT ")
    assert [line for line in dumped(sessions[0]).splitlines() if any(word in line for word in words)] == expected
