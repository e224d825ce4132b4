"""`pgrepl compare` and `pgrepl repair` as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl
from tests.harness.pair import Pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pair = Pair(tmp_path)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    pair.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t, u")
    pair.subscribe()
    pair.sub("UPDATE t SET v = NULL WHERE id = 3")
    pair.close()
    return tmp_path


def test_exit_codes_say_what_was_found(folder: Path) -> None:
    done = pgrepl("compare", "s", cwd=folder)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        1,
        [
            "public.t: 1 different, of 9 rows at the publisher and 9 here",
            "  different  id=3: v is NULL instead of v",
            "public.u: equal, 0 rows",
        ],
    )
    assert pgrepl("compare", "s", "u", cwd=folder).returncode == 0
    for arguments in (["s", "nope"], ["nope"], ["s", "--limit", "x"], []):
        done = pgrepl("compare", *arguments, cwd=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


def test_json_is_for_programs(folder: Path) -> None:
    done = pgrepl("compare", "s", "public.t", "--json", cwd=folder)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["equal"], found["tables"][0]["differences"]) == (
        False,
        [{"kind": "different", "key": {"id": "3"}, "columns": {"v": {"publisher": "v", "subscriber": None}}}],
    )
    repaired = json.loads(pgrepl("repair", "s", "--json", "--yes", cwd=folder).stdout)["repaired"]
    assert (repaired["inserted"], repaired["updated"], repaired["new_slot"]) == (0, 1, None)
    assert json.loads(pgrepl("repair", "s", "--json", "--yes", cwd=folder).stdout)["repaired"] is None


def test_nothing_is_repaired_where_nobody_can_be_asked(folder: Path) -> None:
    done = pgrepl("repair", "s", cwd=folder)
    assert (done.returncode, "Say --yes" in done.stderr) == (2, True)
    assert pgrepl("compare", "s", cwd=folder).returncode == 1
    assert pgrepl("repair", "s", "--yes", cwd=folder).returncode == 0
    assert pgrepl("compare", "s", cwd=folder).returncode == 0


def test_what_was_equal_is_left_out(folder: Path) -> None:
    file = folder / "s.json"
    assert pgrepl("compare", "s", "--resume", str(file), cwd=folder).returncode == 1
    pgrepl("repair", "s", "--yes", cwd=folder)
    done = pgrepl("compare", "s", "--resume", str(file), cwd=folder)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        0,
        ["public.t: equal, 9 rows", "public.u: equal, 0 rows", "  left out: 1 of 1 pieces, which were equal before"],
    )
    file.write_text("{}x")
    done = pgrepl("compare", "s", "--resume", str(file), cwd=folder)
    assert (done.returncode, "could not read file" in done.stderr) == (2, True)
    done = pgrepl("compare", "s", "--resume", str(folder / "nope" / "s.json"), cwd=folder)
    assert (done.returncode, "could not write file" in done.stderr) == (2, True)
