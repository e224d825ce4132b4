"""Casts through texts by columns: all values are written, and what is written is read (types/column_text.py,
types/column_values.py). Texts depend on settings, so that a program puts these nodes where it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar
from pgrepl.expr.arrow.operations import columnar
from pgrepl.expr.walk import rewrite
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import base_type
from pgrepl.types.column_casts import through_text
from pgrepl.types.lake_arrays import Form, storage_type
from pgrepl.types.lake_forms import form, is_row_type
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.expr.tree import Expr


@frozen
class CastByText(tree.Typed):
    """CoerceViaIO where the settings are known. `kind`: the form of the result; `given`: that of the argument, if this
    is a column of rows."""

    arg: Expr
    style: TextStyle
    kind: Form
    given: Form | None = None


def with_casts(expr: Expr, style: TextStyle, own: Form | None = None, forms: Mapping[int, Form] | None = None) -> Expr:
    """The expression with its casts by text as such nodes, where Arrow has no cast for them. `own`: the form of its
    value, if that is a row; `forms`: of the columns, by attnum."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, tree.CoerceViaIO) or node.arg is None:
            return None
        node = replace(node, arg=rewrite(node.arg, visit))
        try:
            columnar(node)
        except NotColumnar:
            return _by_text(node, style, own, forms or {})
        return node

    return rewrite(expr, visit)


def _by_text(node: tree.CoerceViaIO, style: TextStyle, own: Form | None, forms: Mapping[int, Form]) -> Expr:
    assert node.arg is not None
    given = None
    if is_row_type(node.arg.type):
        given = forms.get(node.arg.attnum) if isinstance(node.arg, tree.Var) else None
        if given is None:
            return node
    if is_row_type(node.type) and own is None:
        return node
    kind = own if own is not None and is_row_type(node.type) else form(node.type, -1)
    return CastByText(node.type, arg=node.arg, style=style, kind=kind, given=given)


@columnar.register
def _(node: CastByText) -> Columnar:
    import pyarrow as pa

    given = form(node.arg.type, node.arg.typmod) if node.given is None else node.given
    source, target = (base_type(node.arg.type), node.arg.typmod), base_type(node.type)
    kind = storage_type(node.kind.arrow())
    argument = _argument(node)
    if target == oids.NUMERIC and not pa.types.is_decimal(kind):
        raise NotColumnar("a numeric that is kept as text")

    def run(columns: Columns) -> Any:
        value = argument(columns)
        one = isinstance(value, pa.Scalar)
        array = pa.array([value.as_py()], value.type) if one else value
        try:
            made = through_text(array, source, given, (node.type, -1), node.kind, node.style)
        except PgError as problem:  # raised again for the row that it is about
            raise pa.ArrowInvalid(problem.message) from problem
        return made[0] if one else made

    return Columnar(target, kind, run)


def _argument(node: CastByText) -> Callable[[Columns], Any]:
    if node.given is None:
        return columnar(node.arg).run
    assert isinstance(node.arg, tree.Var)
    attnum = node.arg.attnum
    return lambda columns: columns[attnum]
