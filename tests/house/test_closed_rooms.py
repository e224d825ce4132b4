"""Rooms that can be left out: without one of them everything else is imported, and does its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.programs import environment
from tests.house.test_circles import FILES
from tests.house.test_floors import names_at_top
from tests.house.trees import tree_of

# each room's folders, and the modules outside that are its door: they are reached when the room is asked for
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "server": (("pgrepl.server",), ()),
    "plpgsql": (("pgrepl.plpgsql",), ("pgrepl.statements.routine.plpgsql_language",)),
    "files": (
        ("pgrepl.replication.formats", "pgrepl.replication.publisher.files"),
        ("pgrepl.replication.change_writer",),
    ),
    "iceberg": (("pgrepl.iceberg",), ("pgrepl.server.iceberg",)),
}

CLOSED = """
import sys
from importlib.abc import MetaPathFinder

class Closed(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if any(name == room or name.startswith(room + ".") for room in sys.argv[1].split()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Closed())
import importlib.util, pgrepl.statements.upkeep.vacuum as vacuum
vacuum.find_spec = lambda name: None if name in sys.argv[1].split() else importlib.util.find_spec(name)
from pgrepl.cli import main
main(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "work.sql"])
"""

WORK = r"""
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE FUNCTION next(a int) RETURNS int LANGUAGE sql AS 'SELECT a + 1';
INSERT INTO t SELECT g, 'v' FROM generate_series(1, 3) g;
UPDATE t SET b = 'new' WHERE next(a) = 3;
CREATE PUBLICATION p FOR TABLE t WHERE (a > 1);
CREATE DATABASE sub;
\c sub
CREATE TABLE t (a int PRIMARY KEY, b text);
SET client_min_messages = warning;
CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=postgres' PUBLICATION p;
SELECT * FROM t ORDER BY a;
ALTER SUBSCRIPTION s DISABLE;
ALTER SUBSCRIPTION s SET (slot_name = other);
ALTER SUBSCRIPTION s SET (slot_name = s);
DROP SUBSCRIPTION s;
SELECT count(*) FROM pgrepl_stat_subscription_files;
VACUUM t;
SELECT * FROM t ORDER BY a;
"""
DONE = "2|new\n3|v\n0\n2|new\n3|v\n"


def test_nothing_needs_a_room_that_may_be_left_out_before_it_is_asked_for() -> None:
    needed = []
    for module, path in FILES.items():
        names = list(names_at_top(tree_of(path)))
        for folders, doors in ROOMS.values():
            if module in doors or module.startswith(folders):
                continue
            needed += [f"{module} imports {name}" for name in names if name.startswith(folders)]
    assert needed == []


@pytest.mark.parametrize("room", ROOMS)
def test_the_others_do_their_work_without_a_room(tmp_path: Path, room: str) -> None:
    (tmp_path / "work.sql").write_text(WORK)
    probe = [sys.executable, "-c", CLOSED, " ".join(ROOMS[room][0])]
    done = subprocess.run(probe, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (DONE, "")
