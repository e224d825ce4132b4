"""Results of Spark. Large ones: Spark writes them to files, which this process reads batch by batch.

So neither the driver nor this process has more than a batch in memory, all tasks work at once, and the rows keep the
frame's order. The files are in this machine's temporary folder if Spark runs here; otherwise in the data folder, which
all machines reach. Each is removed when it has been read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark, spark_options
from pgrepl.engine.scan_spark import spark_path
from pgrepl.expr.tree import Expr, Var
from pgrepl.ground.lazy import F, np, pa
from pgrepl.lake.read.data_file import once
from pgrepl.lake.read.extent import Positions
from pgrepl.lake.storage import folders_in, listed, local_path, make_folder, open_input, reading, remove, uuid7
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.expr.exchange import Sql, Statement

_BATCH = 10_000


def fetched(frame: DataFrame, data_path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a frame in its order."""
    from pyarrow.parquet import ParquetFile

    with result_folder(data_path) as folder:
        # not the options of a write into the lake
        writer = frame.write.option("compression", "snappy").option("parquet.block.size", str(32 << 20))
        with spark.pg_errors():
            writer.parquet(spark_path(folder.rstrip("/") + "/rows"))
        for path in sorted(path for path, _ in listed(folder) if path.endswith(".parquet")):
            with reading(path), open_input(path) as file:
                yield from ParquetFile(file).iter_batches(_BATCH)
            remove(path)


@contextmanager
def result_folder(data_path: str) -> Iterator[str]:
    """A folder that Spark and this process can both use, which is removed at the end."""
    folder = _folder(data_path)
    try:
        yield folder
    finally:
        _remove_folder(folder)


def _folder(data_path: str) -> str:
    if not spark.is_elsewhere():
        return spark_options.make(spark_options.RESULT) + "/"
    _clean(data_path)
    folder = f"{data_path}{spark_options.prefix(spark_options.RESULT)}{uuid7()}/"
    make_folder(folder)
    return folder


@cache
def _clean(data_path: str) -> None:
    """Remove what killed processes of this machine have left there; a process does it once."""
    for name in folders_in(data_path):
        if spark_options.is_left(name):
            _remove_folder(f"{data_path}{name}/")


def _remove_folder(folder: str) -> None:
    local = local_path(folder)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    for path, _ in listed(folder):
        remove(path)


# --- small results ----------------------------------------------------------------------------------------------------


Row = tuple[Any, ...]

ORDER = "__n"


def column_names(node: Expr) -> Sql | None:
    """The names c{attnum} of a table's columns."""
    from pgrepl.expr.exchange import Sql
    from pgrepl.expr.exchange.sql import form_type

    if isinstance(node, Var) and node.attnum > 0:
        return Sql(f"c{node.attnum}", form_type(node.type, node.typmod))
    return None


def condition_text(expr: Expr, statement: Statement) -> str:
    from pgrepl.expr.exchange import to_sql

    return to_sql(expr, column_names, statement)


def python_rows(frame: DataFrame, types: Sequence[tuple[int, int]]) -> list[Row]:
    """The rows of a small frame whose columns have the lake forms of these types (OID, modifier)."""
    with spark.pg_errors():
        table = frame.toArrow()
    columns = [
        form(typoid, typmod).from_array(table.column(n).combine_chunks()) for n, (typoid, typmod) in enumerate(types)
    ]
    return list(zip(*columns, strict=True))


def positions(places: DataFrame, column: str = "place") -> Positions:
    """The places in a column of a DataFrame, which is run once."""
    file, pos, row = (F.col(f"{column}.{part}") for part in ("file", "pos", "row"))
    with spark.pg_errors():
        answer = places.select(
            F.coalesce(file, F.lit(-1)).alias("file"), F.when(file.isNull(), row).otherwise(pos).alias("at")
        ).toArrow()
    files, at = answer["file"].to_numpy(), answer["at"].to_numpy()
    order = np.argsort(files, kind="stable")
    present, starts = np.unique(files[order], return_index=True)
    parts = np.split(at[order], starts[1:]) if len(present) else []
    of_file = {int(file): once(part) for file, part in zip(present, parts, strict=True)}
    return Positions(of_file, of_file.pop(-1, np.empty(0, np.int64)))
