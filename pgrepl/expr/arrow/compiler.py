"""The base of the compiler to Arrow: how a node of the typed tree becomes a function of whole columns.

`columnar` dispatches on the node's class. A value is an array, or a scalar for all rows; its Arrow type is known when
the node is compiled. Columns are given by attnum, in the storage type of their lake forms.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from functools import reduce, singledispatch
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import base_type
from pgrepl.types.lake_arrays import plain_array, storage_type
from pgrepl.types.lake_forms import form

Columns = Mapping[int, Any]
Run = Callable[[Columns], Any]


class NotColumnar(Exception):
    """Arrow cannot compute the node exactly as PostgreSQL does."""


@frozen
class Columnar:
    """A compiled expression. `typoid` is its PostgreSQL base type, `type` its Arrow type. `fields`: of a row, its
    attributes, computed from the rows as column 0."""

    typoid: int
    type: Any
    run: Run
    fields: tuple[Columnar, ...] = ()


# types whose lake form Arrow compares as PostgreSQL does, some of them with adjustments (comparisons.py)
PLAIN = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.TEXT,
        oids.VARCHAR, oids.NAME, oids.BPCHAR, oids.BYTEA, oids.UUID, oids.DATE, oids.TIME, oids.TIMESTAMP,
        oids.TIMESTAMPTZ,
    }
)  # fmt: skip


@singledispatch
def columnar(node: tree.Expr) -> Columnar:
    raise NotColumnar(type(node).__name__)


def storage_of(typoid: int, typmod: int) -> Any:
    """The Arrow type in which values of a type are stored."""
    try:
        return storage_type(form(typoid, typmod).arrow())
    except PgError as problem:  # a row type, whose form depends on the table
        raise NotColumnar(problem.message) from problem


def known(typoid: int, typmod: int) -> tuple[int, Any]:
    import pyarrow as pa

    base = base_type(typoid)
    kind = storage_of(typoid, typmod)
    if base == oids.NUMERIC and not pa.types.is_decimal(kind):
        raise NotColumnar("a numeric that is kept as text")
    return base, kind


@columnar.register
def _(node: tree.Var) -> Columnar:
    import pyarrow as pa

    attnum = node.attnum
    if attnum <= 0 or node.levelsup:
        raise NotColumnar("no plain column")
    base, kind = known(node.type, node.typmod)
    if base in PLAIN:
        return Columnar(base, kind, lambda columns: columns[attnum])

    def run(columns: Columns) -> Any:
        found = columns[attnum]
        if found.type != kind:  # another writer's column
            raise pa.ArrowInvalid("a column that is kept in another way")
        return found

    return Columnar(base, kind, run)


@columnar.register
def _(node: tree.Const) -> Columnar:
    import pyarrow as pa

    if base_type(node.type) == oids.NUMERIC:
        kind = _decimal_of(node.value)
        found = pa.scalar(node.value, kind)
        return Columnar(oids.NUMERIC, kind, lambda columns: found)
    base, array = stored(node, [node.value])
    value = array[0]
    return Columnar(base, array.type, lambda columns: value)


def stored(node: tree.Expr, values: Sequence[Any]) -> tuple[int, Any]:
    """The base type of an expression, and some values of it as an array."""
    base, _ = known(node.type, node.typmod)
    try:
        return base, plain_array(form(node.type, node.typmod).to_array(values))
    except PgError as problem:  # a value that the lake's type cannot hold
        raise NotColumnar(problem.message) from problem


def _decimal_of(value: Decimal | None) -> Any:
    import pyarrow as pa

    if value is None:
        return pa.decimal128(1, 0)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        raise NotColumnar("a numeric without digits")
    precision = max(len(digits), -exponent, 1)
    if precision > 38:
        raise NotColumnar("a numeric of many digits")
    return pa.decimal128(precision, -exponent)


def argument(node: tree.Expr, types: Container[int]) -> Columnar:
    """The compiled argument, if it has one of these types."""
    found = columnar(node)
    if found.typoid not in types:
        raise NotColumnar("an argument of another type")
    return found


def boolean(run: Run) -> Columnar:
    import pyarrow as pa

    return Columnar(oids.BOOL, pa.bool_(), run)


def condition(node: tree.Expr) -> Run:
    found = columnar(node)
    if found.typoid != oids.BOOL:
        raise NotColumnar("no condition")
    return found.run


# --- logic ------------------------------------------------------------------------------------------------------------


@columnar.register
def _(node: tree.BoolExpr) -> Columnar:
    import pyarrow.compute as pc

    runs = [condition(arg) for arg in node.args]
    if node.op is BoolOp.NOT:
        (only,) = runs
        return boolean(lambda columns: pc.invert(only(columns)))
    join = pc.and_kleene if node.op is BoolOp.AND else pc.or_kleene
    return boolean(lambda columns: reduce(join, (run(columns) for run in runs)))


@columnar.register
def _(node: tree.NullTest) -> Columnar:
    import pyarrow.compute as pc

    arg = node.arg
    if arg is None:
        raise NotColumnar("no value")
    test = pc.is_null if node.kind is NullTestType.IS_NULL else pc.is_valid
    if node.argisrow:
        return _all_fields(columnar(arg), test)
    if isinstance(arg, tree.Var) and arg.attnum > 0:  # IS NULL works for columns of every type
        attnum = arg.attnum
        return boolean(lambda columns: test(columns[attnum]))
    run = columnar(arg).run
    return boolean(lambda columns: test(run(columns)))


def _all_fields(row: Columnar, test: Callable[[Any], Any]) -> Columnar:
    """IS NULL and IS NOT NULL of a row, which are those of each field. The fields of NULL are NULL."""
    import pyarrow.compute as pc

    if not row.fields:
        raise NotColumnar("a row that is kept as text")

    def run(columns: Columns) -> Any:
        rows = {0: row.run(columns)}
        return reduce(pc.and_, [test(field.run(rows)) for field in row.fields])

    return boolean(run)


_WANTED = {  # the value that is tested for, and whether the result is negated
    BoolTestType.IS_TRUE: (True, False),
    BoolTestType.IS_NOT_TRUE: (True, True),
    BoolTestType.IS_FALSE: (False, False),
    BoolTestType.IS_NOT_FALSE: (False, True),
    BoolTestType.IS_UNKNOWN: (None, False),
    BoolTestType.IS_NOT_UNKNOWN: (None, True),
}


@columnar.register
def _(node: tree.BooleanTest) -> Columnar:
    import pyarrow.compute as pc

    assert node.arg is not None
    wanted, turned = _WANTED[node.kind]
    inner = condition(node.arg)

    def run(columns: Columns) -> Any:
        value = inner(columns)
        if wanted is None:
            found = pc.is_null(value)
        else:
            found = pc.fill_null(value if wanted else pc.invert(value), False)
        return pc.invert(found) if turned else found

    return boolean(run)


@columnar.register
def _(node: tree.CoalesceExpr) -> Columnar:
    import pyarrow.compute as pc

    args = [columnar(arg) for arg in node.args]
    if any((arg.typoid, arg.type) != (args[0].typoid, args[0].type) for arg in args):
        raise NotColumnar("arguments of several types")
    return Columnar(args[0].typoid, args[0].type, lambda columns: pc.coalesce(*[arg.run(columns) for arg in args]))


@columnar.register
def _(node: tree.RelabelType) -> Columnar:
    assert node.arg is not None
    found = columnar(node.arg)
    base = base_type(node.type)
    strings = (oids.TEXT, oids.VARCHAR, oids.NAME)
    if base != found.typoid and not (base in strings and found.typoid in strings):
        raise NotColumnar("a cast that changes what is compared")
    return Columnar(base, found.type, found.run)


@columnar.register
def _(node: tree.CollateExpr) -> Columnar:
    assert node.arg is not None
    return columnar(node.arg)
