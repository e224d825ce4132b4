"""Aggregates over Spark: each function over each type, in groups, with DISTINCT, FILTER and ORDER BY; over windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pgrepl.engine.spark import pg_error
from pgrepl.expr import tree
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.exchange import Compiler, Statement, aggregate, over, to_form, window_function
from pgrepl.expr.exchange.sql import calls_python
from pgrepl.expr.exchange.worker import accumulate
from pgrepl.expr.functions.aggregates import _MAKERS
from pgrepl.expr.functions.registry import Context
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, aggregates, array_type, operator, proc_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.values import comparer
from tests.expr.spark import expressions as made
from tests.expr.spark.expressions import COLUMNS, VALUES, Fails, comparable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANY = {oids.ANYELEMENT, oids.ANYNONARRAY, oids.ANYARRAY, oids.ANY}
GROUPS = 4
ONE_FORM = (oids.INT4, oids.INT8, oids.TEXT, oids.DATE, oids.BOOL, oids.UUID, oids.FLOAT8)  # of equal values


def rows() -> list[tuple[Any, ...]]:
    """Sums of floats depend on the order of rows, so these have such values that they do not."""
    random = Random(11)
    exact = {oids.FLOAT4: (1.0, 0.5, -2.25, 4.0), oids.FLOAT8: (1.0, 0.5, -2.25, 1024.0, 3.0)}
    found = []
    for _ in range(40):
        row = list(made.table(random, 1)[0])
        for number, (typoid, _) in enumerate(COLUMNS):
            if typoid in exact and row[number] is not None:
                row[number] = random.choice(exact[typoid])
            if typoid == oids.NUMERIC and COLUMNS[number][1] < 0 and random.random() < 0.8:
                row[number] = random.choice((Decimal("1.5"), Decimal("2.25"), Decimal(-3), Decimal("0.10"), None))
            if typoid in (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ) and row[number] is not None:
                row[number] = random.choice(VALUES[typoid][:3])
        found.append((*row, len(found)))
    return found


NUMBER = tree.Var(oids.INT8, attnum=len(COLUMNS) + 1)  # of the row: the last member


def names(node: tree.Expr) -> Any:
    return "n" if node == NUMBER else made.names(node)


def columns_of(typoid: int) -> Iterator[tree.Var]:
    for number, (each, modifier) in enumerate(COLUMNS):
        if each == typoid or typoid in _ANY:
            yield tree.Var(each, typmod=modifier, attnum=number + 1)


def result_type(proc: Proc, args: tuple[tree.Expr, ...]) -> int:
    if proc.rettype in (oids.ANYELEMENT, oids.ANYCOMPATIBLE):
        return args[0].type
    if proc.rettype == oids.ANYARRAY:
        return args[0].type if proc.argtypes[0] == oids.ANYARRAY else array_type(args[0].type)
    return proc.rettype


def plain() -> Iterator[tree.Aggref]:
    """Every aggregate of one or two arguments over every column it takes."""
    for each in aggregates:
        proc = proc_by_oid(each.oid)
        assert proc is not None
        if proc.name not in _MAKERS or each.kind != "n" or not proc.argtypes or proc.variadic:
            continue
        for first in columns_of(proc.argtypes[0]):
            if proc.name == "array_agg" and first.type in made.ARRAYS:  # of two dimensions: no lake holds that
                continue
            if proc.argtypes[0] == oids.ANYARRAY and first.type not in made.ARRAYS:
                continue
            args: tuple[tree.Expr, ...] = (first,)
            if len(proc.argtypes) > 1:
                if proc.name.startswith("json"):
                    args = (tree.Var(oids.TEXT, attnum=first_of(oids.TEXT)), first)
                elif proc.name == "string_agg":
                    args = (first, tree.Const(first.type, value=b"-" if first.type == oids.BYTEA else ", "))
                else:
                    args = (first, next(columns_of(proc.argtypes[1])))
            typoid = result_type(proc, args)
            if typoid not in VALUES and typoid not in (oids.JSON, array_type(oids.NUMERIC), array_type(oids.DATE)):
                continue
            yield tree.Aggref(typoid, func=proc.oid, args=args)


def first_of(typoid: int) -> int:
    return next(n for n, (each, _) in enumerate(COLUMNS) if each == typoid) + 1


def small() -> tree.Expr:
    """A FILTER."""
    less = operator("<", oids.INT4, oids.INT4)
    assert less is not None
    column = tree.Var(oids.INT4, attnum=first_of(oids.INT4))
    return tree.OpExpr(oids.BOOL, op=less.oid, args=(column, tree.Const(oids.INT4, value=5)))


def by(column: tree.Var, descending: bool, nulls_first: bool) -> tree.AggOrder:
    typoid = column.type
    less, equal = operator(">" if descending else "<", typoid, typoid), operator("=", typoid, typoid)
    assert less is not None and equal is not None
    return tree.AggOrder(column, equal.oid, less.oid, descending, nulls_first)


def varied() -> Iterator[tree.Aggref]:
    random = Random(5)
    for node in plain():
        name = proc_by_oid(node.func).name  # type: ignore[union-attr]
        first = tree.Var(oids.INT8, attnum=first_of(oids.INT8))
        ordered = (by(first, random.random() < 0.5, random.random() < 0.5), by(NUMBER, False, False))
        yield replace(node, filter=small(), order=ordered)
        if len(node.args) == 1 and node.args[0].type in ONE_FORM and name not in ("any_value", "array_agg"):
            yield replace(node, distinct=True)


def expected(node: tree.Aggref, members: list[tuple[Any, ...]]) -> Any:
    """By the accumulators that the fall-back runs; an independent grouping of rows and arguments."""
    exprs = (*node.args, *[key.expr for key in node.order])
    run = [compile(expr) for expr in exprs]
    passes = compile(node.filter) if node.filter is not None else (lambda row: True)
    gathered = [tuple(value(row) for value in run) for row in members if passes(row) is True]
    width = len(node.args)
    own = replace(
        node,
        order=tuple(
            replace(key, expr=tree.Var(key.expr.type, attnum=width + n + 1)) for n, key in enumerate(node.order)
        ),
    )
    try:
        value = accumulate(own, Context())((gathered,))
        of = form(node.type, node.typmod)
        return comparable(of.from_array(of.to_array([value]))[0])
    except PgError as error:
        return Fails(error)


def groups(table: list[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for number, row in enumerate(table):
        found.setdefault(number % GROUPS, []).append(row)
    return found


def same(node: tree.Aggref, value: Any, wanted: Any) -> bool:
    """The spread of floats is the same but for the last digits; any value is one of several; of intervals that are
    equal (a month, 30 days) any may be the largest: which one Spark takes differs from release to release."""
    name = proc_by_oid(node.func).name  # type: ignore[union-attr]
    if name == "any_value" or (name == "array_agg" and not node.order):
        return (value is None) is (wanted is None)
    if node.type == oids.FLOAT8 and value is not None and name.startswith(("std", "var")):
        return bool(abs(value - float(wanted)) <= 1e-12 * abs(value)) or repr(value) == wanted
    if node.type == oids.INTERVAL and name in ("max", "min") and value is not None and wanted is not None:
        return comparer(oids.INTERVAL)(value, wanted) == 0
    return bool(comparable(value) == wanted)


def compared(
    spark: SparkSession, nodes: list[tree.Aggref], table: list[tuple[Any, ...]], *, all_failures: bool = False
) -> list[Any]:
    """All aggregates that do not fail in one query by groups; the others, one of each function or of each message,
    alone over the group where they do: a failure costs a Python worker."""
    spark.createDataFrame(made.arrow_table([row[:-1] for row in table])).coalesce(1).createOrReplaceTempView("grouped")
    answers = [{g: expected(node, members) for g, members in groups(table).items()} for node in nodes]
    wrong: list[Any] = []
    fine = [n for n, answer in enumerate(answers) if not any(isinstance(v, Fails) for v in answer.values())]
    for start in range(0, len(fine), 60):
        part = fine[start : start + 60]
        statement = Statement()
        texts = [to_form(aggregate(nodes[n], Compiler(names, statement)), nodes[n].type) for n in part]
        listed = ", ".join(f"{text} AS r{n}" for n, text in zip(part, texts, strict=True))
        query = f"SELECT n % {GROUPS} AS g, {listed} FROM grouped GROUP BY n % {GROUPS}"
        result = statement.run(spark, query).toArrow()
        for n, text in zip(part, texts, strict=True):
            values = form(nodes[n].type).from_array(result.column(f"r{n}"))
            for g, value in zip(result.column("g").to_pylist(), values, strict=True):
                if not same(nodes[n], value, answers[n][g]):
                    wrong.append((text, g, answers[n][g], comparable(value)))
    kinds: dict[Any, tuple[tree.Aggref, int, Fails]] = {}
    for node, answer in zip(nodes, answers, strict=True):
        for g, value in answer.items():
            if isinstance(value, Fails):
                kinds.setdefault((node.func, all_failures and value.shown), (node, g, value))
    for node, g, error in kinds.values():
        statement = Statement()
        text = to_form(aggregate(node, Compiler(names, statement)), node.type)
        try:
            shown: Any = statement.run(spark, f"SELECT {text} AS r FROM grouped WHERE n % {GROUPS} = {g}").toArrow()
        except Exception as problem:
            found = pg_error(problem)
            shown = problem if found is None else Fails(found)
        if shown != error:
            wrong.append((text, g, error, shown))
    return wrong


def test_aggregates_over_types(spark: SparkSession) -> None:
    """Each aggregate over one of the types it takes."""
    random = Random(8)
    by_function: dict[int, list[tree.Aggref]] = {}
    for node in plain():
        by_function.setdefault(node.func, []).append(node)
    nodes = random.sample([random.choice(group) for group in by_function.values()], 10)
    assert compared(spark, nodes, rows()) == []


@pytest.mark.slow
def test_aggregates_over_every_type(spark: SparkSession) -> None:
    assert compared(spark, list(plain()), rows(), all_failures=True) == []
    assert compared(spark, list(varied()), rows(), all_failures=True) == []


@pytest.mark.slow
def test_aggregates_with_distinct_filter_and_order(spark: SparkSession) -> None:
    random = Random(3)
    assert compared(spark, random.sample(list(varied()), 8), rows()) == []


def test_nothing_is_aggregated(spark: SparkSession) -> None:
    """Over no rows at all: NULL, but for counts."""
    statement = Statement()
    nodes = [node for node in plain() if node.args[0].type in (oids.INT4, oids.NUMERIC, oids.TEXT, oids.BOOL)]
    nodes = list({node.func: node for node in nodes}.values())
    spark.createDataFrame(made.arrow_table([row[:-1] for row in rows()])).createOrReplaceTempView("grouped")
    texts = [to_form(aggregate(node, Compiler(names, statement)), node.type) for node in nodes]
    listed = ", ".join(f"{text} AS r{n}" for n, text in enumerate(texts))
    (row,) = statement.run(spark, f"SELECT {listed} FROM grouped WHERE n < 0").toArrow().to_pylist()
    counts = {n for n, node in enumerate(nodes) if "count" in proc_by_oid(node.func).name}  # type: ignore[union-attr]
    assert row == {f"r{n}": 0 if n in counts else None for n in range(len(nodes))}


@pytest.mark.slow
@pytest.mark.parametrize("frame", ["ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", ""])
def test_aggregates_over_windows(spark: SparkSession, frame: str) -> None:
    """Those that are native; a window of rows by their number."""
    table = rows()
    spark.createDataFrame(made.arrow_table([row[:-1] for row in table])).createOrReplaceTempView("grouped")
    targets = (tree.Target(NUMBER, "n", 1),)
    key = tree.SortGroup(1, 410, 412)
    window = tree.Window(None, None, (), (key,))
    if frame:
        window = replace(
            window,
            frame_mode="ROWS",
            frame_start="PRECEDING",
            frame_end="CURRENT ROW",
            start_offset=tree.Const(oids.INT8, value=1),
        )
    statement = Statement()

    behind = over(window, targets, Compiler(names, statement))
    nodes, texts, answers = [], [], []
    for node in plain():
        if node.type in (oids.INT4, oids.INT8, oids.NUMERIC, oids.FLOAT8, oids.TEXT, oids.BOOL):
            call = tree.WindowFunc(node.type, func=node.func, args=node.args, is_aggregate=True)
            members = [table[max(0, n - 1) if frame else 0 : n + 1] for n in range(len(table))]
            answer = [expected(node, member) for member in members]
            if any(isinstance(value, Fails) for value in answer) or len(nodes) > 60:
                continue
            nodes.append(node)
            answers.append(answer)
            texts.append(to_form(window_function(call, behind, Compiler(names, statement)), node.type))
    listed = ", ".join(f"{text} AS r{n}" for n, text in enumerate(texts))
    result = statement.run(spark, f"SELECT n, {listed} FROM grouped ORDER BY n").toArrow()
    wrong = []
    for n, (node, answer) in enumerate(zip(nodes, answers, strict=True)):
        values = [comparable(value) for value in form(node.type).from_array(result.column(f"r{n}"))]
        if values != answer:
            wrong.append((texts[n], values, answer))
    assert wrong == []


def test_common_aggregates_call_no_python(spark: SparkSession) -> None:
    python = set()
    native = set()
    for node in plain():
        name = proc_by_oid(node.func).name  # type: ignore[union-attr]
        text = aggregate(node, Compiler(made.names, Statement())).text
        (python if calls_python(text) else native).add((name, node.args[0].type))
    assert {("sum", t) for t in (oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8)} <= native
    assert {(name, oids.NUMERIC) for name in ("min", "max", "count")} <= native
    assert {(name, oids.TEXT) for name in ("min", "max", "count", "string_agg", "array_agg")} <= native
    assert {(name, oids.BOOL) for name in ("bool_and", "bool_or", "every")} <= native
