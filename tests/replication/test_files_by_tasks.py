"""Files of changes read by tasks and by this process: the same rows, positions, checksums, rejects and errors."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.engine import on_spark
from pgrepl.replication.publisher.files import file_part, memory
from tests.harness.database import by_columns
from tests.harness.dose import dose
from tests.harness.pair import Pair
from tests.harness.tasks import FILES, divide_files, few_bytes_by_columns, files_by_tasks

Row = dict[str, Any]
Change = tuple[str, str, Row | None, Row | None]  # operation, table, old and new row
Transaction = tuple[int, list[Change]]


class Model:
    """Makes transactions of a table's rows."""

    def __init__(self, chance: random.Random, tables: tuple[str, ...], *, keys_change: bool) -> None:
        self.chance, self.tables, self.keys_change = chance, tables, keys_change
        self.rows: dict[str, dict[int, Row]] = {table: {} for table in tables}
        self.xid = 500

    def transaction(self) -> Transaction:
        self.xid += 1
        touched: set[tuple[str, int]] = set()
        found = [self.change(touched) for _ in range(self.chance.choice((1, 1, 2, 5, 30)))]
        return self.xid, [each for each in found if each is not None]

    def change(self, touched: set[tuple[str, int]]) -> Change | None:
        """A feed of changes has one of a row in a transaction."""
        chance, table = self.chance, self.chance.choice(self.tables)
        rows, key = self.rows[table], self.chance.randrange(60)
        if (table, key) in touched:
            return None
        touched.add((table, key))
        new = {"a": key, "b": chance.choice((None, "x", 'a, "quoted"\nline', "é" * 9)), "c": chance.randrange(1000)}
        old = rows.get(key)
        if old is None:
            rows[key] = new
            return "insert", table, None, new
        if chance.random() < 0.3:
            del rows[key]
            return "delete", table, old, None
        other = chance.randrange(60)
        if self.keys_change and other not in rows and (table, other) not in touched:
            touched.add((table, other))
            del rows[key]
            new["a"] = other
        rows[new["a"]] = new
        return "update", table, old, new


# --- how files are written --------------------------------------------------------------------------------------------


def _lines(records: list[Any]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def debezium(found: list[Transaction]) -> bytes:
    return _lines([
        {"op": op[0] if op != "insert" else "c", "before": old, "after": new,
         "source": {"schema": "public", "table": table, "txId": xid, "ts_ms": xid}}
        for xid, changes in found for op, table, old, new in changes
    ])  # fmt: skip


def zipped(found: list[Transaction]) -> bytes:
    return gzip.compress(debezium(found))


def wal2json(found: list[Transaction], *, marks: bool = True) -> bytes:
    records: list[Row] = []
    for xid, changes in found:
        records += [{"action": "B", "xid": xid}] if marks else []
        for op, table, old, new in changes:
            record: Row = {"action": op[0].upper(), "xid": xid, "schema": "public", "table": table}
            for name, row in (("columns", new), ("identity", old)):
                if row is not None:
                    record[name] = [{"name": key, "value": value} for key, value in row.items()]
            records.append(record)
        records += [{"action": "C", "xid": xid}] if marks else []
    return _lines(records)


def without_marks(found: list[Transaction]) -> bytes:
    return wal2json(found, marks=False)


def maxwell(found: list[Transaction]) -> bytes:
    records = []
    for xid, changes in found:
        for n, (op, table, old, new) in enumerate(changes):
            record = {"database": "public", "table": table, "type": op, "xid": xid, "data": new or old}
            record |= {"old": old} if op == "update" else {}
            records.append({**record, "commit": True} if n == len(changes) - 1 else record)
    return _lines(records)


def own(found: list[Transaction]) -> bytes:
    records: list[Row] = []
    for xid, changes in found:
        records.append({"op": "begin", "xid": xid})
        for op, table, old, new in changes:
            rows = {name: _texts(row) for name, row in (("old", old), ("new", new)) if row is not None}
            records.append({"op": op, "table": table, "xid": xid, **rows})
        records.append({"op": "commit", "xid": xid})
    return _lines(records)


def _texts(row: Row) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}


def _flat(found: list[Transaction]) -> list[Row]:
    return [
        {"kind": op, "tx": xid, **(new or old or {}), "old_a": None if old is None or new is None else old["a"]}
        for xid, changes in found for op, _, old, new in changes
    ]  # fmt: skip


def jsonl(found: list[Transaction]) -> bytes:
    return _lines(_flat(found))


def as_csv(found: list[Transaction]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["kind", "tx", "a", "b", "c", "old_a"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(found))
    return text.getvalue().encode()


def parquet(found: list[Transaction]) -> bytes:
    return _parquet(_flat(found), ["kind", "tx", "a", "b", "c", "old_a"])


def _parquet(rows: list[Row], names: list[str]) -> bytes:
    kinds = {"kind": pa.string(), "b": pa.string(), "_change_type": pa.string()}
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in names])
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return sink.getvalue()


def dms(found: list[Transaction]) -> bytes:
    text = io.StringIO()
    for row in _flat(found):
        csv.writer(text, lineterminator="\n").writerow([row["kind"][0].upper(), row["a"], row["b"], row["c"]])
    return text.getvalue().encode()


def delta(found: list[Transaction]) -> bytes:
    rows = []
    for xid, changes in found:
        for op, _, old, new in changes:
            kinds = ("update_preimage", "update_postimage") if op == "update" else (op, op)
            for kind, row in zip(kinds, (old, new), strict=True):
                rows += [] if row is None else [{**row, "_change_type": kind, "_commit_version": xid}]
    return _parquet(rows, ["a", "b", "c", "_change_type", "_commit_version"])


ROLES = "table=t op=kind xid=tx before=old_*"
# how a file is written: the connection string's options, the tables, whether keys change, whether one record may be bad
CASES: dict[Callable[[list[Transaction]], bytes], tuple[str, tuple[str, ...], bool, bool]] = {
    debezium: ("format=debezium", ("t", "u"), True, True),
    zipped: ("format=debezium", ("t", "u"), True, False),
    wal2json: ("format=wal2json", ("t", "u"), True, True),
    without_marks: ("format=wal2json", ("t", "u"), True, True),
    maxwell: ("format=maxwell", ("t", "u"), True, True),
    own: ("format=jsonl", ("t", "u"), True, True),
    jsonl: (f"format=jsonl {ROLES}", ("t",), True, True),
    as_csv: (f"format=csv {ROLES}", ("t",), True, False),
    parquet: (f"format=parquet {ROLES}", ("t",), True, False),
    dms: ("format=dms table=t", ("t",), False, False),
    delta: ("format=delta table=t", ("t",), False, False),
}
BAD = (b"no JSON\n", b'{"op": "nothing"}\n', b"[]\n")


def written(folder: Path, case: Callable[[list[Transaction]], bytes], chance: random.Random, *, bad: float) -> None:
    folder.mkdir()
    _, tables, keys_change, may_be_bad = CASES[case]
    model = Model(chance, tables, keys_change=keys_change)
    for number in range(3):
        data = case([model.transaction() for _ in range(chance.choice((1, 4, 12)))])
        if may_be_bad and bad:
            lines = data.splitlines(keepends=True)
            data = b"".join([(chance.choice(BAD) if chance.random() < bad else b"") + line for line in lines])
        (folder / f"{number}").write_bytes(data)


def applied(folder: Path, files: Path, options: str) -> dict[str, Any]:
    """What comes of the files, in new databases."""
    pair = Pair(folder)
    for table in ("t", "u"):
        pair.both(f"CREATE TABLE {table} (a int PRIMARY KEY, b text, c int)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a % 10 <> 3), u")
    by_columns(pair.sub)
    pair.sub.subscribe("p", f"files={files} dbname=pub {options}")
    errors = [pair.catch_up() for _ in range(2)]
    rejects = folder / "rejects"
    found = {
        "rows": [pair.sub(f"SELECT * FROM {table} ORDER BY a") for table in ("t", "u")],
        "errors": errors,
        # before an error a position may stand behind transactions of which nothing is sent, or not
        "position": [] if any(errors) else pair.sub("SELECT remote_lsn FROM pg_replication_origin_status"),
        "files": () if any(errors) else remembered(pair),
        "rejects": rejects.read_text().splitlines() if rejects.exists() else [],
    }
    pair.close()
    return found


def remembered(pair: Pair) -> tuple[memory.ReadFile, ...]:
    session = pair.sub.session
    with reading(session):
        (subscription,) = rows(session, tables.pg_subscription)
        return memory.remembered(session, subscription.oid).files


def compared(tmp_path: Path, case: Callable[[list[Transaction]], bytes], seed: int, *, bad: float, out: bool) -> None:
    chance = random.Random(seed)
    written(tmp_path / "files", case, chance, bad=bad)
    options = CASES[case][0] + (" on_error=rejects" if out else "")
    with pytest.MonkeyPatch.context() as patched:
        few_bytes_by_columns(patched)
        here = applied(tmp_path / "here", tmp_path / "files", options)
    with pytest.MonkeyPatch.context() as patched:
        seen = files_by_tasks(patched, chance.choice((64, 300, 2000)))
        patched.setattr(f"{FILES}.batch_spark.MOST", chance.choice((1, 20, 1000)))
        patched.setattr(f"{FILES}.batch_spark.TRIED", chance.choice((10, 100)))
        by_tasks = applied(tmp_path / "tasks", tmp_path / "files", options)
    assert by_tasks == here
    assert any(isinstance(task, file_part.PartsToRead) for task in seen)
    assert any(here["rows"]) or bad
    assert not any(here["errors"]) or (bad and not out)


@pytest.mark.parametrize("case", dose(CASES, 8), ids=lambda case: case.__name__)
def test_tasks_find_what_this_process_finds(tmp_path: Path, case: Callable[[list[Transaction]], bytes]) -> None:
    compared(tmp_path, case, 1, bad=0, out=False)


@pytest.mark.parametrize("out", dose([False, True], 4), ids=["stop", "left out"])
@pytest.mark.parametrize("case", [debezium, own], ids=lambda case: case.__name__)
def test_bad_records(tmp_path: Path, case: Callable[[list[Transaction]], bytes], out: bool) -> None:
    compared(tmp_path, case, 2, bad=0.05, out=out)


@pytest.mark.slow
def test_spark_reads_them(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of a real job, two for each file."""
    written(tmp_path / "files", debezium, random.Random(5), bad=0)
    options = CASES[debezium][0]
    here = applied(tmp_path / "here", tmp_path / "files", options)
    divide_files(monkeypatch, max(file.stat().st_size for file in (tmp_path / "files").iterdir()) // 2)
    assert applied(tmp_path / "tasks", tmp_path / "files", options) == here


@pytest.mark.parametrize("seen", [None, b""], ids=["none", "others"])
def test_files_that_executors_do_not_see_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bytes | None
) -> None:
    """There are none of their names where tasks run, or shorter ones."""
    files, aside = tmp_path / "files", tmp_path / "aside"
    written(files, debezium, random.Random(5), bad=0)
    options = CASES[debezium][0]
    here = applied(tmp_path / "here", files, options)
    tasks = files_by_tasks(monkeypatch, 300)
    play = on_spark.run_parts

    def elsewhere(parts: Sequence[Any], kernel: Any) -> list[Any]:
        names = [file.name for file in files.iterdir()]
        files.rename(aside)
        files.mkdir()
        for name in names if seen is not None else ():
            (files / name).write_bytes(seen or b"")
        try:
            return play(parts, kernel)
        finally:
            shutil.rmtree(files)
            aside.rename(files)

    monkeypatch.setattr(on_spark, "run_parts", elsewhere)
    monkeypatch.setattr(f"{FILES}.batch_spark.TRIED", 10)  # the first records are tried by the driver
    assert applied(tmp_path / "tasks", files, options) == here
    assert any(isinstance(task, file_part.PartsToRead) for task in tasks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_random_files(tmp_path: Path, case: Callable[[list[Transaction]], bytes], seed: int) -> None:
    compared(tmp_path, case, seed, bad=(0, 0.03)[seed % 2], out=seed % 4 == 1)
