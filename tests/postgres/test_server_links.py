"""One connection to a server: what was not wanted to its end, a server that goes away meanwhile, and TLS."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from pgrepl.engine import choice
from pgrepl.replication.conninfo import ConnectionFailure, parse_conninfo
from pgrepl.replication.publisher.postgres import copy_columns
from pgrepl.replication.publisher.postgres.connection import ServerConnection
from pgrepl.replication.publisher.postgres.link import Link, link_to
from pgrepl.replication.publisher.postgres.stream import Stream
from pgrepl.replication.publisher.protocol import PublisherError
from tests.postgres.relay import relay, through
from tests.postgres.served import Served
from tests.postgres.tls_front import certificate, tls_front

ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)
ENDLESS = "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 1000000)) TO STDOUT"


def abandoned(served: Served) -> Link:
    link = link_to(parse_conninfo(served.conninfo))
    next(link.copy_out(ENDLESS))
    return link


@ON_ONE
def test_what_nobody_wants_to_its_end_is_out_of_the_way_of_the_next_command(served: Served) -> None:
    link = abandoned(served)
    assert link.value("SELECT 'next'") == "next"
    link.close()


@ON_ONE
def test_a_link_that_is_lost_says_so_whenever_it_is_asked(served: Served) -> None:
    link = abandoned(served)
    served.pub(f"SELECT pg_terminate_backend({link.backend}, 10000)")
    for _ in range(3):
        with pytest.raises(PublisherError) as caught:
            link.rows("SELECT 1")
        assert caught.value.sqlstate in ("08006", "57P01")
    assert not link.is_open
    link.close()


@ON_ONE
def test_a_server_that_ends_while_it_is_connected_to_is_an_error_that_workers_expect(served: Served) -> None:
    with relay(served) as network:
        options = parse_conninfo(through(network, served))
        network.hear = lambda by_server, message: 0 if message[:1] == b"Q" else None
        with pytest.raises(ConnectionFailure):
            link_to(options)
        network.hear = lambda by_server, message: None
        connection = ServerConnection(Link(options, ""), "")
        connection.stream = cast("Stream", object())  # so that another connection is opened beside it
        network.server_socket = "/nowhere"
        with pytest.raises(PublisherError) as caught:
            connection.link.rows("SELECT 1")
        assert caught.value.sqlstate == "08006"
        connection.opened.close()


@ON_ONE
def test_all_connections_are_encrypted_where_tls_is_asked_for(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "WORTH_A_FILE", 0)
    monkeypatch.setattr(copy_columns, "RANGE", 1 << 14)  # several readers
    served.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    served.pub("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 3000) g")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    own, other = certificate(tmp_path, "own"), certificate(tmp_path, "other")
    make = "CREATE SUBSCRIPTION s CONNECTION '{}' PUBLICATION p WITH (slot_name = {})"
    server = served.publishing.server
    with tls_front(f"{server.host}/.s.PGSQL.{server.port}", own) as port:

        def conninfo(host: str, mode: str, root: Path) -> str:
            return (
                f"postgresql://postgres@{host}:{port}/{served.database}"
                f"?hostaddr=127.0.0.1&sslmode={mode}&sslrootcert={root}"
            )

        failed = f'^could not connect to the publisher: connection to server at "127.0.0.1", port {port} failed: '
        for host, mode, root, reason in (
            ("localhost", "verify-full", other[0], "SSL error: certificate verify failed"),
            (
                "localhost",
                "verify-full",
                tmp_path / "nosuch.crt",
                'root certificate file ".*/nosuch.crt" does not exist',
            ),
            (
                "elsewhere",
                "verify-full",
                own[0],
                'server certificate for "localhost" does not match host name "elsewhere"',
            ),
            ("localhost", "disable", own[0], "server closed the connection unexpectedly"),
        ):
            with pytest.raises(Exception, match=failed + reason):
                served.sub(make.format(conninfo(host, mode, root), served.slot))
        served.sub(make.format(conninfo("localhost", "verify-full", own[0]), served.slot))
        assert served.catch_up() == []
        served.pub("UPDATE t SET b = 'changed' WHERE a % 2 = 0")
        assert served.catch_up() == []
        served.same("SELECT count(*), sum(a), count(*) FILTER (WHERE b = 'changed') FROM t")
        served.sub("DROP SUBSCRIPTION s")


@ON_ONE
def test_a_role_that_may_not_read_the_table_is_told_so_as_by_postgresqls_own_subscriber(served: Served) -> None:
    role = f"reader_{served.database}"
    served.both("CREATE TABLE t (a int PRIMARY KEY)")
    served.pub(f"INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t; CREATE ROLE {role} LOGIN REPLICATION")
    conninfo = served.conninfo.replace("user=postgres", f"user={role}")
    served.sub(f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (slot_name = {served.slot})")
    ((message, _, _),) = served.catch_up()
    assert message == (
        'could not start initial contents copy for table "public.t": ERROR:  permission denied for table t'
    )
    served.pub(f"GRANT SELECT ON t TO {role}")
    assert served.catch_up() == []
    served.same("SELECT * FROM t")
    served.sub("DROP SUBSCRIPTION s")
    served.pub(f"DROP OWNED BY {role}; DROP ROLE {role}")
