"""Parts of a copy: how rows are divided, that an executor needs little, and what is left of tasks that nobody wants."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgrepl.engine import on_spark as shipping
from pgrepl.engine import run_kernels
from pgrepl.engine.copy_rows import CopyPart, KernelColumn, copy_rows
from pgrepl.engine.run_kernels import KernelSource, KernelTarget, WrongRow, copy
from pgrepl.engine.spark_errors import from_spark
from pgrepl.engine.task import done, packed
from pgrepl.expr import tree
from pgrepl.expr.arrow.program import Program
from pgrepl.ground import threads
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake.read.data_file import DataFile
from pgrepl.lake.read.extent import divide, rows_of
from pgrepl.lake.read.part import CatalogRows, FileRows, PartRows, PartWatch
from pgrepl.lake.write import file_writer
from pgrepl.types import oids
from pgrepl.types.builtin import operator
from tests.lake.conftest import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = Lake(tmp_path)
    made.sql("CREATE TABLE s (a int, b text); CREATE TABLE t (a int NOT NULL, b text)")
    made.sql("INSERT INTO s SELECT g, 'v' || g FROM generate_series(1, 1000) g; DELETE FROM s WHERE a = 500")
    yield made
    made.close()


def source(lake: Lake, condition: tree.Expr | None = None) -> KernelSource:
    program = None if condition is None else Program(condition, ())
    return KernelSource(lake.session, lake.table("s"), lake.last_snapshot(), (1, 2), program)


def target(lake: Lake) -> KernelTarget:
    return KernelTarget(lake.table("t"), (KernelColumn(1, 1, not_null=True), KernelColumn(2, 2)), None, (1,))


def more_than(number: int) -> tree.Expr:
    greater = operator(">", oids.INT4, oids.INT4)
    assert greater is not None
    args = (tree.Var(oids.INT4, attnum=1), tree.Const(oids.INT4, value=number))
    return tree.OpExpr(oids.BOOL, op=greater.oid, args=args)


def part(lake: Lake, folder: str) -> CopyPart:
    of, to = source(lake, more_than(990)), target(lake)
    with lake.statement():
        rows = tuple(each for each, _, _ in rows_of(lake.session, of.table, of.snapshot, [1, 2]))
    return CopyPart(rows, of.table, of.filter, to.table, to.columns_from(of), None, (1,), folder)


def files(lake: Lake) -> list[str]:
    location = Path(lake.table("t").location)
    return sorted(str(path.relative_to(location)) for path in location.rglob("*")) if location.exists() else []


def nothing() -> None:
    return


@pytest.mark.parametrize("on_spark", [False, True], ids=["threads", "tasks"])
def test_a_copy_gives_files_and_says_where_keys_ascend(lake: Lake, request: Any, on_spark: bool) -> None:
    if on_spark:
        request.getfixturevalue("spark")
    with lake.statement():
        done = copy(lake.session, [source(lake, more_than(400))], target(lake), on_spark=on_spark, check=nothing)
    assert sum(file.record_count for file in done.files) == 599
    assert [(span.first, span.last) for span in done.spans[1] if span and span.first <= span.last] == [(401, 1000)]
    assert files(lake) == sorted(file.name for file in done.files)
    lake.write("t", lambda write: write.insert_files(done.files))
    assert lake.duck("SELECT count(*), min(a), max(b) FROM lake.postgres.t") == [("599", "401", "v999")]


@pytest.mark.parametrize("on_spark", [False, True], ids=["threads", "tasks"])
def test_what_is_wrong_leaves_no_file(lake: Lake, request: Any, on_spark: bool) -> None:
    if on_spark:
        request.getfixturevalue("spark")
    lake.sql("INSERT INTO s VALUES (NULL, 'x')")
    with lake.statement(), pytest.raises(WrongRow):
        copy(lake.session, [source(lake)], target(lake), on_spark=on_spark, check=nothing)
    assert files(lake) == []


def test_a_task_that_is_done_twice_and_one_that_comes_late_leave_nothing(lake: Lake) -> None:
    table = lake.table("t")
    with run_kernels.job_folder(table) as folder:
        wanted = part(lake, folder)
        first, second = (copy_rows(wanted, threads._Watch(None)) for _ in range(2))
        assert len(files(lake)) == 3
        taken = run_kernels.take(table, folder, second.files)
    assert first.files[0].name != second.files[0].name
    assert files(lake) == [taken[0].name]
    with pytest.raises(PgError, match="could not write file"):
        copy_rows(wanted, threads._Watch(None))
    assert files(lake) == [taken[0].name]


def test_a_part_that_nobody_waits_for_ends(lake: Lake) -> None:
    """Ctrl-C, or a worker that is stopped: the others end, and the folder goes."""
    begun = threading.Event()

    def kernel(number: int, watch: PartWatch) -> None:
        begun.set()
        while True:
            watch.check()

    def check() -> None:
        if begun.is_set():
            raise PgError("57P01", "terminating")

    with pytest.raises(PgError, match="terminating"):
        threads.run_parts([1, 2, 3], kernel, check)


@pytest.mark.slow
def test_an_executor_needs_numpy_and_pyarrow_alone(lake: Lake, tmp_path: Path) -> None:
    """The package comes in an archive; what is imported of it asks for nothing that only a driver has."""
    with run_kernels.job_folder(lake.table("t")) as folder:
        (task,), shared = packed(copy_rows, [part(lake, folder)])
        for name, content in (("task", task), ("shared", shared)):
            (tmp_path / name).write_bytes(content)
        script = (
            "import sys, pickle\n"
            f"sys.path.insert(0, {shipping.archive()!r})\n"
            "class No:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name in ('sqlalchemy', 'click', 'lark', 'pyspark', 'pandas'): raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(0, No())\n"
            "from pgrepl.engine.task import done\n"
            "answer = pickle.loads(done(open('task', 'rb').read(), open('shared', 'rb').read()))\n"
            "import pgrepl; print('.zip' in pgrepl.__file__, answer[0], answer[1].files[0].record_count)\n"
        )
        played = subprocess.run(
            [sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert played.stdout.split() == ["True", "0", "10"], played.stderr


def test_executors_import_the_archive_by_a_relative_path(tmp_path: Path) -> None:
    """Spark adds it to their path so; all that tasks may need loads there."""
    (tmp_path / "pgrepl.zip").write_bytes(Path(shipping.archive()).read_bytes())
    script = """
import importlib, pkgutil, sys
sys.path.insert(0, "pgrepl.zip")
for package in map(importlib.import_module, ("pgrepl.lake", "pgrepl.replication")):
    assert package.__file__.startswith("pgrepl.zip"), package.__file__
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
"""
    played = subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert played.returncode == 0, played.stderr


def test_tasks_share_the_files_that_they_look_at(lake: Lake) -> None:
    """A task does not grow with the table."""
    with run_kernels.job_folder(lake.table("t")) as folder:
        one = part(lake, folder)
        (row,) = [rows for rows in one.rows if isinstance(rows, FileRows)][:1]
        files = [replace(row, file=replace(row.file, data_file_id=n, path=f"{n}" * 99)) for n in range(100)]
        parts = [replace(one, rows=tuple(files)) for _ in range(20)]
        tasks, shared = packed(len, parts)
        assert max(map(len, tasks)) < 10_000 < len(shared) < 100_000
        assert [pickle.loads(done(task, shared))[0] for task in packed(_files_of, parts)[0]] == list(range(20))
        assert pickle.loads(done(packed(_files_of, parts)[0][7], shared)) == (7, [each.file for each in files])


def _files_of(part: CopyPart, _: object) -> list[object]:
    return [rows.file for rows in part.rows if isinstance(rows, FileRows)]


def test_errors_of_executors_are_told_once_and_clearly() -> None:
    from pyspark.errors import PySparkException

    lacks = from_spark(PySparkException("RuntimeError: PGREPL_IMPORT ModuleNotFoundError: No module named 'pyarrow'\n"))
    assert lacks is not None and lacks.message == "Spark's Python has no module pyarrow"
    broken = from_spark(PySparkException("RuntimeError: PGREPL_IMPORT it has pgrepl 0.1, the driver 0.2\n at x.y"))
    assert broken is not None and broken.message == "Spark's Python cannot use pgrepl"
    assert broken.report.detail == "On an executor: it has pgrepl 0.1, the driver 0.2."
    text = (
        "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in"
        " driver: 3.11, PySpark cannot run with different minor versions."
    )
    other = from_spark(PySparkException(text))
    assert other is not None and other.report.detail == "An executor has Python 3.10, pgrepl 3.11."


# --- dividing ---------------------------------------------------------------------------------------------------------


def catalog_rows(*counts: int) -> list[tuple[PartRows, int, int]]:
    return [(CatalogRows((), count), count, 0) for count in counts]


@pytest.mark.parametrize(
    ("counts", "slots", "parts"),
    [
        ([], 2, []),
        ([5], 4, [[5]]),
        ([10, 10, 10, 10], 2, [[10, 10], [10, 10]]),
        ([1, 1, 1, 97], 2, [[1, 1, 1], [97]]),
        ([97, 1, 1, 1], 2, [[97], [1, 1, 1]]),
        ([3] * 9, 3, [[3] * 3] * 3),
        ([4_000_000] * 5, 2, [[4_000_000], [4_000_000], [4_000_000] * 2, [4_000_000]]),
    ],
)
def test_neighbours_go_together(counts: list[int], slots: int, parts: list[list[int]]) -> None:
    found = divide(catalog_rows(*counts), slots)
    assert [[rows.count for rows in part if isinstance(rows, CatalogRows)] for part in found] == parts


def test_row_groups_of_a_file_are_read_together(lake: Lake) -> None:
    table = lake.table("s")
    file = DataFile(1, 1, None, "x.parquet", 6, 60, 0, None, None, ())
    groups = [FileRows(table, 1, file, (), (n,)) for n in range(6)]
    found = divide([(rows, 1, 10) for rows in groups], 2)
    assert [[rows.groups for rows in part if isinstance(rows, FileRows)] for part in found] == [
        [(0, 1, 2)],
        [(3, 4, 5)],
    ]


def test_a_column_that_a_file_keeps_otherwise_is_not_for_the_kernel(lake: Lake, tmp_path: Path) -> None:
    import pyarrow as pa

    from pgrepl.lake.read.part import in_form

    column = lake.table("s").column(1)
    assert in_form(pa.array([1, 2], pa.int8()), column).type == pa.int32()
    with pytest.raises(Declined):
        in_form(pa.array(["1"]), column)
    with pytest.raises(Declined):
        in_form(pa.array([2**40]), column)


def test_bounds_that_parquet_finds_are_those_that_are_looked_for(lake: Lake) -> None:
    kinds = (
        "int2", "int4", "int8", "float4", "float8", "numeric(12,3)", "numeric(38,2)", "numeric", "text", "char(3)",
        "bytea", "uuid", "date", "timestamp", "timestamptz", "time", "bool", "jsonb", "int[]",
    )  # fmt: skip
    values = (
        "g - 50", "g * 1000", "g * 4294967296", "g / 7.0", "CASE g WHEN 3 THEN 'NaN' ELSE g * -0.5 END",
        "g * 0.125 - 3", "g * 1e30", "g * 0.10", "repeat('é', g)", "g % 90",
        "decode(lpad(to_hex(g), 8, '0'), 'hex')", "md5(g::text)::uuid", "date '1990-01-01' + g * 100",
        "CASE g WHEN 9 THEN 'infinity' ELSE timestamp '1999-12-31' + g * interval '1 h' END",
        "timestamptz '1950-12-31 00:00Z' - g * interval '1 day'", "time '00:00' + g * interval '1 s'", "g % 3 = 0",
        "jsonb_build_object('k', g)", "ARRAY[g, NULL, 3]",
    )  # fmt: skip
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))
    listed = ", ".join(f"CASE WHEN g % 7 = {n % 7} THEN NULL ELSE {value} END" for n, value in enumerate(values))
    lake.sql(f"CREATE TABLE v ({columns}); INSERT INTO v SELECT {listed} FROM generate_series(1, 200) g")
    table = lake.table("v")
    attnums = [column.attnum for column in table.columns]
    with lake.statement():
        ((rows, count, _),) = rows_of(lake.session, table, lake.session.transaction.numbering.last_snapshot(), attnums)
    ((arrays, _),) = rows.portions(attnums)
    found = []
    for by_footer in (False, True):
        writer = file_writer.DataFileWriter(table, bounds_by_footer=by_footer)
        writer.write_arrays([arrays[attnum] for attnum in attnums], None, count)
        found.append(writer.close().statistics)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("count", "groups"), [(1000, [1000]), (1100, [1100]), (1600, [800, 800]), (3100, [1034, 1034, 1032])]
)
def test_row_groups_are_alike(lake: Lake, count: int, groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one behind each full one, which costs its reader as much, made a copy a tenth slower."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(file_writer, "ROWS_IN_GROUP", 1000)
    lake.sql("CREATE TABLE g (a int)")
    writer = file_writer.DataFileWriter(lake.table("g"))
    writer.write_arrays([pa.array(range(count), pa.int32())], None, count)
    writer.close()
    metadata = pq.read_metadata(writer.path)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == groups
