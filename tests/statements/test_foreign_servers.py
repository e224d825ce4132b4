"""Foreign servers and user mappings, and subscriptions that connect by them, as PostgreSQL 19 has them (CREATE
SUBSCRIPTION, "SERVER", A21); passwords are shown to nobody who may not see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.statements.definitions.changes import dump
from tests.harness.pair import Pair

SERVER = "CREATE SERVER shop FOREIGN DATA WRAPPER lake OPTIONS (host 'localhost', dbname 'pub')"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    made.both("CREATE TABLE t (a int PRIMARY KEY)")
    made.pub("CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1)")
    yield made
    made.close()


def test_a_subscription_connects_by_its_server(pair: Pair) -> None:
    pair.sub(SERVER, "CREATE USER MAPPING FOR PUBLIC SERVER shop OPTIONS (user 'postgres')")
    pair.sub("CREATE SUBSCRIPTION s SERVER shop PUBLICATION p")
    assert pair.catch_up() == []
    assert pair.sub("SELECT a FROM t") == [("1",)]
    assert pair.sub("SELECT subconninfo, subserver::regclass::oid > 0 FROM pg_subscription") == [("", "t")]
    assert pair.sub.says("DROP SERVER shop").startswith(
        "cannot drop server shop because other objects depend on it\n"
        "user mapping for public on server shop depends on server shop\nsubscription s depends on server shop"
    )
    pair.sub("ALTER SERVER shop OPTIONS (SET dbname 'nowhere')")
    pair.pub("INSERT INTO t VALUES (2)")
    (error,) = pair.catch_up()
    assert 'database "nowhere" does not exist' in error[0]
    pair.sub("ALTER SERVER shop OPTIONS (SET dbname 'pub')")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM t") == [("2",)]
    pair.sub("ALTER SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub'", "DROP SERVER shop CASCADE")
    pair.pub("INSERT INTO t VALUES (3)")
    assert pair.catch_up() == []
    pair.sub(SERVER, "CREATE USER MAPPING FOR USER SERVER shop", "ALTER SUBSCRIPTION s SERVER shop")
    pair.pub("INSERT INTO t VALUES (4)")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM t") == [("4",)]
    pair.sub("DROP SUBSCRIPTION s", "DROP USER MAPPING FOR postgres SERVER shop", "DROP SERVER shop")


def test_what_is_missing_is_told_as_19_tells_it(pair: Pair) -> None:
    pair.sub(SERVER)
    create = "CREATE SUBSCRIPTION s SERVER shop PUBLICATION p"
    missing = 'user mapping not found for user "postgres", server "shop"'
    assert pair.sub.says(create) == missing
    pair.sub(create + " WITH (connect = false)")
    assert missing in pair.sub.notices
    assert pair.sub.says("ALTER SUBSCRIPTION s SERVER other") == 'server "other" does not exist'
    for statement, text in (
        ("CREATE SERVER x FOREIGN DATA WRAPPER oracle", 'foreign-data wrapper "oracle" does not exist'),
        (SERVER, 'server "shop" already exists'),
        ("CREATE SERVER x FOREIGN DATA WRAPPER lake OPTIONS (hots 'a')",
         'invalid option "hots"\nPerhaps you meant the option "host".'),
        ("CREATE SERVER x FOREIGN DATA WRAPPER postgresql OPTIONS (password 'a')", 'invalid option "password"'),
        ("ALTER SERVER shop OPTIONS (ADD host 'b')", 'option "host" provided more than once'),
        ("ALTER SERVER shop OPTIONS (DROP port)", 'option "port" not found'),
        ("CREATE USER MAPPING FOR nobody SERVER shop", 'role "nobody" does not exist'),
        ("ALTER USER MAPPING FOR PUBLIC SERVER shop OPTIONS (user 'x')",
         'user mapping for "public" does not exist for server "shop"'),
    ):  # fmt: skip
        assert pair.sub.says(statement).startswith(text)
    pair.sub("DROP SERVER IF EXISTS x; DROP USER MAPPING IF EXISTS FOR nobody SERVER shop")
    pair.sub("CREATE SERVER IF NOT EXISTS shop FOREIGN DATA WRAPPER lake")
    assert pair.sub.notices[-3:] == [
        'server "x" does not exist, skipping',
        'role "nobody" does not exist, skipping',
        'server "shop" already exists, skipping',
    ]


@pytest.mark.parametrize(
    ("gone", "error", "back"),
    [
        (
            "DROP USER MAPPING FOR postgres SERVER shop",
            'user mapping not found for user "postgres", server "shop"',
            "CREATE USER MAPPING FOR postgres SERVER shop",
        ),
        (
            "ALTER SUBSCRIPTION s OWNER TO ann",
            'subscription owner "ann" does not have permission on foreign server "shop"',
            "ALTER SUBSCRIPTION s OWNER TO postgres",
        ),
    ],
)
def test_a_mapping_that_is_gone_is_an_error_of_the_worker_alone(pair: Pair, gone: str, error: str, back: str) -> None:
    """Its connection is kept from the rounds before, and no longer the one that the subscription wants."""
    pair.sub(SERVER, "CREATE ROLE ann", "CREATE USER MAPPING FOR postgres SERVER shop OPTIONS (user 'postgres')")
    pair.sub("CREATE SUBSCRIPTION s SERVER shop PUBLICATION p")
    assert pair.catch_up() == []
    pair.sub(gone)
    pair.pub("INSERT INTO t VALUES (2)")
    assert [found[0] for found in pair.catch_up()] == [error]
    assert pair.sub("SELECT count(*) FROM t") == [("1",)]
    assert pair.sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [("0",)]
    assert pair.sub.says("ALTER SUBSCRIPTION s REFRESH PUBLICATION") == error
    pair.sub(back)
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*) FROM t") == [("2",)]


def test_who_may(pair: Pair) -> None:
    pair.sub(SERVER, "CREATE ROLE joe LOGIN IN ROLE pg_create_subscription; CREATE ROLE ann")
    pair.sub("GRANT CREATE ON DATABASE sub TO joe; CREATE USER MAPPING FOR ann SERVER shop OPTIONS (password 'hers')")
    create = "CREATE SUBSCRIPTION s SERVER shop PUBLICATION p WITH (connect = false)"
    pair.sub("SET ROLE joe")
    assert pair.sub.says(create) == "permission denied for foreign server shop"
    assert pair.sub.says("CREATE USER MAPPING FOR joe SERVER shop") == "permission denied for foreign server shop"
    assert pair.sub.says("DROP SERVER shop") == "must be owner of foreign server shop"
    assert pair.sub.says("CREATE SERVER x FOREIGN DATA WRAPPER lake") == (
        "permission denied for foreign-data wrapper lake"
    )
    pair.sub("RESET ROLE", "GRANT USAGE ON FOREIGN SERVER shop TO joe", "SET ROLE joe")
    pair.sub("CREATE USER MAPPING FOR joe SERVER shop OPTIONS (user 'joe', password 'his')")
    assert pair.sub.says("DROP USER MAPPING FOR ann SERVER shop") == "must be owner of foreign server shop"
    pair.sub(create)
    shown = "SELECT usename, umoptions FROM pg_user_mappings ORDER BY 1"
    assert pair.sub(shown) == [("ann", None), ("joe", "{user=joe,password=his}")]
    assert pair.sub.says("SELECT * FROM pg_user_mapping").startswith("permission denied")
    script = "\n".join(dump(pair.sub.session, schema=False, publications=False, subscriptions=True))
    assert "hers" not in script and "CREATE USER MAPPING FOR ann SERVER shop;" in script
    pair.sub("RESET ROLE")
    assert pair.sub(shown)[0] == ("ann", "{password=hers}")
    assert "user mapping for ann on server shop" in pair.sub.says("DROP ROLE ann")
    pair.sub("REVOKE USAGE ON FOREIGN SERVER shop FROM joe")
    assert pair.sub.says("ALTER SUBSCRIPTION s SERVER shop") == (
        'subscription owner "joe" does not have permission on foreign server "shop"'
    )
    pair.sub("ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s", "DROP OWNED BY joe, ann")
    assert pair.sub(shown) == []
    pair.sub("DROP ROLE ann; ALTER SERVER shop RENAME TO other; ALTER SERVER other OWNER TO CURRENT_USER")


def test_a_new_owner_takes_the_grants_along(pair: Pair) -> None:
    """As PostgreSQL 18 answers."""
    pair.sub(SERVER, "CREATE ROLE ann; CREATE ROLE bob; GRANT USAGE ON FOREIGN SERVER shop TO bob")
    pair.sub("ALTER SERVER shop OWNER TO ann")
    assert pair.sub("SELECT srvacl FROM pg_foreign_server WHERE srvname = 'shop'") == [("{ann=U/ann,bob=U/ann}",)]
    pair.sub("DROP SERVER shop; DROP ROLE ann, bob")


def test_a_dump_makes_it_again(pair: Pair, tmp_path: Path) -> None:
    pair.sub(
        "CREATE SERVER shop TYPE 'a' VERSION '1' FOREIGN DATA WRAPPER lake OPTIONS (host 'localhost', dbname 'pub')"
    )
    pair.sub("CREATE USER MAPPING FOR PUBLIC SERVER shop OPTIONS (user 'postgres', password 'it''s')")
    pair.sub("GRANT USAGE ON FOREIGN SERVER shop TO PUBLIC; COMMENT ON SERVER shop IS 'here'")
    pair.sub("CREATE SUBSCRIPTION s SERVER shop PUBLICATION p")
    script = list(dump(pair.sub.session, schema=True, publications=True, subscriptions=True))
    assert "CREATE SUBSCRIPTION s SERVER shop PUBLICATION p WITH (connect = false, slot_name = 's');" in script
    other = Pair(tmp_path / "other")
    other.sub(*script)
    assert list(dump(other.sub.session, schema=True, publications=True, subscriptions=True)) == script
    other.close()
