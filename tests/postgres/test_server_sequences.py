"""Sequences of real servers follow; tests/postgres/test_version_chains.py plays whole switch-overs."""

from __future__ import annotations

from pathlib import Path

from tests.harness.database import Database
from tests.harness.serving import serving
from tests.postgres.served import Served

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
