"""Values of composite types by columns: a column that is kept as structs, a constant, ROW(…), and a field of one.

The form of a column says which of its fields holds which attribute; a program knows it where it is compiled, and puts
these nodes there. A column that is kept as text is evaluated row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, columnar, known
from pgrepl.expr.walk import map_children, rewrite
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import base_type
from pgrepl.types.lake_arrays import Form, storage_type
from pgrepl.types.lake_forms import is_row_type
from pgrepl.types.lake_structs import file_form
from pgrepl.types.record import RowType, fitted
from pgrepl.types.user_types import composite_type


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
            inner = map_children(node, lambda each: rewrite(each, visit))
            assert isinstance(inner, tree.RowExpr)
            return MadeRow(inner.type, typmod=inner.typmod, args=inner.args, names=inner.names, form=inner.form)
        kind = file_form(node.type, node.typmod) if forms is None else forms.get(node.attnum)
        return None if node.levelsup else RowColumn(node.type, typmod=node.typmod, attnum=node.attnum, kind=kind)

    return rewrite(expr, visit)


@columnar.register
def _(node: RowColumn) -> Columnar:
    import pyarrow as pa

    attnum = node.attnum
    if node.kind is None or attnum <= 0:
        raise NotColumnar("no plain column")
    found = _kept(node.type, node.kind)
    names = [name for name, _ in node.kind.children]

    def run(columns: Columns) -> Any:
        value = columns[attnum]
        if not pa.types.is_struct(value.type) or [field.name for field in value.type] != names:
            raise pa.ArrowInvalid("a column that is kept in another way")
        return value

    return Columnar(found.typoid, found.type, run, found.fields)


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
    import pyarrow as pa
    import pyarrow.compute as pc

    def run(columns: Columns) -> Any:
        found = pc.struct_field(columns[0], [child])
        if isinstance(found.type, pa.BaseExtensionType):
            found = found.value if isinstance(found, pa.Scalar) else found.storage
        if found.type != value.type and not value.fields:
            raise pa.ArrowInvalid("a field that is kept in another way")
        return found

    return Columnar(value.typoid, value.type, run, value.fields)


@columnar.register
def _(node: KnownRow) -> Columnar:
    import pyarrow as pa

    row = _row(node)
    values = [None] * len(row.fields) if node.value is None else fitted(node.value, row)
    pairs = zip(row.fields, values, strict=True)
    made = _made(node, [columnar(with_rows(tree.Const(f.type, typmod=f.typmod, value=value))) for f, value in pairs])
    found = pa.scalar(None, made.type) if node.value is None else made.run({})
    return Columnar(made.typoid, made.type, lambda columns: found, made.fields)


@columnar.register
def _(node: MadeRow) -> Columnar:
    row = _row(node)
    if len(node.args) != row.width:
        raise NotColumnar("a row of another type")
    return _made(node, [columnar(node.args[field.place]) for field in row.fields])


def _made(node: tree.Typed, values: Sequence[Columnar]) -> Columnar:
    import pyarrow as pa
    import pyarrow.compute as pc

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


__all__ = ["with_rows"]
