"""sync(), apply(), status() and publications(): what the commands do, as dataclasses and exceptions."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path

import pytest

import pgrepl
from pgrepl.api.pytest_plugin import Pair
from tests.harness.forked import pgrepl as command
from tests.harness.programs import eventually


@pytest.fixture
def pair(pgrepl_pair: Pair) -> Pair:
    for con in (pgrepl_pair.publisher, pgrepl_pair.subscriber):
        con.execute("CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(10,2))")
    pgrepl_pair.publisher.execute("INSERT INTO orders SELECT g, g FROM generate_series(1, 100) g")
    pgrepl_pair.publisher.execute("CREATE PUBLICATION p FOR TABLE orders (id, total) WHERE (id > 50)")
    pgrepl_pair.subscriber.execute("CREATE SUBSCRIPTION s CONNECTION 'dbname=publisher' PUBLICATION p")
    return pgrepl_pair


def test_sync_and_apply_say_what_they_did(pair: Pair) -> None:
    seen: list[tuple[str | None, int, bool]] = []
    (done,) = pgrepl.sync(pair.catalog.path, progress=lambda now: seen.append((now.table, now.done, now.finished)))
    assert (done.database, done.subscription, done.rows_copied) == ("subscriber", "s", 50)
    assert seen[-1] == ("public.orders", 50, True)
    pair.publisher.execute("UPDATE orders SET total = total + 1")
    (done,) = pgrepl.apply(pair.catalog.path, subscriptions="s", dbname="subscriber")
    assert (done.transactions, done.changes, done.error) == (1, 50, None)
    assert done.applied_lsn == pgrepl.status(pair.catalog.path)[0].applied_lsn
    with pytest.raises(dataclasses.FrozenInstanceError):
        done.changes = 0  # type: ignore[misc]


def test_status_is_what_the_command_prints(pair: Pair) -> None:
    pair.catch_up()
    pair.publisher.execute("DELETE FROM orders WHERE id = 60")
    (found,) = pgrepl.status(pair.catalog.path)
    assert found.backlog is not None and (found.backlog.transactions, found.backlog.changes) == (1, 1)
    told = json.loads(command("status", "--json", cwd=pair.catalog.path.parent).stdout)
    assert [told[0][name] for name in ("subscription", "applied_lsn", "publisher_lsn")] == [
        found.name,
        found.applied_lsn,
        found.publisher_lsn,
    ]


def test_publications_are_what_the_command_prints(pair: Pair) -> None:
    (found,) = pgrepl.publications(pair.catalog.path, dbname="publisher")
    assert found.tables[0].where == "(id > 50)" and found.published == ("public.orders",)
    told = command("describe", "publications", "--json", "-d", "publisher", cwd=pair.catalog.path.parent).stdout
    assert json.loads(told) == [found.as_json()]
    with pytest.raises(pgrepl.ProgrammingError, match='publication "q" does not exist'):
        pgrepl.publications(pair.catalog.path, dbname="publisher", name="q")


def test_a_conflict_is_an_exception_with_what_the_others_came_to(pair: Pair) -> None:
    pair.catch_up()
    pair.subscriber.execute("INSERT INTO orders VALUES (500)")
    pair.publisher.execute("INSERT INTO orders VALUES (500)")
    with pytest.raises(pgrepl.IntegrityError) as told:
        pgrepl.apply(pair.catalog.path)
    assert (told.value.sqlstate, told.value.detail) == ("23505", "Key (id)=(500) already exists.")
    assert [each.subscription for each in told.value.results] == ["s"]
    pair.subscriber.execute("DELETE FROM orders WHERE id = 500")
    assert pgrepl.apply(pair.catalog.path)[0].changes == 1


def test_following_ends_when_it_is_told_to(pair: Pair) -> None:
    stop = threading.Event()
    worker = threading.Thread(
        target=lambda: pgrepl.apply(pair.catalog.path, follow=True, interval=0.05, stop=stop), daemon=True
    )
    worker.start()
    pair.publisher.execute("INSERT INTO orders VALUES (700)")
    eventually(lambda: pair.subscriber.execute("SELECT id FROM orders WHERE id = 700").fetchall() == [(700,)])
    stop.set()
    worker.join(30)
    assert not worker.is_alive()


def test_a_catalog_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for function in (pgrepl.sync, pgrepl.apply, pgrepl.status, pgrepl.publications):
        with pytest.raises(pgrepl.OperationalError, match="could not open catalog"):
            function(tmp_path / "no.db")
    assert list(tmp_path.iterdir()) == []


def test_compare_and_repair_say_what_they_found(pair: Pair) -> None:
    pgrepl.sync(pair.catalog.path)
    pair.subscriber.execute("DELETE FROM orders WHERE id = 60")
    found = pgrepl.compare(pair.catalog.path, subscription="s", tables=["orders"])
    assert (found.is_told, found.is_equal, found.tables[0].counts["missing"]) == (True, False, 1)
    done = pgrepl.repair(pair.catalog.path, subscription="s")
    assert done is not None
    assert done.inserted == 1
    assert pgrepl.repair(pair.catalog.path, subscription="s") is None
    with pytest.raises(pgrepl.ProgrammingError, match='subscription "t" does not exist'):
        pgrepl.compare(pair.catalog.path, subscription="t")
