"""How a connection string leads to a server: service files, passwords, several hosts, and what is never shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.served import PublishingServer, Served


@pytest.fixture(scope="module")
def publishing() -> Iterator[PublishingServer]:
    """Over TCP roles other than postgres need a password."""
    made = PublishingServer(18)
    hba = made.server.folder / "data" / "pg_hba.conf"
    hba.write_text(
        "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    made.restart("fast")
    yield made
    made.server.stop()


@pytest.fixture
def served(publishing: PublishingServer, tmp_path: Path) -> Iterator[Served]:
    made = Served(publishing, tmp_path)
    made.both("CREATE TABLE t (a int PRIMARY KEY)")
    made.pub("INSERT INTO t VALUES (1)")
    made.pub("CREATE PUBLICATION p FOR TABLE t")
    made.pub(f"CREATE ROLE repl_{made.database} LOGIN REPLICATION PASSWORD 'geheim'")
    made.pub(f"GRANT SELECT ON t TO repl_{made.database}")
    yield made
    made.close()


def subscribe(served: Served, conninfo: str) -> None:
    served.subscribe_only(conninfo=conninfo)
    assert served.catch_up() == []
    assert served.sub("SELECT * FROM t") == [("1",)]


def tcp(served: Served) -> str:
    return f"host=127.0.0.1 port={served.publishing.server.port} dbname={served.database}"


def test_a_uri_with_a_password(served: Served) -> None:
    port = served.publishing.server.port
    subscribe(served, f"postgresql://repl_{served.database}:geheim@127.0.0.1:{port}/{served.database}?sslmode=prefer")


def test_a_service_file(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tcp(served).replace(" ", "\n")
    (tmp_path / "services").write_text(f"[shop]\n{lines}\nuser=repl_{served.database}\npassword=geheim\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    subscribe(served, "service=shop")


def test_a_password_file(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pass").write_text(f"127.0.0.1:*:*:repl_{served.database}:geheim\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    subscribe(served, f"{tcp(served)} user=repl_{served.database}")


def test_the_environment_completes_what_names_no_host(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(served.publishing.server.port))
    subscribe(served, f"dbname={served.database} user=postgres")


def test_the_next_of_several_hosts(served: Served) -> None:
    port = served.publishing.server.port
    subscribe(
        served,
        f"host=127.0.0.1,127.0.0.1 port=1,{port} dbname={served.database} user=postgres target_session_attrs=any",
    )


def test_a_folder_and_a_server_in_one_list(served: Served, tmp_path: Path) -> None:
    port = served.publishing.server.port
    subscribe(served, f"host={tmp_path}/nosuch,127.0.0.1 port=1,{port} dbname={served.database} user=postgres")


def test_a_password_is_needed_and_never_shown(served: Served) -> None:
    served.sub("CREATE ROLE alice LOGIN")
    served.sub("GRANT pg_create_subscription TO alice")
    served.sub("GRANT CREATE ON DATABASE sub TO alice")
    served.sub("ALTER TABLE t OWNER TO alice")
    served.sub("SET ROLE alice")
    conninfo = f"{tcp(served)} user=repl_{served.database}"
    make = "CREATE SUBSCRIPTION s CONNECTION '{}' PUBLICATION p WITH (slot_name = {})"
    with pytest.raises(Exception, match=r"^password is required$"):
        served.sub(make.format(conninfo, served.slot))
    with pytest.raises(Exception, match="password authentication failed for user") as caught:
        served.sub(make.format(f"{conninfo} password=falsch", served.slot))
    assert "falsch" not in str(caught.value)
    with pytest.raises(Exception, match=r"^password is required$"):  # a server that does not ask for it
        served.sub(make.format(f"{tcp(served)} user=postgres password=any", served.slot))
    subscribe(served, f"{conninfo} password=geheim")
    with pytest.raises(Exception, match="permission denied"):
        served.sub("SELECT subconninfo FROM pg_subscription")
    served.sub("RESET ROLE")
    assert all("geheim" not in f"{report}" for report in served.log.reports)


def test_connections_move_to_another_server(served: Served, tmp_path: Path) -> None:
    """As after a failover: the slot is there, too."""
    subscribe(served, f"{tcp(served)} user=postgres")
    served.sub("ALTER SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port=1 dbname=pub'")
    ((message, _, _),) = served.catch_up()
    assert message.startswith('could not connect to the publisher: connection to server at "127.0.0.1", port 1 failed')
    served.sub(f"ALTER SUBSCRIPTION s CONNECTION '{served.conninfo}'")
    served.pub("INSERT INTO t VALUES (2)")
    assert served.catch_up() == []
    assert served.sub("SELECT count(*) FROM t") == [("2",)]
