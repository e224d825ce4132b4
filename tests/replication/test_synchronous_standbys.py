"""synchronous_standby_names of a lake whose subscribers read its catalog: commits wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace
from typing import Any

import pytest

from pgrepl.catalog.session.parameters import Standbys, parse_standbys
from pgrepl.catalog.session.sync_rep import _reached, states
from pgrepl.catalog.store.tables import pgrepl_walsender
from tests.harness.database import Database
from tests.harness.following import following
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE, eventually

T = "CREATE TABLE t (a int PRIMARY KEY)"
STATES = "SELECT application_name, sync_state, sync_priority FROM pg_stat_replication ORDER BY 1"


@contextmanager
def patient(database: Database) -> Iterator[None]:
    """A wait that nothing ends fails."""
    failed = Event()

    def fail() -> None:
        failed.set()
        database.session.link.give_up()

    timer = Timer(PATIENCE, fail)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    assert not failed.is_set()


def followed(pub: Database, sub: Database, where: str, options: str) -> None:
    """Commits in `pub` have reached `sub`, which follows, when they return."""
    for side in (pub, sub):
        side(T)
    pub("CREATE PUBLICATION p FOR TABLE t")
    sub.subscribe("p", where, options)
    assert sub.catch_up() == []
    pair: Any = SimpleNamespace(sub=sub)
    with following(pair), patient(pub):
        eventually(lambda: [row[0] for row in pub(STATES)] == ["s"])
        pub("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (other, S)'")
        pub("SELECT pg_reload_conf()")
        pub("INSERT INTO t VALUES (0)")  # with synchronous_commit = off, as these sessions begin
        eventually(lambda: pub(STATES) == [("s", "quorum", "1")])
        for number, level in enumerate(("remote_write", "on", "remote_apply"), 1):
            pub(f"SET synchronous_commit = {level}; INSERT INTO t VALUES ({number})")
            assert sub(f"SELECT a FROM t WHERE a = {number}") == [(str(number),)]
        pub("CREATE TABLE unpublished (a int)")
        pub("BEGIN; INSERT INTO t VALUES (7); INSERT INTO unpublished VALUES (7); COMMIT AND CHAIN; ROLLBACK")
        assert sub("SELECT a FROM t WHERE a = 7") == [("7",)]
        pub("SET synchronous_commit = local")
        pub("ALTER SYSTEM RESET synchronous_standby_names")


def test_commits_wait_for_a_subscriber_of_the_same_lake(pair: Pair) -> None:
    followed(pair.pub, pair.sub, "host=localhost dbname=pub", "")


def test_commits_wait_for_a_subscriber_of_another_lake(tmp_path: Path) -> None:
    pub, sub = Database(tmp_path / "a", "pub", new=True), Database(tmp_path / "b", "sub", new=True)
    followed(pub, sub, f"host={tmp_path}/a dbname=pub", "WITH (synchronous_commit = local)")
    pub.close()
    sub.close()


def sender(name: str, flush: int | None, *, state: str = "streaming", since: str = "1") -> pgrepl_walsender:
    place = f"{name}{since}", "", 1, "", 0.0, 10
    return pgrepl_walsender((*place, name, since, state, 9, 9, flush, flush, ""))


SENDERS = [sender("c", 5), sender("a", 7, since="2"), sender("b", 6), sender("d", 9, state="catchup"), sender("e", 0)]


@pytest.mark.parametrize(
    ("names", "shown", "all_before"),
    [
        ("", "async async async async async", None),
        ("b", "async async sync async async", 6),
        ("a, b", "async sync potential async async", 7),
        ("2 (a, b, c)", "potential sync sync async async", 6),
        ('FIRST 3 (A, "b", d, c)', "sync sync sync potential async", 5),
        ("ANY 2 (a, b, c)", "quorum quorum quorum async async", 6),
        ("any 1 (*)", "quorum quorum quorum potential async", 7),
        ("*", "sync potential potential potential async", 5),
        ("FIRST 2 (a, e)", "async sync async async async", 0),
        ("nowhere", "async async async async async", 0),
    ],
)
def test_which_standbys_are_synchronous_and_how_far_they_are(names: str, shown: str, all_before: int | None) -> None:
    settings = SimpleNamespace(get=lambda _: names)
    session: Any = SimpleNamespace(settings=settings)
    assert [state for _, state in states(session, SENDERS)] == shown.split()
    standbys = parse_standbys(names)
    assert (standbys is None) == (all_before is None)
    if standbys is not None:
        reached = [lsn for lsn in range(1, 10) if _reached(standbys, SENDERS, "flush_lsn", lsn)]
        assert reached == list(range(1, (all_before or 0) + 1))


def test_names_are_read_as_written() -> None:
    assert parse_standbys('ANY 2 ("A ""b""", c$1, 3, *)') == Standbys(True, 2, ('A "b"', "c$1", "3", "*"))
    assert [Standbys(False, 1, ("x", "y")).priority(name) for name in ("Y", "x", "z")] == [2, 1, 0]
