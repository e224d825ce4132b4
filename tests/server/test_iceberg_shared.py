"""Iceberg's REST catalog over a catalog in PostgreSQL: only readers of Iceberg are answered."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import pgrepl
from tests.harness.forked import pgrepl as command
from tests.harness.programs import eventually, started
from tests.lake.test_elsewhere import catalog_url, server
from tests.postgres.server import free_port


def test_readers_see_what_is_committed(tmp_path: Path, catalog_url: str) -> None:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    port, log = free_port(), tmp_path / "log"
    (tmp_path / "pg_hba.conf").write_text("host all postgres 127.0.0.1/32 trust\n")
    with pgrepl.connect(catalog_url, autocommit=True, data_path=str(tmp_path / "lake")) as link:
        cursor = link.cursor()
        cursor.execute("CREATE TABLE t (a int, b text)")
        cursor.execute("INSERT INTO t SELECT g, 'b' || g FROM generate_series(1, 200) g")
        cursor.execute("DELETE FROM t WHERE a > 3")
        arguments = ("--catalog", catalog_url, "--iceberg", str(port), "--log-file", str(log))
        with started("serve", *arguments, cwd=tmp_path) as process:
            eventually(lambda: process.poll() is not None or (log.exists() and "ready to accept" in log.read_text()))
            lake = rest.RestCatalog("lake", uri=f"http://127.0.0.1:{port}", warehouse="postgres")
            for expected in ([1, 2, 3], [1, 2, 3, 4]):
                found = lake.load_table("public.t").scan().to_arrow()
                assert sorted(found["a"].to_pylist()) == expected
                cursor.execute("INSERT INTO t VALUES (4, 'inlined')")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()


@pytest.mark.parametrize("more", [(), ("--iceberg", "8181", "--listen", "127.0.0.1")])
def test_clients_are_not_answered(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = command("serve", "--catalog", "postgresql://localhost/nothing", *more, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "ERROR:  pgrepl serve needs a catalog in a file, not on a database server\n"
        "HINT:  With --iceberg alone it answers readers of Iceberg.\n",
    )


__all__ = ["catalog_url", "server"]
