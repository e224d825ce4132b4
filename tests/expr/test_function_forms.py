"""What executors compute of a batch, by whole columns or for equal arguments once, is what the evaluator says of each
row: every operator and function, over a table of extremes, errors included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pgrepl.expr import tree
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.exchange import Statement
from pgrepl.expr.exchange.compiler import Compiler, fall_back
from pgrepl.expr.exchange.worker import loaded, run_program
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr
from pgrepl.ground.errors import PgError, marked
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text
from tests.expr.spark import expressions as made
from tests.harness.dose import dose


def answers(expr: Expr, rows: list[tuple[Any, ...]], context: Context) -> list[tuple[Any, str | None]]:
    """The value or the error of each row."""
    run, of = compile(expr, context), form(expr.type, expr.typmod)
    found: list[tuple[Any, str | None]] = []
    for row in rows:
        try:
            found.append((made.comparable(of.from_array(of.to_array([run(row)]))[0]), None))
        except PgError as error:
            found.append((None, marked(error)))
    return found


def program_of(expr: Expr, context: Context) -> tuple[str, list[str]]:
    """The program for executors, and the names of the columns that it is given."""
    statement = Statement(context)
    sql = fall_back(expr, Compiler(made.names, statement))
    (function,) = statement.functions.values()
    given = re.search(rf"{function.name}\((.*?)\)", sql.text)
    assert given is not None
    return function.program, given[1].split(", ")


def differences(
    expr: Expr, program: str, arrays: list[Any], rows: list[tuple[Any, ...]], context: Context
) -> Iterator[tuple[Any, ...]]:
    """Rows for which the program says something else than the evaluator."""
    found = run_program(program, arrays)
    values = map(made.comparable, form(expr.type, expr.typmod).from_array(found.field("v")))
    pairs = zip(values, found.field("e").to_pylist(), strict=True)
    for row, wanted, answer in zip(rows, answers(expr, rows, context), pairs, strict=True):
        if answer != wanted:
            yield expr, row, wanted, answer


@pytest.mark.parametrize("variants", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("zone", dose(["America/New_York", "GMT"], 2))
def test_a_batch_is_worth_what_its_rows_are(zone: str, variants: int) -> None:
    random, context = Random(f"{zone} {variants}"), Context(None, TextStyle(timezone=zone))
    rows = made.table(random, 30)
    table = made.arrow_table(rows).append_column("1", [[1] * len(rows)])
    wrong = []
    by_columns, by_rows = set(), set()
    for source, expr in made.every_call(random, variants):
        program, names = program_of(expr, context)
        (by_rows if loaded(program).by_columns is None else by_columns).add(source)
        arrays = [plain_array(table.column(name)) for name in names]
        wrong += differences(expr, program, arrays, rows, context)
    assert wrong == []
    assert len(by_columns) > 150
    assert len(by_rows) > 600


@pytest.mark.parametrize("typoid", made.VALUES)
def test_casts_from_text_are_worth_what_each_is(typoid: int) -> None:
    """Of the usual spelling, of others, and of no value: all together, and each kind without the next."""
    import pyarrow as pa

    context = Context(None, TextStyle(timezone="Europe/Berlin"))
    expr = tree.CoerceViaIO(typoid, arg=tree.Var(oids.TEXT, attnum=1))
    program, _ = program_of(expr, context)
    written = [write_text(value, typoid, context.style) for value in made.VALUES[typoid]]
    texts = [None, *written, *(text for value in made.TEXTS for text in (value, f" {value}")), *ODD]
    rows: list[tuple[Any, ...]] = [(text,) for text in texts]
    fine = [row for row, (_, error) in zip(rows, answers(expr, rows, context), strict=True) if error is None]
    for some in (rows, fine, fine[: len(written) + 1], rows[:1], []):
        arrays = [pa.array([text for (text,) in some], pa.string())]
        assert list(differences(expr, program, arrays, some, context)) == []


ODD = (
    "2023-02-30",
    "2024-02-29 25:00:00",
    "2024-02-29 12:00:00+01",
    "99999999999999999999",
    "-0",
    "1e400",
    "f",
    "0.10",
)
