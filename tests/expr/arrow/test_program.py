"""Conditions over whole Arrow columns say what the evaluator says of each row, errors included."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import NotColumnar, columnar
from pgrepl.expr.arrow.program import (
    Program,
    any_is_true,
    check_without_session,
    divided,
    none_is_false,
    program_of,
    value_of,
)
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import operator, operators
from pgrepl.types.lake.arrays import plain_array, storage_type
from pgrepl.types.lake.forms import form
from pgrepl.types.times.dates import END_TIMESTAMP, INFINITY, MIN_TIMESTAMP
from tests.expr.conftest import Place
from tests.expr.spark import expressions as made

WHOLE = (oids.INT2, oids.INT4, oids.INT8)
COMPARED = (
    *WHOLE, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.TEXT, oids.BPCHAR, oids.BOOL, oids.DATE, oids.TIMESTAMP,
    oids.TIMESTAMPTZ, oids.TIME, oids.UUID, oids.BYTEA,
)  # fmt: skip
SIGNS = ("=", "<>", "<", "<=", ">", ">=")
ARITHMETIC = {
    typoid: [o for o in operators if o.result == typoid and o.right in WHOLE and o.left in (0, *WHOLE)]
    for typoid in WHOLE
}
FORMS = {n: form(*column) for n, column in enumerate(made.COLUMNS, 1)}


class Columnar(made.Maker):
    """Mostly what is computed by columns."""

    def expr(self, typoid: int, depth: int) -> Expr:
        if typoid not in (oids.BOOL, *WHOLE) or depth <= 0:
            return self.leaf(typoid)
        if typoid in WHOLE:
            return self.number(typoid, depth - 1)
        choice = self.random.randrange(8)
        found = None
        if choice < 3:
            found = self.logic(typoid, depth - 1)
        elif choice == 3:
            found = self.member(typoid, depth - 1)
        return found or self.comparison(depth - 1)

    def comparison(self, depth: int) -> Expr:
        kind = self.random.choice(COMPARED)
        chosen = operator(self.random.choice(SIGNS), kind, kind)
        assert chosen is not None
        return tree.OpExpr(oids.BOOL, op=chosen.oid, args=(self.expr(kind, depth), self.expr(kind, depth)))

    def number(self, typoid: int, depth: int) -> Expr:
        if self.random.random() < 0.4:
            return self.leaf(typoid)
        chosen = self.random.choice(ARITHMETIC[typoid])
        operands = (chosen.left, chosen.right) if chosen.left else (chosen.right,)
        return tree.OpExpr(typoid, op=chosen.oid, args=tuple(self.expr(o, depth) for o in operands))


def columns_of(rows: list[tuple[Any, ...]]) -> dict[int, Any]:
    table = made.arrow_table(rows)
    return {n: table.column(f"c{n}").combine_chunks() for n in FORMS}


def by_the_evaluator(expr: Expr, rows: list[tuple[Any, ...]], context: Context) -> list[Any]:
    test = compile(expr, context)
    found: list[Any] = []
    for row in rows:
        try:
            found.append(test(row) is True)
        except PgError as error:
            found.append(error.message)
    return found


def program(expr: Expr) -> Program:
    return Program(expr, ())


def is_columnar(found: Program) -> bool:
    """Whether no row is evaluated by itself, but for errors."""
    return not divided(found.expr)[1]


def check(expr: Expr, rows: list[tuple[Any, ...]]) -> bool:
    """All rows at once, and each by itself; whether it was by columns."""
    columns = columns_of(rows)
    wanted = by_the_evaluator(expr, rows, Context())
    ready = program(expr)
    test = ready.test(FORMS)
    try:
        found = test(columns, len(rows)).to_pylist()
    except PgError as error:
        assert error.message in wanted, expr
    else:
        assert found == wanted, expr
    for n, answer in enumerate(wanted):
        one = {attnum: array.slice(n, 1) for attnum, array in columns.items()}
        try:
            assert test(one, 1).to_pylist() == [answer], (expr, rows[n])
        except PgError as error:
            assert error.message == answer, (expr, rows[n])
    return is_columnar(ready)


def play(seed: int, maker: type[made.Maker], depth: int, count: int) -> float:
    random = Random(seed)
    rows = made.table(random, 12)
    make = maker(random)
    return sum(check(make.expr(oids.BOOL, depth), rows) for _ in range(count)) / count


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_what_is_done_by_columns_means_what_the_evaluator_says(seed: int) -> None:
    assert play(seed, Columnar, 3, 30) > 0.3


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_any_condition_is_evaluated_row_by_row_at_least(seed: int) -> None:
    play(seed, made.Maker, 2, 20)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_many_conditions(seed: int) -> None:
    play(seed, Columnar, 4, 60)
    play(seed, made.Maker, 3, 20)


@pytest.mark.parametrize("typoid", COMPARED)
@pytest.mark.parametrize("sign", SIGNS)
def test_comparisons_of_all_pairs_of_values(typoid: int, sign: str) -> None:
    """NaN, -0.0, infinite moments, extremes, blanks at the end, texts of several bytes."""
    import pyarrow as pa

    chosen = operator(sign, typoid, typoid)
    assert chosen is not None
    modifier = made.typmod(10, 2) if typoid == oids.NUMERIC else -1
    values = [None, *{repr(v): v for v in (made.value_of(typoid, modifier, Random(n)) for n in range(200))}.values()]
    of = form(typoid, modifier)
    pairs = [(a, b) for a in values for b in values]
    arrays = [of.to_array([pair[n] for pair in pairs]) for n in (0, 1)]
    stored = [a.storage if isinstance(a, pa.ExtensionArray) else a for a in arrays]
    args = tuple(tree.Var(typoid, typmod=modifier, attnum=n) for n in (1, 2))
    expr = tree.OpExpr(oids.BOOL, op=chosen.oid, args=args)
    assert is_columnar(program(expr))
    found = columnar(expr).run({1: stored[0], 2: stored[1]}).to_pylist()
    assert found == [compile(expr, Context())(pair) for pair in pairs]
    assert stored[0].type == storage_type(of.arrow())


def test_filters_as_people_write_them(place: Place) -> None:
    place.run("CREATE TABLE t (id bigint, k int, s text, d double precision, n numeric(8,2), c char(4), m timestamp)")
    rows: list[tuple[Any, ...]] = [
        (None,) * 7,
        (0, 0, "", -0.0, None, "a   ", 0),
        (-7, 2147483647, "größer", float("nan"), Decimal("1.50"), "    ", -1),
        (2**62, -1, "value 3", 0.5, Decimal("-1.00"), "b", INFINITY),
    ]
    forms = {a.num: form(a.type, a.typmod) for a in place.relation("t").columns}
    columns = {n: forms[n].to_array([row[n - 1] for row in rows]) for n in forms}
    by_columns = (
        "id % 2 = 0", "id % 3 = -1", "id % 2 = -1 OR k IS NULL", "k BETWEEN -1 AND 5", "s = 'größer'", "s > 'g'",
        "NOT (k > 0 AND s <> '')", "k IN (0, -1, NULL)", "k NOT IN (0, 7)", "s IN ('', 'value 3')", "n > 1", "n = 1.5",
        "c = 'a'", "c <> ''", "d = 'NaN'", "d <= 0", "m >= '2000-01-01'", "id + k > 5", "abs(k) = 1", "k / 2 < 1",
        "(k > 0) IS NOT TRUE", "s IS DISTINCT FROM 'value 3'", "coalesce(k, 7) = 7", "k::bigint * 3 > id", "true",
        "k + 1 > 0", "length(s) > 3", "s LIKE 'val%'", "s NOT LIKE '%r_'", "m < localtimestamp", "k::text < s || id",
    )  # fmt: skip
    by_rows = ("s LIKE 'val\\_'", "lower(s) = 'x'", "id > 0 AND 1 / k < 0", "cbrt(d) > 0 AND k > 3")
    for text in (*by_columns, *by_rows):
        expr = place.analyzed(text)
        ready = program_of(expr, Context(place.session))
        assert ready is not None and is_columnar(ready) == (text in by_columns or "1 / k" in text), text
        wanted = by_the_evaluator(expr, rows, Context(place.session))
        for n, answer in enumerate(wanted):
            one = {attnum: array.slice(n, 1) for attnum, array in columns.items()}
            try:
                found = ready.test(forms)(one, 1).to_pylist()[0]
            except PgError as error:
                found = error.message
            assert found == answer, (text, rows[n])


def values_of(expr: Expr, rows: list[tuple[Any, ...]]) -> list[Any]:
    value = compile(expr, Context())
    found: list[Any] = []
    for row in rows:
        try:
            found.append(value(row))
        except PgError as error:
            found.append(error)
    return found


@pytest.mark.parametrize("call", ["random()", "random_normal()", "random(1, 9)", "random(1.5, 2.5)"])
def test_random_numbers_after_setseed_come_in_the_order_of_rows(place: Place, call: str) -> None:
    place.run("CREATE TABLE t (a int)")
    context = Context(place.session)
    check_without_session(place.analyzed(f"{call} < 0.5"), context)
    with pytest.raises(PgError, match="setseed"):
        check_without_session(place.analyzed("setseed(0.5) IS NULL"), context)
    place.run("SELECT setseed(0.5)")
    with pytest.raises(PgError, match="a random number after setseed"):
        check_without_session(place.analyzed(f"{call} < 0.5"), context)


def test_values_as_people_write_them(place: Place) -> None:
    """By columns where no row has an error, and as the evaluator has them."""
    place.run(
        "CREATE TABLE t (id bigint, k int, s text, d double precision, n numeric(8,2), c varchar(5), g boolean,"
        " p timestamp)"
    )
    rows: list[tuple[Any, ...]] = [
        (None,) * 8,
        (0, 0, "", -0.0, None, "a", True, 0),
        (-7, 2147483647, "größer", float("nan"), Decimal("1.50"), "abcde", False, INFINITY),
        (2**62, -1, "value 3", 0.5, Decimal("-1.25"), "b", None, -INFINITY),
        (2**53 + 1, 3, "x", 1e300, Decimal("999999.99"), "", True, MIN_TIMESTAMP),
        (1, 7, "y", float("-inf"), Decimal("0.01"), "c", False, END_TIMESTAMP - 10**15),
        (2, 2, "z", 1.5, Decimal("0.02"), "d", True, 86399999999),
    ]
    forms = {a.num: form(a.type, a.typmod) for a in place.relation("t").columns}
    by_columns = (
        "s || '!'", "'n ' || k", "id || s", "s || g", "n || s", "k::text", "length(s)", "k * 0.5", "(k * 0.5)::float8",
        "(n * 1.5 + k)::float8", "n + 0.125", "(n - 1)::numeric(9,1)", "(k * 1.005)::numeric(14,2)", "n::numeric(5,1)",
        "d + 1", "d - d", "d * d", "d / 4", "1 / d", "id::float8", "k::float8 * 0.1", "c || '1'", "n::float8",
        "(c || 'x')::varchar", "CASE WHEN k > 0 THEN 1 WHEN g THEN k ELSE 7 / k END", "CASE WHEN g THEN s END",
        "(n * n * n)::float8", "k::varchar(3)", "(s || c)::varchar(7)", "s LIKE '%e%'",
        "('{a,NULL,c}'::text[])[k]", "('[-1:1]={10,20,30}'::int[])[k % 4]", "('{1.5,2}'::float8[])[id]",
        "('{{a,b},{c,d}}'::text[])[k]", "('{}'::text[])[k]", "p + interval '1 hour'", "p - interval '1.000001 s'",
        "timestamp '2026-01-01' + k * interval '10 seconds'", "p + interval '3 us' * d",
        "timestamp '2026-01-01' - interval '1 us' * (k::float8 + 0.5)", "sqrt(d)", "ceil(d)", "round(d)", "reverse(s)",
        "octet_length(s)",
    )  # fmt: skip
    by_rows = ("upper(s)", "n / 3", "d || s", "cbrt(d)", "round(n)", "p + interval '1 day'", "p + interval '1 mon' * k",
               "p + interval 'infinity'", "('{a,b}'::text[])[1:k]", "(ARRAY[k])[1]")  # fmt: skip
    from pyarrow import ArrowException

    for text in (*by_columns, *by_rows):
        expr = place.analyzed(text)
        try:
            columnar(expr)
            is_by_columns = True
        except NotColumnar:
            is_by_columns = False
        assert is_by_columns == (text in by_columns), text
        ready = value_of(expr, Context(place.session))
        assert ready is not None
        wanted = values_of(expr, rows)
        own = form(expr.type, expr.typmod)
        fine = [n for n, one in enumerate(wanted) if not isinstance(one, PgError)]
        for numbers in [fine, *([n] for n in range(len(rows)))]:
            columns = {n: plain_array(forms[n].to_array([rows[at][n - 1] for at in numbers])) for n in forms}
            try:
                found = own.from_array(ready.values(forms)(columns, len(numbers)))
            except (PgError, ArrowException):  # whoever catches that asks each row
                found = values_of(ready.expr, [rows[at] for at in numbers])
            assert repr(found) == repr([wanted[at] for at in numbers]), text


def test_a_numeric_that_rounding_makes_too_large_is_an_error(place: Place) -> None:
    """Arrow forgets that rounding failed when the next value can be rounded."""
    from pyarrow import ArrowException

    place.run("CREATE TABLE t (n numeric(10,2), m numeric(38,2))")
    forms = {a.num: form(a.type, a.typmod) for a in place.relation("t").columns}
    for attnum, text in ((1, "n::numeric(5,0)"), (1, "n::numeric(9,1)"), (2, "m::numeric(5,0)")):
        ready = value_of(place.analyzed(text), Context(place.session))
        assert ready is not None
        largest = Decimal(10) ** (8 if attnum == 1 else 36) - Decimal("0.01")
        for values in ((largest, Decimal("1.00")), (Decimal("1.00"), largest), (-largest, None, Decimal("1.00"))):
            with pytest.raises((PgError, ArrowException)):
                found = ready.values(forms)({attnum: forms[attnum].to_array(values)}, len(values))
                pytest.fail(f"{text} of {values} is {found}")


def test_a_condition_that_is_false_hides_the_error_behind_it(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b int)")
    columns = {1: form(oids.INT4).to_array([0, 5, None]), 2: form(oids.INT4).to_array([1, 10, 1])}
    forms = {1: form(oids.INT4), 2: form(oids.INT4)}
    hidden = program_of(place.analyzed("a <> 0 AND b / a = 2"), Context(place.session))
    assert hidden is not None and is_columnar(hidden)
    assert hidden.test(forms)(columns, 3).to_pylist() == [False, True, False]
    shown = program_of(place.analyzed("b / a = 2 AND a <> 0"), Context(place.session))
    assert shown is not None
    with pytest.raises(PgError, match="division by zero"):
        shown.test(forms)(columns, 3)


def test_what_needs_the_session_or_changes_is_no_program(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text, m timestamptz)")
    for text in ("m < clock_timestamp()", "random() < 1", "b = a::regclass::text", "pg_table_is_visible(a)"):
        assert program_of(place.analyzed(text), Context(place.session)) is None, text


def test_several_filters_and_checks(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text)")
    columns = {1: form(oids.INT4).to_array([1, None, 3]), 2: form(oids.TEXT).to_array(["x", "y", None])}
    forms = {1: form(oids.INT4), 2: form(oids.TEXT)}
    exprs = [place.analyzed("a > 2"), place.analyzed("b = 'y'")]
    assert program(any_is_true(exprs)).test(forms)(columns, 3).to_pylist() == [False, True, True]
    assert program(none_is_false(exprs)).test(forms)(columns, 3).to_pylist() == [False, True, True]
    assert program(none_is_false(exprs[:1])).test(forms)(columns, 3).to_pylist() == [False, True, True]


def test_unknown_nodes_are_not_columnar() -> None:
    with pytest.raises(NotColumnar):
        columnar(tree.Param(oids.INT4))
