"""The evaluator by hand-made trees: rows, places of a query's own, what is computed and what is left alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pgrepl.expr import tree
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.evaluate.compiler import operator_function
from pgrepl.expr.functions.numeric import generate_series_numeric
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import BoolOp
from pgrepl.types import builtin, oids
from pgrepl.types.arrays import array_of
from pgrepl.types.numeric import EXACT
from pgrepl.types.values import hashable


def const(value: Any, typoid: int = oids.INT4) -> tree.Const:
    return tree.Const(typoid, value=value)


def op(name: str, left: tree.Expr, right: tree.Expr) -> tree.OpExpr:
    found = builtin.operator(name, left.type, right.type)
    assert found is not None
    return tree.OpExpr(found.result, op=found.oid, args=(left, right))


FAILS = op("/", const(1), const(0))
COLUMN_A = tree.Var(oids.INT4, attnum=1)
COLUMN_B = tree.Var(oids.TEXT, attnum=2)


def test_columns_are_members_of_the_row() -> None:
    compiled = evaluate.compile(op("+", COLUMN_A, const(1)))
    assert [compiled(row) for row in [(1, "x"), (41, "y"), (None, "z")]] == [2, 42, None]


def test_special_compiles_what_a_query_knows() -> None:
    def special(node: tree.Expr) -> Any:
        return (lambda env: env["a"]) if node is COLUMN_A else None

    compiled = evaluate.compile(op("*", COLUMN_A, const(2)), None, special)
    assert compiled({"a": 21}) == 42


def test_and_stops_at_false_and_or_at_true() -> None:
    fails = op("=", FAILS, const(1))
    false, true = const(False, oids.BOOL), const(True, oids.BOOL)
    assert evaluate.evaluate(tree.BoolExpr(oids.BOOL, op=BoolOp.AND, args=(false, fails))) is False
    assert evaluate.evaluate(tree.BoolExpr(oids.BOOL, op=BoolOp.OR, args=(true, fails))) is True
    with pytest.raises(PgError, match="division by zero"):
        evaluate.evaluate(tree.BoolExpr(oids.BOOL, op=BoolOp.AND, args=(true, fails)))


def test_case_computes_only_the_chosen_result() -> None:
    case = tree.CaseExpr(
        oids.INT4,
        whens=((op("=", COLUMN_A, const(0)), const(-1)), (const(True, oids.BOOL), op("/", const(10), COLUMN_A))),
    )
    compiled = evaluate.compile(case)
    assert [compiled((0,)), compiled((5,))] == [-1, 2]


def test_all_arguments_are_computed_before_a_null_among_them_counts() -> None:
    with pytest.raises(PgError, match="division by zero"):
        evaluate.evaluate(op("+", const(None), FAILS))


@pytest.mark.parametrize("length", [3, 20])
def test_in_with_many_constants_means_the_same(length: int) -> None:
    equal = builtin.operator("=", oids.INT4, oids.INT4)
    assert equal is not None
    items = [None, *range(length)]
    array = tree.Const(1007, value=array_of(oids.INT4, items))
    compiled = evaluate.compile(tree.ScalarArrayOpExpr(oids.BOOL, op=equal.oid, args=(COLUMN_A, array)))
    assert [compiled((value,)) for value in (2, 99, None)] == [True, None, None]


def test_an_int4_under_an_oid_s_name_is_unsigned() -> None:
    as_oid = tree.RelabelType(oids.OID, arg=const(-1))
    assert evaluate.evaluate(as_oid) == 4294967295
    assert evaluate.evaluate(tree.RelabelType(oids.INT4, arg=as_oid)) == -1


def test_an_operator_can_be_called_with_values() -> None:
    less = builtin.operator("<", oids.TEXT, oids.TEXT)
    assert less is not None
    before = operator_function(less.oid)
    assert [before("a", "b"), before("b", "a"), before("a", None)] == [True, False, None]


def test_a_function_without_implementation_is_refused_by_name() -> None:
    (proc,) = (p for p in builtin.procs_by_name("to_tsvector") if p.argtypes == (oids.TEXT,))
    with pytest.raises(PgError) as caught:
        evaluate.evaluate(tree.FuncExpr(proc.rettype, func=proc.oid, args=(const("x", oids.TEXT),)))
    assert (caught.value.sqlstate, caught.value.message) == ("0A000", "function to_tsvector(text) is not supported")


def test_a_set_has_no_place_where_one_value_is_wanted() -> None:
    (proc,) = (p for p in builtin.procs_by_name("generate_series") if p.argtypes == (oids.INT4, oids.INT4))
    series = tree.FuncExpr(oids.INT4, func=proc.oid, args=(const(1), const(3)), retset=True)
    assert list(evaluate.compile_set(series)(())) == [1, 2, 3]
    with pytest.raises(PgError, match="set-valued function called in context that cannot accept a set"):
        evaluate.evaluate(series)


@pytest.mark.parametrize(
    ("one", "two"),
    [(1.5, 1.5), (float("nan"), float("nan")), ((1, None), (1, None)), (array_of(23, [1, 2]), array_of(23, [1, 2]))],
)
def test_equal_values_are_one_key(one: Any, two: Any) -> None:
    assert hashable(one) == hashable(two)
    assert hash(hashable(one)) == hash(hashable(two))


def test_trailing_blanks_do_not_count_in_a_long_list() -> None:
    """PostgreSQL: `'a'::char(3) = ANY ('{a,b,c,d,e,f,g,h}'::bpchar[])` is true."""
    equal = builtin.operator("=", oids.BPCHAR, oids.BPCHAR)
    assert equal is not None
    listed = tree.Const(builtin.array_type(oids.BPCHAR), value=array_of(oids.BPCHAR, list("abcdefgh")))
    for value, found in (("a  ", True), ("z  ", False), (None, None)):
        args = (tree.Const(oids.BPCHAR, value=value), listed)
        assert evaluate.evaluate(tree.ScalarArrayOpExpr(oids.BOOL, op=equal.oid, args=args)) is found


@pytest.mark.parametrize(("second", "shown"), [("inf", "Infinity"), ("-inf", "-Infinity"), ("nan", "NaN")])
def test_a_time_has_a_finite_number_of_seconds(second: str, shown: str) -> None:
    (proc,) = builtin.procs_by_name("make_time")
    args = (const(1), const(2), const(float(second), oids.FLOAT8))
    with pytest.raises(PgError, match=f"^time field value out of range: 1:02:{shown}$"):
        evaluate.evaluate(tree.FuncExpr(oids.TIME, func=proc.oid, args=args))


def test_a_series_of_numerics_may_end_where_the_next_sum_would_be_too_large() -> None:
    largest = EXACT.scaleb(Decimal(9), 131071)
    assert list(generate_series_numeric(largest, largest, largest)) == [largest]
