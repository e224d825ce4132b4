"""`pgrepl import-schema`: what a server publishes, as statements that make it here, and a subscription to it."""

from __future__ import annotations

import psycopg
import pytest

from pgrepl.cli import run
from tests.harness.database import Database
from tests.postgres.served import Served

TABLES = """
CREATE SCHEMA "Odd";
CREATE TYPE mood AS ENUM ('so', 'la');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN code AS varchar(4);
CREATE FUNCTION is_short(text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT length($1) < 9';
CREATE DOMAIN upper_code AS code CHECK (VALUE = upper(VALUE)) CONSTRAINT short CHECK (is_short(VALUE))
    DEFAULT 'A' NOT NULL;
CREATE TYPE "Odd".point AS (x int, "Y" numeric(8,2), m mood[], c money);
CREATE DOMAIN points AS "Odd".point[] CONSTRAINT few CHECK (cardinality(VALUE) < 5);
CREATE TABLE "Odd"."T x" (id bigint PRIMARY KEY, "select" varchar(10) NOT NULL, m mood, p positive, c money, no text,
    ps points, r int4range[]);
CREATE TABLE ident (a int NOT NULL, b int NOT NULL, c upper_code);
CREATE UNIQUE INDEX ident_b ON ident (b);
ALTER TABLE ident REPLICA IDENTITY USING INDEX ident_b;
CREATE TABLE whole (n numeric(8,2), d timestamptz, r regclass);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE m (d date NOT NULL, r int, v text, PRIMARY KEY (d, r)) PARTITION BY RANGE (d);
CREATE TABLE m24 PARTITION OF m FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY LIST (r);
CREATE TABLE m24a PARTITION OF m24 FOR VALUES IN (1, 2);
CREATE TABLE "m Rest" PARTITION OF m DEFAULT;
CREATE PUBLICATION p FOR TABLE "Odd"."T x" (id, "select", m, p, c, ps, r), ident, whole, m;
"""
LISTED = '(id, "select", m, p, c, ps, r)'
NOT_LISTED = '-- column no of table "Odd"."T x" is not published\n'
MONEY = "    c text,  -- type money is not here: its values as text\n"
MADE = """\
CREATE SCHEMA IF NOT EXISTS "Odd";
CREATE TYPE public.mood AS ENUM ('so', 'la');
CREATE DOMAIN public.positive AS integer
    CONSTRAINT positive_check CHECK ((VALUE > 0));
-- attribute c of type "Odd".point: type money is not here: its values as text
CREATE TYPE "Odd".point AS (
    x integer,
    "Y" numeric(8,2),
    m public.mood[],
    c text
);
CREATE DOMAIN public.points AS "Odd".point[]
    CONSTRAINT few CHECK ((cardinality(VALUE) < 5));
CREATE DOMAIN public.code AS character varying(4);
-- constraint short of domain public.upper_code is not here: it uses function public.is_short(text)
CREATE DOMAIN public.upper_code AS public.code NOT NULL DEFAULT 'A'::character varying
    CONSTRAINT upper_code_check CHECK (((VALUE)::text = upper((VALUE)::text)));
-- column no of table "Odd"."T x" is not published
CREATE TABLE "Odd"."T x" (
    id bigint NOT NULL,
    "select" character varying(10) NOT NULL,
    m public.mood,
    p public.positive,
    c text,  -- type money is not here: its values as text
    ps public.points,
    r int4range[],
    PRIMARY KEY (id)
);
CREATE TABLE public.ident (
    a integer NOT NULL,
    b integer NOT NULL,
    c public.upper_code
);
CREATE UNIQUE INDEX ident_b ON public.ident (b);
ALTER TABLE public.ident REPLICA IDENTITY USING INDEX ident_b;
CREATE TABLE public.m (
    d date NOT NULL,
    r integer NOT NULL,
    v text,
    PRIMARY KEY (d, r)
) PARTITION BY RANGE (d);
CREATE TABLE public."m Rest" PARTITION OF public.m DEFAULT;
CREATE TABLE public.m24 PARTITION OF public.m FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY LIST (r);
CREATE TABLE public.m24a PARTITION OF public.m24 FOR VALUES IN (1, 2);
CREATE TABLE public.whole (
    n numeric(8,2),
    d timestamp with time zone,
    r text  -- type regclass is not here: its values as text
);
ALTER TABLE public.whole REPLICA IDENTITY FULL;
"""


def test_the_published_tables_are_made_here(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    tables, made = TABLES, MADE
    if served.publishing.version < 15:  # whole tables are published
        tables = tables.replace(LISTED, "")
        made = made.replace(MONEY, f"{MONEY}    no text,\n").replace(NOT_LISTED, "")
    served.pub(tables)
    assert run(["import-schema", served.conninfo, "-p", "p"]) == 0
    assert capsys.readouterr().out == made
    catalog = str(served.folder / "catalog.db")
    assert run(["import-schema", served.conninfo, "--apply", "--catalog", catalog, "-d", "sub"]) == 0
    assert capsys.readouterr().out.count("CREATE TABLE\n") == 7
    served.pub(
        "INSERT INTO \"Odd\".\"T x\" VALUES (1, 'x', 'la', 5, 12.5, 'hidden',"
        " ARRAY[ROW(1, 2.5, '{so,la}', 3::money), NULL, ROW(NULL, NULL, NULL, NULL)]::\"Odd\".point[])"
    )
    served.pub(
        "INSERT INTO m VALUES ('2024-05-05', 1, 'a'), ('2020-01-01', 7, 'b'); INSERT INTO whole VALUES (1, NULL, 'm')"
    )
    served.subscribe()
    served.pub("UPDATE m SET d = '2024-12-31', r = 2 WHERE r = 7; UPDATE whole SET n = 2; DELETE FROM ident")
    served.pub('UPDATE "Odd"."T x" SET m = \'so\'')
    assert served.catch_up() == []
    assert served.sub('SELECT id, "select", m, p, c, ps FROM "Odd"."T x"') == [
        ("1", "x", "so", "5", "$12.50", '{"(1,2.50,\\"{so,la}\\",$3.00)",NULL,"(,,,)"}')
    ]
    served.same('SELECT ps[1].m, (ps[1])."Y", p + 1, m > \'so\', pg_typeof(ps) FROM "Odd"."T x"')
    assert served.same("SELECT * FROM m ORDER BY r") == [("2024-05-05", "1", "a"), ("2024-12-31", "2", "b")]
    assert served.same("SELECT tableoid::regclass::text, count(*) FROM m GROUP BY 1") == [("m24a", "2")]
    assert served.sub("SELECT n, r FROM whole") == [("2.00", "public.m")]


def test_twice_makes_what_is_missing(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.publishing.needs(15)
    served.pub(TABLES)
    options = ["import-schema", served.conninfo, "--apply", "--catalog", str(served.folder / "catalog.db"), "-d", "sub"]
    assert run(options) == 0
    made = capsys.readouterr()
    assert made.out.count("CREATE") == 15
    served.pub("CREATE TYPE later AS (a int); ALTER TABLE ident ADD COLUMN l later NOT NULL DEFAULT ROW(1)")
    served.pub("CREATE TABLE another (a int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE another")
    served.sub("INSERT INTO ident VALUES (1, 1, 'A'); ALTER TABLE whole REPLICA IDENTITY DEFAULT")
    assert run(options) == 0
    again = capsys.readouterr()
    assert again.out.splitlines() == ["CREATE SCHEMA", "CREATE TYPE", "CREATE TABLE", "ALTER TABLE"]
    noticed = [line.removeprefix("NOTICE:  ") for line in again.err.splitlines() if line.startswith("NOTICE:  ")]
    kinds = {"T x": "relation", "ident": "relation", "whole": "relation", "m": "relation", "m Rest": "relation"}
    kinds |= {"m24": "relation", "m24a": "relation", "Odd": "schema"}
    kinds |= dict.fromkeys(("mood", "positive", "code", "upper_code", "point", "points"), "type")
    assert sorted(noticed) == sorted(f'{kind} "{name}" already exists, skipping' for name, kind in kinds.items())
    assert "column l of table public.ident is added without NOT NULL" in again.err
    assert served.sub("SELECT a, b, c, l FROM ident") == [("1", "1", "A", None)]
    assert served.sub("SELECT relreplident FROM pg_class WHERE relname = 'whole'") == [("d",)]
    assert served.sub("SELECT count(*) FROM another") == [("0",)]


def test_what_is_left_out_of_columns_is_named(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.publishing.needs(15)
    served.pub(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int DEFAULT CASE WHEN true THEN 7 END, "
        'b int GENERATED ALWAYS AS (a * 2) STORED, c timestamptz DEFAULT now(), "D" text)'
    )
    served.pub("CREATE PUBLICATION p FOR TABLE t (id, a, c)")
    assert run(["import-schema", served.conninfo]) == 0
    script = capsys.readouterr().out
    named = [
        "column id of table public.t is no identity column here",
        "the default of column a of table public.t is not here: ",
        "CASE", "    WHEN true THEN 7", "    ELSE NULL::integer", "END",
        "generated column b of table public.t is not published",
        "the default of column c of table public.t is not here: now()",
        'column "D" of table public.t is not published',
    ]  # fmt: skip
    assert script == "".join(f"-- {line}\n" for line in named) + (
        "CREATE TABLE public.t (\n    id integer NOT NULL,\n    a integer,\n    c timestamp with time zone,\n"
        "    PRIMARY KEY (id)\n);\n"
    )
    catalog = str(served.folder / "catalog.db")
    assert run(["import-schema", served.conninfo, "--apply", "--catalog", catalog, "-d", "sub"]) == 0
    assert capsys.readouterr().err.replace("pgrepl: warning: ", "").splitlines() == named


def test_what_is_not_there_is_said(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import-schema", served.conninfo]) == 1
    assert capsys.readouterr().err == f'ERROR:  there are no publications in database "{served.database}"\n'
    assert run(["import-schema", served.conninfo, "-p", "nosuch"]) == 1
    assert capsys.readouterr().err == 'ERROR:  publication "nosuch" does not exist\n'
    assert run(["import-schema", "host=127.0.0.1 port=1 password=secret"]) == 2
    said = capsys.readouterr().err
    assert said.startswith('pgrepl: error: connection to server at "127.0.0.1", port 1 failed: Connection refused')
    assert "secret" not in said
    assert run(["import-schema", "shop"]) == 2
    assert capsys.readouterr().err == 'pgrepl: error: missing "=" after "shop" in connection info string\n'


def test_publications_with_different_column_lists(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.publishing.needs(15)
    served.pub("CREATE TABLE t (id int PRIMARY KEY, a int); CREATE PUBLICATION p FOR TABLE t (id)")
    served.pub("CREATE PUBLICATION q FOR TABLE t")
    said = 'ERROR:  cannot use different column lists for table "public.t" in different publications\n'
    hint = "HINT:  Name the publications of one subscription with -p.\n"
    for options, wanted in (([], said + hint), (["-p", "p", "-p", "q"], said)):
        assert run(["import-schema", served.conninfo, *options]) == 1
        assert capsys.readouterr().err == wanted
    assert run(["import-schema", served.conninfo, "-p", "p"]) == 0


PROGRAMS = """
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TYPE unused AS (a int);
CREATE TABLE t (id int PRIMARY KEY, m mood);
CREATE TABLE hidden (id int PRIMARY KEY);
CREATE VIEW z AS SELECT id, m FROM t WHERE m > 'low';
CREATE VIEW a WITH (security_barrier) AS SELECT count(*) AS n FROM z;
CREATE MATERIALIZED VIEW mv AS SELECT id FROM z;
CREATE UNIQUE INDEX mv_id ON mv (id);
CREATE VIEW secret AS SELECT id FROM hidden;
CREATE VIEW over_secret AS SELECT id FROM secret;
CREATE FUNCTION b(z) RETURNS mood LANGUAGE sql AS 'SELECT ($1).m';
CREATE FUNCTION c() RETURNS bigint BEGIN ATOMIC SELECT n FROM a; END;
CREATE VIEW calls AS SELECT b(z) AS b, c() AS c FROM z;
CREATE AGGREGATE total (int) (SFUNC = int4pl, STYPE = int);
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'kept %', NEW.id; RETURN NEW; END$$;
CREATE PROCEDURE p(u unused, INOUT n int) LANGUAGE plpgsql AS $$BEGIN n := n + u.a; END$$;
CREATE DOMAIN checked AS int CHECK (c() >= 0);
CREATE TRIGGER kept BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION keep();
ALTER TABLE t ENABLE ALWAYS TRIGGER kept;
CREATE TRIGGER gone BEFORE INSERT ON hidden FOR EACH ROW EXECUTE FUNCTION keep();
CREATE PUBLICATION p FOR TABLE t;
"""


def test_views_routines_and_triggers_come_along(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.publishing.needs(15)
    served.pub(PROGRAMS)
    catalog = str(served.folder / "catalog.db")
    options = [served.conninfo, "--views", "--triggers"]
    assert run(["import-schema", *options, "--apply", "--catalog", catalog, "-d", "sub"]) == 0
    done = capsys.readouterr()
    named = [line.removeprefix("pgrepl: warning: ") for line in done.err.splitlines()]
    assert named == [
        "function public.total(integer) is not imported: it is no plain function",
        "view public.secret is not imported: it needs table public.hidden",
        "view public.over_secret is not imported: it needs view public.secret",
        "trigger gone on public.hidden is not imported: it needs table public.hidden",
    ]
    assert run(["import-schema", *options]) == 0
    script = capsys.readouterr().out
    assert [line.removeprefix("-- ") for line in script.splitlines() if line.startswith("-- ")] == named
    assert run(["import-schema", served.conninfo]) == 0
    assert "VIEW" not in capsys.readouterr().out
    served.sub("CREATE DATABASE by_script")
    with Database(served.folder, "by_script") as made:
        made(script)
        shown = "SELECT c.relname FROM pg_class c WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
        assert made(shown) == served.sub(shown)
    served.subscribe()
    served.pub("INSERT INTO t VALUES (1, 'high'), (2, 'low')")
    assert served.catch_up() == []
    served.both("REFRESH MATERIALIZED VIEW mv")
    served.same("SELECT * FROM calls, mv")
    served.same("SELECT conname FROM pg_constraint WHERE contypid = 'checked'::regtype")
    served.same("SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 't'::regclass")
    assert served.sub("CALL p(ROW(1), 2)") == [("3",)]


def test_foreign_servers_come_along(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    role = f"mapped_{served.database}"
    served.pub(f"CREATE FOREIGN DATA WRAPPER postgres_fdw; CREATE FOREIGN DATA WRAPPER other; CREATE ROLE {role}")
    served.pub(
        "CREATE SERVER far TYPE 't' FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'h', dbname 'it''s', fetch_size '9'"
        "); CREATE SERVER odd FOREIGN DATA WRAPPER other; CREATE USER MAPPING FOR PUBLIC SERVER odd;"
        " CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (\"user\" 'u', password 'p', password_required 'false');"
        f" CREATE USER MAPPING FOR {role} SERVER far; CREATE TABLE t (a int); CREATE PUBLICATION p FOR TABLE t"
    )
    options = ["import-schema", served.conninfo, "--servers"]
    assert run(options) == 0
    assert capsys.readouterr().out.partition(");\n")[2] == (
        "-- option fetch_size of server far is not here\n"
        "CREATE SERVER far TYPE 't' FOREIGN DATA WRAPPER postgresql OPTIONS (host 'h', dbname 'it''s');\n"
        "-- server odd is not imported: its foreign-data wrapper is other\n"
        "-- option password_required of user mapping FOR PUBLIC SERVER far is not here\n"
        "CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (\"user\" 'u', password 'p');\n"
        f"CREATE USER MAPPING FOR {role} SERVER far;\n"
    )
    assert run([*options, "--apply", "--catalog", str(served.folder / "catalog.db"), "-d", "sub"]) == 0
    assert capsys.readouterr().err.splitlines()[3:] == [
        f'pgrepl: warning: user mapping FOR {role} SERVER far is not imported: role "{role}" does not exist'
    ]
    served.sub("CREATE SUBSCRIPTION s SERVER far PUBLICATION p WITH (connect = false, slot_name = NONE)")
    assert served.sub("SELECT usename, umoptions FROM pg_user_mappings") == [("public", "{user=u,password=p}")]
    served.sub("DROP SUBSCRIPTION s")
    served.pub(f"DROP SERVER far CASCADE; DROP ROLE {role}")


KEPT = "a database set to pgrepl.postgres_version = 18 keeps it"


@pytest.mark.parametrize("publishing", [18], indirect=True)
def test_keys_without_overlaps(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are where 18 is spoken; ordinary ones elsewhere."""
    served.pub(
        "CREATE TABLE t (id int4range, valid daterange, PRIMARY KEY (id, valid WITHOUT OVERLAPS));"
        " CREATE TABLE u (id int4range NOT NULL, valid daterange NOT NULL,"
        " CONSTRAINT u_key UNIQUE (id, valid WITHOUT OVERLAPS)); CREATE PUBLICATION p FOR ALL TABLES"
    )
    is_let = _is_done(served, "ALTER TABLE u REPLICA IDENTITY USING INDEX u_key")
    made = (
        "CREATE TABLE public.t (\n    id int4range NOT NULL,\n    valid daterange NOT NULL,\n"
        "    PRIMARY KEY (id, valid{})\n);\n"
    )
    command = ["import-schema", served.conninfo, "-p", "p", "--catalog", str(served.folder / "catalog.db"), "-d", "sub"]
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert f"-- the primary key of table public.t is not WITHOUT OVERLAPS here: {KEPT}\n" + made.format("") in printed
    served.sub("ALTER DATABASE sub SET pgrepl.postgres_version = 18")
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert made.format(" WITHOUT OVERLAPS") in printed
    assert ("UNIQUE (id, valid WITHOUT OVERLAPS)" in printed) is is_let
    assert run([*command, "--apply"]) == 0
    keys = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'p'"
    assert served.sub(keys) == served.pub(keys)


NOT_NULLS = """
CREATE TABLE nv (id int PRIMARY KEY, k int, l int CONSTRAINT "L n" NOT NULL, m int NOT NULL NO INHERIT);
CREATE UNIQUE INDEX nv_k ON nv (k);
INSERT INTO nv VALUES (1, NULL, 1, 1);
ALTER TABLE nv ADD CONSTRAINT knn NOT NULL k NO INHERIT NOT VALID;
CREATE TABLE p (a int, b int CONSTRAINT bb NOT NULL) PARTITION BY LIST (b);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
INSERT INTO p VALUES (NULL, 1);
ALTER TABLE p ADD CONSTRAINT ann NOT NULL a NOT VALID;
CREATE PUBLICATION pub FOR TABLE nv, p;
"""
REFUSES = "is NOT VALID: rows that have NULL can be copied only without it"
PARTITION = "CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES IN (1);\n"


@pytest.mark.parametrize("publishing", [18], indirect=True)
def test_not_null_constraints(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are where 18 is spoken; elsewhere without names, and without those that are NOT VALID."""
    served.pub(NOT_NULLS)
    catalog = ["--catalog", str(served.folder / "catalog.db")]
    command = ["import-schema", served.conninfo, "-p", "pub", *catalog, "-d", "sub"]
    served.pub("ALTER TABLE nv REPLICA IDENTITY USING INDEX nv_k")
    assert run(command) == 0
    assert capsys.readouterr().out == (
        f"-- constraint knn of table public.nv is not here, as it is NOT VALID: {KEPT}\n"
        "-- the replica identity of table public.nv is not here: it needs that constraint\n"
        "CREATE TABLE public.nv (\n    id integer NOT NULL,\n    k integer,\n    l integer NOT NULL,\n"
        "    m integer NOT NULL,\n    PRIMARY KEY (id)\n);\n"
        f"-- constraint ann of table public.p is not here, as it is NOT VALID: {KEPT}\n"
        "CREATE TABLE public.p (\n    a integer,\n    b integer NOT NULL\n) PARTITION BY LIST (b);\n" + PARTITION
    )
    served.sub("ALTER DATABASE sub SET pgrepl.postgres_version = 18")
    assert run(command) == 0
    added = "ALTER TABLE public.nv ADD CONSTRAINT knn NOT NULL k NO INHERIT NOT VALID;\n"
    assert capsys.readouterr().out == (
        f"-- constraint knn of table public.nv {REFUSES}\n"
        'CREATE TABLE public.nv (\n    id integer NOT NULL,\n    k integer,\n    l integer CONSTRAINT "L n" NOT NULL,\n'
        "    m integer NOT NULL NO INHERIT,\n    PRIMARY KEY (id)\n);\n" + added + ""
        "CREATE UNIQUE INDEX nv_k ON public.nv (k);\nALTER TABLE public.nv REPLICA IDENTITY USING INDEX nv_k;\n"
        f"-- constraint ann of table public.p {REFUSES}\n"
        "CREATE TABLE public.p (\n    a integer,\n    b integer CONSTRAINT bb NOT NULL\n) PARTITION BY LIST (b);\n"
        + PARTITION
        + "ALTER TABLE public.p ADD CONSTRAINT ann NOT NULL a NOT VALID;\n"
    )
    assert run([*command, "--apply"]) == 0
    capsys.readouterr()
    assert run(["diff", "sub", served.conninfo, "--all", *catalog]) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if " TABLE public." in line] == []
    served.same(
        "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'n'"
        " AND conrelid IN ('nv'::regclass, 'p'::regclass, 'p1'::regclass) ORDER BY 1, 2"
    )
    served.sub("DROP TABLE nv, p; ALTER DATABASE sub SET pgrepl.postgres_version = 17")
    assert run([*command, "--apply"]) == 0
    served.subscribe_only("pub")
    assert served.catch_up() == []
    assert served.same("SELECT nv.k, p.a FROM nv, p") == [(None, None)]


def _is_done(served: Served, text: str) -> bool:
    try:
        served.pub(text)
    except psycopg.Error:
        return False
    return True
