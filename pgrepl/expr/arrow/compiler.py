"""The base of the compiler to Arrow: how a node of the typed tree becomes a function of whole columns; composite types
among them.

`columnar` dispatches on the node's class. A value is an array, or a scalar for all rows. Columns are given by attnum,
in their lake forms.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from functools import reduce, singledispatch
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.walk import map_children, rewrite
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import base_type
from pgrepl.types.lake.arrays import Form, plain_array, storage_type
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.lake.structs import file_form
from pgrepl.types.style import RowType, fitted
from pgrepl.types.user_types import composite_type

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
    base = base_type(typoid)
    kind = storage_of(typoid, typmod)
    if base == oids.NUMERIC and not pa.types.is_decimal(kind):
        raise NotColumnar("a numeric that is kept as text")
    return base, kind


@columnar.register
def _(node: tree.Var) -> Columnar:
    attnum = node.attnum
    if attnum <= 0 or node.levelsup:
        raise NotColumnar("no plain column")
    base, kind = known(node.type, node.typmod)
    if base in PLAIN:
        return Columnar(base, kind, lambda columns: columns[attnum])

    def run(columns: Columns) -> Any:
        column = columns[attnum]
        if column.type != kind:  # another writer's column
            raise pa.ArrowInvalid("a column that is kept in another way")
        return column

    return Columnar(base, kind, run)


@columnar.register
def _(node: tree.Const) -> Columnar:
    if base_type(node.type) == oids.NUMERIC:
        kind = _decimal_of(node.value)
        scalar = pa.scalar(node.value, kind)
        return Columnar(oids.NUMERIC, kind, lambda columns: scalar)
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
    compiled = columnar(node)
    if compiled.typoid not in types:
        raise NotColumnar("an argument of another type")
    return compiled


def boolean(run: Run) -> Columnar:
    return Columnar(oids.BOOL, pa.bool_(), run)


def condition(node: tree.Expr) -> Run:
    compiled = columnar(node)
    if compiled.typoid != oids.BOOL:
        raise NotColumnar("no condition")
    return compiled.run


# --- logic ------------------------------------------------------------------------------------------------------------


@columnar.register
def _(node: tree.BoolExpr) -> Columnar:
    runs = [condition(arg) for arg in node.args]
    if node.op is BoolOp.NOT:
        (only,) = runs
        return boolean(lambda columns: pc.invert(only(columns)))
    join = pc.and_kleene if node.op is BoolOp.AND else pc.or_kleene
    return boolean(lambda columns: reduce(join, (run(columns) for run in runs)))


@columnar.register
def _(node: tree.NullTest) -> Columnar:
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
    assert node.arg is not None
    wanted, turned = _WANTED[node.kind]
    inner = condition(node.arg)

    def run(columns: Columns) -> Any:
        value = inner(columns)
        if wanted is None:
            truth = pc.is_null(value)
        else:
            truth = pc.fill_null(value if wanted else pc.invert(value), False)
        return pc.invert(truth) if turned else truth

    return boolean(run)


@columnar.register
def _(node: tree.CoalesceExpr) -> Columnar:
    args = [columnar(arg) for arg in node.args]
    if any((arg.typoid, arg.type) != (args[0].typoid, args[0].type) for arg in args):
        raise NotColumnar("arguments of several types")
    return Columnar(args[0].typoid, args[0].type, lambda columns: pc.coalesce(*[arg.run(columns) for arg in args]))


@columnar.register
def _(node: tree.RelabelType) -> Columnar:
    assert node.arg is not None
    compiled = columnar(node.arg)
    base = base_type(node.type)
    strings = (oids.TEXT, oids.VARCHAR, oids.NAME)
    if base != compiled.typoid and not (base in strings and compiled.typoid in strings):
        raise NotColumnar("a cast that changes what is compared")
    return Columnar(base, compiled.type, compiled.run)


@columnar.register
def _(node: tree.CollateExpr) -> Columnar:
    assert node.arg is not None
    return columnar(node.arg)


# --- rows -------------------------------------------------------------------------------------------------------------


@frozen
class RowColumn(tree.Var):
    """A column of a composite type whose form is known."""

    kind: Form | None = None


@frozen
class KnownRow(tree.Const):
    """A constant of a composite type."""


@frozen
class MadeRow(tree.RowExpr):
    """ROW(…) of a composite type."""


def with_rows(expr: tree.Expr, forms: Mapping[int, Form] | None = None) -> tree.Expr:
    """The expression with such nodes. `forms`: of the columns, by attnum; None: as if they were kept as their types are
    now, to learn whether Arrow can compute the expression."""

    def visit(node: tree.Expr) -> tree.Expr | None:
        if not isinstance(node, (tree.Var, tree.Const, tree.RowExpr)) or composite_type(base_type(node.type)) is None:
            return None
        if isinstance(node, tree.Const):
            return KnownRow(node.type, typmod=node.typmod, value=node.value)
        if isinstance(node, tree.RowExpr):
            inner = map_children(node, lambda child: rewrite(child, visit))
            assert isinstance(inner, tree.RowExpr)
            return MadeRow(inner.type, typmod=inner.typmod, args=inner.args, names=inner.names, form=inner.form)
        kind = file_form(node.type, node.typmod) if forms is None else forms.get(node.attnum)
        return None if node.levelsup else RowColumn(node.type, typmod=node.typmod, attnum=node.attnum, kind=kind)

    return rewrite(expr, visit)


@columnar.register
def _(node: RowColumn) -> Columnar:
    attnum = node.attnum
    if node.kind is None or attnum <= 0:
        raise NotColumnar("no plain column")
    kept = _kept(node.type, node.kind)
    names = [name for name, _ in node.kind.children]

    def run(columns: Columns) -> Any:
        value = columns[attnum]
        if not pa.types.is_struct(value.type) or [field.name for field in value.type] != names:
            raise pa.ArrowInvalid("a column that is kept in another way")
        return value

    return Columnar(kept.typoid, kept.type, run, kept.fields)


def _kept(typoid: int, kind: Form) -> Columnar:
    """A struct of this form, as column 0."""
    if not kind.row_fields:
        raise NotColumnar("a row that is kept as text")
    fields = [_field(f.child, _inside(f.type, f.typmod, kind.children[f.child][1])) for f in kind.row_fields]
    return Columnar(base_type(typoid), storage_type(kind.arrow()), lambda columns: columns[0], tuple(fields))


def _inside(typoid: int, typmod: int, kind: Form) -> Columnar:
    if is_row_type(typoid):
        return _kept(typoid, kind)
    base, stored = known(typoid, typmod)
    if stored != storage_type(kind.arrow()):
        raise NotColumnar("a field that is kept in another way")
    return Columnar(base, stored, lambda columns: columns[0])


def _field(child: int, value: Columnar) -> Columnar:
    """The field of the struct that is column 0. It is NULL where the struct is."""

    def run(columns: Columns) -> Any:
        field_values = pc.struct_field(columns[0], [child])
        if isinstance(field_values.type, pa.BaseExtensionType):
            field_values = field_values.value if isinstance(field_values, pa.Scalar) else field_values.storage
        if field_values.type != value.type and not value.fields:
            raise pa.ArrowInvalid("a field that is kept in another way")
        return field_values

    return Columnar(value.typoid, value.type, run, value.fields)


@columnar.register
def _(node: KnownRow) -> Columnar:
    row = _row(node)
    values = [None] * len(row.fields) if node.value is None else fitted(node.value, row)
    pairs = zip(row.fields, values, strict=True)
    row_column = _made(
        node, [columnar(with_rows(tree.Const(f.type, typmod=f.typmod, value=value))) for f, value in pairs]
    )
    scalar = pa.scalar(None, row_column.type) if node.value is None else row_column.run({})
    return Columnar(row_column.typoid, row_column.type, lambda columns: scalar, row_column.fields)


@columnar.register
def _(node: MadeRow) -> Columnar:
    row = _row(node)
    if len(node.args) != row.width:
        raise NotColumnar("a row of another type")
    return _made(node, [columnar(node.args[field.place]) for field in row.fields])


def _made(node: tree.Typed, values: Sequence[Columnar]) -> Columnar:
    if not values:
        raise NotColumnar("a row without fields")
    names = [str(n) for n in range(len(values))]
    kind = pa.struct(list(zip(names, [value.type for value in values], strict=True)))
    fields = tuple([_field(n, value) for n, value in enumerate(values)])

    def run(columns: Columns) -> Any:
        return pc.make_struct(*[value.run(columns) for value in values], field_names=names)

    return Columnar(base_type(node.type), kind, run, fields)


def _row(node: tree.Typed) -> RowType:
    row = composite_type(base_type(node.type))
    assert row is not None
    return row


@columnar.register
def _(node: tree.FieldSelect) -> Columnar:
    if node.arg is None or base_type(node.arg.type) == oids.RECORD:
        raise NotColumnar("a field of an unknown row")
    row, arg = composite_type(base_type(node.arg.type)), columnar(node.arg)
    at = None if row is None else row.index(node.fieldnum)
    if at is None or len(arg.fields) <= at:
        raise NotColumnar("a field of a row that is kept as text")
    field = arg.fields[at]
    return Columnar(field.typoid, field.type, lambda columns: field.run({0: arg.run(columns)}), field.fields)
