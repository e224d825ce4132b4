"""A publisher, a subscriber, the network between them and their disks, in one process and without waiting: a seed gives
a history of commits, copies, applies, crashes, power losses and cut connections.

A crash or a power loss comes at a crash point (`lake/storage.py`), or before or after a commit to a catalog: at that
moment it is decided what the disks will hold, then the work is ended by an exception. Whatever is written while that
passes is not on the disks that the next life finds: a dead process cleans up nothing.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pgrepl.catalog.store.connection import Catalog, CatalogConnection
from pgrepl.ground.errors import PgError
from pgrepl.lake import storage
from pgrepl.replication.publisher.lake.publisher import LakeChangeStream
from pgrepl.replication.publisher.protocol import PublisherError
from tests.harness.database import Database, Rows

ROOT = Path(storage.__file__).resolve().parents[1]
State = tuple[Rows, ...]
Image = dict[str, bytes]  # the files of a catalog: the database, and SQLite's log

TABLES = "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (b text)"
SPARE = ["c1", "c2"]  # tables that are published later, and copied then


class Killed(BaseException):
    """The end of a life."""


class Disk:
    """The files of one catalog. Since the last sync each commit may be lost, from the last one backwards."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.parent.name
        self.kept: list[Image] = []  # what a power loss may leave

    @property
    def now(self) -> Image:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return {file.name: file.read_bytes() for file in files if file.exists()}

    def committed(self, *, synced: bool) -> None:
        self.kept = [self.now] if synced else [*self.kept, self.now]

    def holds(self, image: Image) -> None:
        for file in self.path.parent.iterdir():
            if file.is_file() and file.name.startswith(self.path.name):
                file.unlink()
        for name, content in image.items():
            (self.path.parent / name).write_bytes(content)
        self.kept = [image]


class World:
    """Both databases, and what may befall them. `seed` decides everything."""

    def __init__(self, folder: Path) -> None:
        self.disks = {name: Disk(folder / name / "catalog.db") for name in ("pub", "sub")}
        self.databases: dict[str, Database] = {}
        self.folder = folder
        for name in self.disks:
            with Database(folder / name, name, new=True) as database:
                database(TABLES, *(f"CREATE TABLE {each} (a int PRIMARY KEY)" for each in SPARE))
                if name == "pub":
                    database("ALTER TABLE u REPLICA IDENTITY FULL")
                    database("CREATE PUBLICATION p FOR TABLE t WHERE (a >= 0), u")
                    database("INSERT INTO t VALUES (-1, 'hidden'), (1, 'one'), (2, 'two'); INSERT INTO u VALUES ('x')")
        with Database(folder / "sub", "sub") as database:
            database.subscribe("p", f"host={folder / 'pub'} dbname=pub")
        self.first = {name: disk.now for name, disk in self.disks.items()}

    def begin(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.told = [f"seed {seed}"]
        for name, disk in self.disks.items():
            disk.holds(self.first[name])
        self.left: dict[str, Image] | None = None  # what the next life finds
        self.due = 0  # crash points until the fault
        self.fault = ""
        self.number = 10
        self.states = [self.published()]

    # --- lives ----------------------------------------------------------------------------------------------------

    def at(self, name: str) -> Database:
        if name not in self.databases:
            settings = {"synchronous_commit": "on"} if name == "pub" else None
            self.databases[name] = Database(self.folder / name, name, settings=settings)
        return self.databases[name]

    def end_lives(self) -> None:
        for database in self.databases.values():
            with suppress(PgError, Killed):
                database.leave()
            with suppress(PgError, Killed):
                database.close()
        self.databases.clear()

    def point(self, name: str) -> None:
        """A crash point has been reached."""
        if self.fault == "cut" or not self.due or threading.current_thread() is not threading.main_thread():
            return
        self.due -= 1
        if not self.due:
            self.told.append(f"{self.fault} at {name}")
            self.left = {each: disk.now for each, disk in self.disks.items()}
            for each in self.left:
                if self.fault in ("power", f"power of {each}"):
                    self.left[each] = self.chance.choice(self.disks[each].kept)
            raise Killed

    def sends(self) -> None:
        """The publisher is about to send a transaction."""
        if self.fault == "cut" and self.due:
            self.due -= 1
            if not self.due:
                self.told.append("cut")
                raise PublisherError("08006", "server closed the connection unexpectedly")

    # --- what happens ---------------------------------------------------------------------------------------------

    def play(self, seed: int) -> None:
        self.begin(seed)
        for _ in range(self.chance.randint(3, 8)):
            action = self.chance.choice([self.commit, self.commit, self.apply, self.apply, self.add_table])
            self.fault = self.chance.choice(["", "crash", "power", "power of sub", "power of pub", "cut"])
            self.due = 0 if not self.fault else self.chance.randint(1, 2 if self.fault == "cut" else 20)
            self.told.append(action.__name__)
            with suppress(Killed):
                action()
            self.due = 0
            if self.left is not None:
                self.end_lives()
                for name, disk in self.disks.items():
                    disk.holds(self.left[name])
                self.left = None
            self.check()
        self.finish()
        self.end_lives()

    def commit(self) -> None:
        """One transaction; what is published by it is known before it commits."""
        pub, n = self.at("pub"), self.number
        self.number += 1
        statements = [
            f"INSERT INTO t VALUES ({n}, 'new')",
            f"INSERT INTO u VALUES ('x'), ('{n}')",
            f"UPDATE t SET b = b || '{n}' WHERE a % 2 = {n % 2}",
            "DELETE FROM t WHERE a = (SELECT min(a) FROM t WHERE a > 0)",
            f"UPDATE t SET a = a + {100 * n} WHERE a = (SELECT max(a) FROM t)",
            "UPDATE t SET a = -a - 1000 WHERE a = (SELECT max(a) FROM t)",
            "DELETE FROM u WHERE b = 'x'",
            "TRUNCATE u",
        ]
        pub("BEGIN", *self.chance.sample(statements, 2))
        self.states.append(self.published())
        pub("COMMIT")

    def apply(self) -> None:
        sub = self.at("sub")
        sub.leave()  # a cut connection is tried anew at once
        sub.catch_up()

    def add_table(self) -> None:
        """A table more is published, and waits for its copy."""
        for name in SPARE:
            if not self._is_published(name):
                self.at("pub")(f"INSERT INTO {name} SELECT 1 WHERE NOT EXISTS (SELECT FROM {name})")
                self.at("pub")(f"ALTER PUBLICATION p ADD TABLE {name}")
                break
        self.at("sub")("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
        self.apply()

    def _is_published(self, name: str) -> bool:
        return self.at("pub")(f"SELECT FROM pg_publication_rel WHERE prrelid = '{name}'::regclass") != []

    # --- what must be true ----------------------------------------------------------------------------------------

    def published(self) -> State:
        return _state(self.at("pub"), "WHERE a >= 0")

    def check(self) -> None:
        """What was committed at the publisher is there; what was received is what was published after one of its
        transactions."""
        now = self.published()
        assert now in self.states[-2:], self.told
        if now != self.states[-1]:
            self.states.pop()
        sub = self.at("sub")
        states = sub("SELECT srsubstate FROM pg_subscription_rel WHERE srrelid::regclass::text IN ('t', 'u')")
        if states == [("r",), ("r",)]:
            assert _state(sub, "") in self.states, self.told

    def finish(self) -> None:
        sub, pub = self.at("sub"), self.at("pub")
        sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
        sub.leave()
        errors = sub.catch_up()
        assert errors == [], self.told
        assert _state(sub, "") == self.states[-1], self.told
        for name in SPARE:
            if self._is_published(name):
                assert sub(f"SELECT * FROM {name}") == pub(f"SELECT * FROM {name}"), self.told
        assert sub("SELECT DISTINCT srsubstate FROM pg_subscription_rel") == [("r",)], self.told
        assert pub("SELECT slot_name FROM pg_replication_slots") == [("s",)], self.told


def _state(database: Database, condition: str) -> State:
    return database(f"SELECT * FROM t {condition} ORDER BY a"), database("SELECT * FROM u ORDER BY b")


# --- where faults come in ---------------------------------------------------------------------------------------------


def with_points() -> Iterator[Any]:
    """The modules that have crash points."""
    for path in sorted(ROOT.rglob("*.py")):
        if re.search(
            r"^from pgrepl\.lake\.storage import .*\bcrash_point\b|^    crash_point,$", path.read_text(), re.M
        ):
            yield import_module(".".join(("pgrepl", *path.relative_to(ROOT).with_suffix("").parts)))


def made(folder: Path, patch: pytest.MonkeyPatch) -> World:
    world = World(folder)
    committing, syncing, sending = CatalogConnection.commit, Catalog.sync_log, LakeChangeStream.transactions

    def disk(catalog: Catalog) -> Disk | None:
        return next((disk for disk in world.disks.values() if disk.path == catalog.path), None)

    def commit(link: CatalogConnection, synchronous_commit: str | None = None) -> None:
        at = disk(link.catalog) if link._is_writing else None
        if at is not None:
            world.point(f"commit of {at.name}")
        committing(link, synchronous_commit)
        if at is not None:
            at.committed(synced=synchronous_commit != "off")
            world.point(f"end of commit of {at.name}")

    def sync_log(catalog: Catalog) -> None:
        syncing(catalog)
        at = disk(catalog)
        if at is not None:
            at.committed(synced=True)

    def transactions(stream: Any, *asked: Any) -> Iterator[Any]:
        for transaction in sending(stream, *asked):
            world.sends()
            yield transaction

    patch.setattr(CatalogConnection, "commit", commit)
    patch.setattr(Catalog, "sync_log", sync_log)
    patch.setattr(LakeChangeStream, "transactions", transactions)
    for module in with_points():
        patch.setattr(module, "crash_point", world.point)
    return world
