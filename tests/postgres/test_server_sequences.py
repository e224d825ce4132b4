"""Sequences of real servers follow, and all of a switch-over from a server to a lake, and from that to another server,
after which every side goes on counting without hand work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tests.harness.database import Database
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.programs import eventually
from tests.harness.serving import serving
from tests.postgres.served import Served
from tests.postgres.server import Server, new_server

MADE = (
    "CREATE TABLE t (id serial PRIMARY KEY, a text); CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);"
    'CREATE SCHEMA "S"; CREATE SEQUENCE "S"."Q q" AS int INCREMENT -3 MAXVALUE 50 MINVALUE -1000 CYCLE'
)
VALUES = (
    "SELECT last_value, is_called FROM t_id_seq UNION ALL SELECT last_value, is_called FROM i_id_seq"
    ' UNION ALL SELECT last_value, is_called FROM "S"."Q q"'
)


def test_values_follow_behind_the_rows(served: Served) -> None:
    served.both(MADE)
    served.pub("CREATE SEQUENCE there; CREATE PUBLICATION p FOR ALL TABLES; INSERT INTO t (a) VALUES ('x'), ('y')")
    served.sub("CREATE SEQUENCE here")
    served.subscribe(options="sequences = on")
    assert served.same(VALUES) == [("2", "t"), ("1", "f"), ("50", "f")]
    served.pub("INSERT INTO t (a) SELECT 'z' FROM generate_series(1, 100); INSERT INTO i DEFAULT VALUES")
    served.pub("""SELECT nextval('"S"."Q q"') FROM generate_series(1, 3)""")
    assert served.catch_up() == []
    assert served.same(VALUES) == [("102", "t"), ("1", "t"), ("44", "t")]
    assert served.sub("SELECT count(*) FROM t") == [("102",)]
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel WHERE srrelid = 't_id_seq'::regclass") == [("r",)]


def test_what_the_server_does_not_let_the_role_read(served: Served) -> None:
    served.both(MADE)
    role = f"r_{served.database}"
    served.pub(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES; SELECT nextval('t_id_seq')")
    served.subscribe_only("p", "sequences = on", served.conninfo.replace("user=postgres", f"user={role}"))
    failed = 'logical replication sequence synchronization failed for subscription "s"'
    assert served.catch_up() == [(failed, None, None)]
    assert served.log.messages("WARNING") == [
        'insufficient privileges on publisher sequences ("public.t_id_seq", "public.i_id_seq", "S.Q q")'
    ]
    served.pub(f'GRANT USAGE ON SCHEMA "S" TO {role}; GRANT SELECT ON "S"."Q q", t_id_seq, i_id_seq TO {role}')
    assert served.catch_up() == []
    assert served.same(VALUES)[0] == ("1", "t")
    served.pub(f"DROP OWNED BY {role}; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")


def test_servers_before_19_cannot_be_asked_to_refresh(served: Served) -> None:
    served.both(MADE)
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    served.subscribe()
    assert served.sub.says("ALTER SUBSCRIPTION s REFRESH SEQUENCES") == (
        "cannot synchronize sequences if the publisher is running a version earlier than PostgreSQL 19\n"
        "ALTER SUBSCRIPTION ... SET (sequences = on) follows the sequences of any server."
    )
    served.pub("SELECT nextval('t_id_seq')")
    served.sub("ALTER SUBSCRIPTION s SET (sequences = on)", "ALTER SUBSCRIPTION s REFRESH SEQUENCES")
    assert served.catch_up() == []
    assert served.same(VALUES)[0] == ("1", "t")


def test_a_served_lake_is_asked_as_a_server_of_19(tmp_path: Path) -> None:
    with serving(tmp_path / "lake") as lake, Database(tmp_path / "sub", "sub", new=True) as sub:
        lake.ask("CREATE DATABASE pub")
        with lake.connect(dbname="pub") as pub:
            pub.execute("CREATE SEQUENCE q; CREATE SEQUENCE hidden; SELECT setval('q', 41)")
            pub.execute("CREATE PUBLICATION p FOR ALL SEQUENCES")
            pub.execute("CREATE ROLE r LOGIN REPLICATION; GRANT SELECT ON q TO r")
            sub("CREATE SEQUENCE q; CREATE SEQUENCE hidden")
            sub.subscribe("p", f"host=127.0.0.1 port={lake.port} dbname=pub user=r")
            assert [error[0].partition(" for ")[0] for error in sub.catch_up()] == [
                "logical replication sequence synchronization failed"
            ]
            assert sub.log.messages("WARNING") == ['insufficient privileges on publisher sequence ("public.hidden")']
            assert sub("SELECT last_value, is_called FROM q") == [("41", "t")]
            pub.execute("GRANT SELECT ON hidden TO r; SELECT nextval('q')")
            sub("ALTER SUBSCRIPTION s REFRESH SEQUENCES")
            assert sub.catch_up() == []
            assert sub("SELECT last_value FROM q") == [("42",)]
            sub("DROP SUBSCRIPTION s")


@pytest.fixture(scope="module")
def next_server() -> Iterator[Server]:
    server = new_server(18, "max_logical_replication_workers = 8\nwal_retrieve_retry_interval = 200\n")
    yield server
    server.stop()


def work(link: Any, random: Random) -> None:
    """What an application does, that takes each key from a sequence."""
    for _ in range(random.randrange(5, 20)):
        link.execute(
            random.choice(
                [
                    "INSERT INTO t (a) SELECT 'row' FROM generate_series(1, 4)",
                    "INSERT INTO i DEFAULT VALUES",
                    "UPDATE t SET a = a || '!' WHERE id % 3 = 0",
                    "DELETE FROM t WHERE id % 5 = 0",
                    """SELECT nextval('"S"."Q q"')""",
                    "INSERT INTO excepted DEFAULT VALUES",
                ]
            )
        )


@pytest.mark.parametrize("seed", dose(range(8), 8, 1))
def test_a_whole_switch_over(served: Served, next_server: Server, tmp_path: Path, seed: int) -> None:
    """server -> lake -> server: whoever is written to takes the numbers that come next."""
    random = Random(seed)
    tables = MADE + "; CREATE TABLE excepted (id serial PRIMARY KEY)"
    rows = ("SELECT * FROM t ORDER BY id", "SELECT * FROM i ORDER BY id")
    served.both(tables)
    served.pub("CREATE PUBLICATION p FOR TABLE t, i")
    work(served.link, random)
    served.subscribe(options="sequences = on")
    work(served.link, random)
    assert served.catch_up() == []  # nobody writes to the server any more
    for query in (*rows, VALUES):
        served.same(query)
    assert served.sub("SELECT last_value FROM excepted_id_seq") == served.pub("SELECT last_value FROM excepted_id_seq")
    served.sub("DROP SUBSCRIPTION s", "CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE excepted), ALL SEQUENCES")
    served.sub.leave()
    where = f"host={next_server.host} port={next_server.port} user=postgres dbname="
    name = f"next_{served.publishing.version}_{seed}"
    with psycopg.connect(where + "postgres", autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}".encode())
    with serving(served.folder) as lake, lake.connect(dbname="sub") as ours, psycopg.connect(where + name) as there:
        there.autocommit = True
        there.execute(tables)
        publisher = f"host=127.0.0.1 port={lake.port} user=postgres dbname=sub"
        there.execute(f"CREATE SUBSCRIPTION back CONNECTION '{publisher}' PUBLICATION p")
        work(ours, random)  # on the lake, with the numbers behind the server's
        mine = [ours.execute(query).fetchall() for query in rows]
        eventually(lambda: [there.execute(query).fetchall() for query in rows] == mine, 60)
        unready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'"
        eventually(lambda: there.execute(unready).fetchall() == [(0,)], 60)
        there.execute("DROP SUBSCRIPTION back")
        values = pgrepl("dump", "--catalog", str(served.folder / "catalog.db"), "-d", "sub", "--sequence-data").stdout
        there.execute(values)
        assert there.execute(VALUES).fetchall() == ours.execute(VALUES).fetchall()
        assert there.execute("SELECT count(*) FROM excepted").fetchall() == [(0,)]
        work(there, random)  # no key is there already
