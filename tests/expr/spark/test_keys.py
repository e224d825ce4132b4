"""Keys for grouping and sorting: Spark's order and equality of them are PostgreSQL's of the values."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from pgrepl.expr import tree
from pgrepl.expr.exchange import Compiler, Statement, equal_key, over, sort_item
from pgrepl.expr.exchange.sql import order_bytes
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.builtin import array_type, operator
from pgrepl.types.lake.forms import form
from pgrepl.types.text import read_text
from pgrepl.types.values import comparer
from tests.expr.spark import expressions as made
from tests.harness.dose import dose

INT4RANGE, NUMRANGE = 3904, 3906

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES: dict[int, tuple[Any, ...]] = {
    **made.VALUES,
    oids.NUMERIC: tuple(
        map(Decimal, "0 0.000 1 1.0 -1 10 9 -10 -9 0.1 0.09 -0.1 -0.09 123.45 -123.45 -123.4 NaN Infinity -Infinity "
            "1e30 -1e30 0.00000000000000000000000000000000000001".split())
    ),
    oids.TIMETZ: tuple(
        read_text(t, oids.TIMETZ) for t in ("12:00+00", "13:00+01", "12:00+01", "00:00-12", "12:00:01+00")
    ),
    INT4RANGE: tuple(
        read_text(t, INT4RANGE) for t in ("empty", "[1,5)", "(,5)", "[1,)", "(,)", "[1,4)", "[2,3)")
    ),
    NUMRANGE: tuple(read_text(t, NUMRANGE) for t in ("[1.0,2)", "[1,2)", "(1,2)", "[1,2]", "empty", "(,1)")),
    4451: tuple(read_text(t, 4451) for t in ("{}", "{[1,2)}", "{[1,2),[4,5)}", "{[1,3)}")),
    array_type(oids.NUMERIC): tuple(
        array_of(oids.NUMERIC, items) for items in ([], [Decimal("1.0")], [Decimal(1)], [None], [Decimal("NaN")])
    ),
    oids.PG_LSN: (0, 1, 255, 4096, 2**32, 2**64 - 1),
}  # fmt: skip
VALUES = {typoid: values for typoid, values in VALUES.items() if typoid != oids.JSON}

SOME_TYPES = pytest.mark.parametrize("start", dose(range(3), 3))  # of every third one


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


@pytest.mark.parametrize("typoid", VALUES)
def test_bytes_sort_as_the_type_sorts(typoid: int) -> None:
    compare = comparer(typoid)
    keys = [order_bytes(value, typoid) for value in VALUES[typoid]]
    wrong = [
        (a, b)
        for (a, x), (b, y) in product(zip(VALUES[typoid], keys, strict=True), repeat=2)
        if sign(compare(a, b)) != (x > y) - (x < y)
    ]
    assert wrong == []


def rows_of(typoid: int) -> Any:
    import pyarrow as pa

    array = form(typoid).to_array([*VALUES[typoid], None])
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return pa.table([pa.array(range(len(array)), pa.int64()), array], names=["n", "c1"])


def asked(spark: SparkSession, texts: dict[str, str], statement: Statement) -> dict[str, list[Any]]:
    """One query for each view, all in one."""
    union = " UNION ALL ".join(texts.values())
    found: dict[str, list[Any]] = {}
    for row in statement.run(spark, union).toArrow().to_pylist():
        found.setdefault(row["t"], []).append(row)
    return found


@SOME_TYPES
def test_spark_sorts_keys_as_the_types_sort(spark: SparkSession, start: int) -> None:
    """Places in the order of ORDER BY, ascending and descending with NULLs first."""
    statement = Statement()
    texts = {}
    for typoid in [*VALUES][start::3]:
        spark.createDataFrame(rows_of(typoid)).createOrReplaceTempView(f"keys_{typoid}")
        column = tree.Var(typoid, attnum=1)
        up = sort_item(column, tree.SortGroup(1, 0, 0), Compiler(made.names, statement))
        down = sort_item(column, tree.SortGroup(1, 0, 0, True, True), Compiler(made.names, statement))
        texts[str(typoid)] = (
            f"SELECT '{typoid}' AS t, n, rank() OVER (ORDER BY {up}) AS up, rank() OVER (ORDER BY {down}) AS down "
            f"FROM keys_{typoid}"
        )
    wrong = []
    for name, rows in asked(spark, texts, statement).items():
        values = [*VALUES[int(name)], None]
        compare = comparer(int(name))
        for row in rows:
            value = values[row["n"]]
            if value is None:
                places = len(values), 1
            else:
                places = (
                    1 + sum(compare(other, value) < 0 for other in values[:-1]),
                    2 + sum(compare(other, value) > 0 for other in values[:-1]),
                )
            if (row["up"], row["down"]) != places:
                wrong.append((name, value, (row["up"], row["down"]), places))
    assert wrong == []


@SOME_TYPES
def test_spark_groups_by_keys_as_the_types_are_equal(spark: SparkSession, start: int) -> None:
    statement = Statement()
    texts = {}
    for typoid in [*VALUES][start::3]:
        spark.createDataFrame(rows_of(typoid)).createOrReplaceTempView(f"keys_{typoid}")
        key = equal_key(tree.Var(typoid, attnum=1), Compiler(made.names, statement))
        texts[str(typoid)] = (
            f"SELECT '{typoid}' AS t, sort_array(collect_list(n)) AS same FROM keys_{typoid} GROUP BY {key}"
        )
    wrong = []
    for name, rows in asked(spark, texts, statement).items():
        values = VALUES[int(name)]
        compare = comparer(int(name))
        groups = sorted({tuple(j for j, b in enumerate(values) if compare(a, b) == 0) for a in values})
        if sorted(tuple(row["same"]) for row in rows) != [*groups, (len(values),)]:
            wrong.append((name, rows, groups))
    assert wrong == []


def test_a_window_using_a_pattern_operator_is_descending() -> None:
    using = operator("~>~", oids.TEXT, oids.TEXT)
    assert using is not None
    key = tree.SortGroup(1, 0, using.oid, descending=True, nulls_first=True)
    window = tree.Window(None, None, (), (key,))
    target = tree.Target(tree.Var(oids.TEXT, attnum=1), "c1", 1)
    assert (
        over(window, [target], Compiler(made.names, Statement()), ranked=True) == " OVER (ORDER BY c1 DESC NULLS FIRST)"
    )
