"""Publications of all tables and sequences, and with exceptions (A20): what the documentation of PostgreSQL 19 and its
regression test for publications say."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.database import Database
from tests.harness.pair import Pair

MADE = (
    "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE child () INHERITS (u);"
    "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY LIST (id);"
    "CREATE TABLE leaf PARTITION OF root FOR VALUES IN (1, 2); CREATE SEQUENCE q; CREATE UNLOGGED SEQUENCE unlogged"
)
TABLES = "SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_publication_tables WHERE pubname = 'p'"
EXCEPTED = (
    "SELECT string_agg(prrelid::regclass::text, ' ' ORDER BY prrelid::regclass::text) FROM pg_publication_rel"
    " WHERE prexcept"
)
FLAGS = "SELECT puballtables, puballsequences FROM pg_publication WHERE pubname = 'p'"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path)
    made(MADE)
    return made


def test_set_all_replaces_what_the_publication_is_of(database: Database) -> None:
    database("CREATE PUBLICATION p")
    for objects, flags, tables, excepted in (
        ("ALL TABLES EXCEPT (TABLE u, root)", ("t", "f"), "t", "child root u"),
        ("ALL TABLES EXCEPT (TABLE ONLY u, TABLE t), ALL SEQUENCES", ("t", "t"), "child leaf", "t u"),
        ("ALL SEQUENCES", ("f", "t"), None, None),
        ("ALL TABLES", ("t", "f"), "child leaf t u", None),
    ):
        database(f"ALTER PUBLICATION p SET {objects}")
        assert (database(FLAGS)[0], database(TABLES)[0][0], database(EXCEPTED)[0][0]) == (flags, tables, excepted)
    database("ALTER PUBLICATION p SET (publish_via_partition_root)")
    database("ALTER PUBLICATION p SET ALL TABLES EXCEPT (TABLE u*), ALL SEQUENCES")
    assert database(TABLES) == [("root t",)]
    assert database("SELECT sequencename FROM pg_publication_sequences") == [("q",)]
    database("ALTER TABLE u RENAME TO other", "CREATE TABLE u ()")
    assert database(TABLES, EXCEPTED) == [("child other",)]
    database("DROP TABLE other CASCADE")
    assert database(EXCEPTED) == [(None,)]


def test_what_is_refused(database: Database) -> None:
    for statement, text in (
        ("CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE leaf)",
         'cannot specify relation "public.leaf" in the publication EXCEPT clause\n'
         "This operation is not supported for individual partitions."),
        ("CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE pg_class)",
         'cannot specify relation "pg_catalog.pg_class" in the publication EXCEPT clause\n'
         "This operation is not supported for system tables."),
        ("CREATE PUBLICATION p FOR ALL TABLES EXCEPT (t)", 'syntax error at or near "t"'),
        ("CREATE PUBLICATION p FOR ALL SEQUENCES, TABLE t", 'syntax error at or near "TABLE"'),
        ("CREATE PUBLICATION p FOR ALL SEQUENCES, ALL SEQUENCES",
         "invalid publication object list\nALL SEQUENCES can be specified only once."),
    ):  # fmt: skip
        assert database.says(statement) == text
    database("CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION s FOR TABLES IN SCHEMA public")
    needs = "This operation requires the publication to be defined as FOR ALL TABLES/SEQUENCES or to be empty."
    for name, objects in (("p", "TABLES"), ("s", "SEQUENCES")):
        said = database.says(f"ALTER PUBLICATION {name} SET ALL {objects}")
        assert said == f'publication "{name}" does not support ALL {objects} operations\n{needs}'
    database("DROP PUBLICATION p, s", "CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE u)")
    assert database.says("ALTER TABLE root ATTACH PARTITION u FOR VALUES IN (3)").startswith(
        'cannot attach table "u" as partition because it is referenced in publication "p" EXCEPT clause'
    )
    assert database.says("ALTER PUBLICATION p ADD TABLE u").startswith('publication "p" is defined as FOR ALL TABLES')
    database("CREATE ROLE joe; GRANT CREATE ON DATABASE postgres TO joe; SET ROLE joe")
    assert database.says("CREATE PUBLICATION j FOR ALL SEQUENCES") == (
        "must be superuser to create a FOR ALL TABLES or ALL SEQUENCES publication"
    )
    database("CREATE PUBLICATION j")
    assert database.says("ALTER PUBLICATION j SET ALL SEQUENCES") == "must be superuser to set ALL SEQUENCES"


def test_an_update_of_a_table_that_is_left_out_needs_no_identity(database: Database) -> None:
    database("CREATE TABLE n (a int); INSERT INTO n VALUES (1)", "CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE n)")
    database("UPDATE n SET a = 2")
    database("ALTER PUBLICATION p SET ALL TABLES")
    assert database.says("UPDATE n SET a = 3").startswith('cannot update table "n"')


def test_changes_of_what_is_left_out_are_not_sent(tmp_path: Path) -> None:
    with closing(Pair(tmp_path)) as pair:
        _leaves_out(pair)


def _leaves_out(pair: Pair) -> None:
    pair.both(MADE)
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE u, root); CREATE PUBLICATION more FOR TABLE child")
    pair.subscribe("p, more")
    pair.pub(
        "INSERT INTO t VALUES (1); INSERT INTO u VALUES (2); INSERT INTO child VALUES (3)",
        "INSERT INTO leaf VALUES (1)",
    )
    assert pair.catch_up() == []
    count = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u), (SELECT count(*) FROM root)"
    assert pair.sub(count) == [("1", "1", "0")]  # what another publication sends arrives
    pair.pub("ALTER PUBLICATION p SET ALL TABLES")
    pair.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert pair.catch_up() == []
    assert pair.sub(count) == [("1", "2", "1")]
    pair.pub("ALTER PUBLICATION p SET ALL TABLES EXCEPT (TABLE root)", "INSERT INTO root VALUES (2)", "DELETE FROM t")
    assert pair.catch_up() == []
    assert pair.sub(count) == [("0", "2", "1")]


@pytest.mark.parametrize("objects", ["ALL TABLES EXCEPT (TABLE u, TABLE root), ALL SEQUENCES", "ALL SEQUENCES"])
def test_dump_and_plan_know_it(tmp_path: Path, database: Database, objects: str) -> None:
    from pgrepl.statements.definitions.changes import dump

    database(f"CREATE PUBLICATION p FOR {objects}")
    script = list(dump(database.session, schema=True, publications=True, subscriptions=False))
    with Database(tmp_path / "other") as other:
        other(*script)
        assert list(dump(other.session, schema=True, publications=True, subscriptions=False)) == script
