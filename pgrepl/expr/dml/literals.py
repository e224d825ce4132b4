"""VALUES lists that consist of literals only. They are read directly into values, as building expressions for many
thousand rows is slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError
from pgrepl.expr import evaluate, tree, typefacts
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.context import Context
from pgrepl.expr.dml.target import NamedColumn, attribute_at
from pgrepl.expr.scope import Scope
from pgrepl.expr.transform import transform_expr
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AConst, AConstKind
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

# shorter lists are analysed as expressions
_MANY = 16
_INT4 = 2**31


class _NotLiteral(Exception):
    """An item of the list is no literal, or needs the ordinary analysis for another reason."""


def literal_rows(
    session: Session,
    relation: Relation,
    columns: Sequence[NamedColumn],
    lists: Sequence[Sequence[nodes.Expr]],
    *,
    listed: bool,
) -> tuple[tuple[object, ...], ...] | None:
    """The rows as values of the columns' types; None: the list has an item that is not a literal."""
    width = len(lists[0])
    if len(lists) < _MANY or width > len(columns) or (listed and width < len(columns)):
        return None
    if any(column.indirection for column in columns):
        return None
    readers = [_Reader(session, relation, column.attnum) for column in columns[:width]]
    try:
        return tuple([_row(row, readers) for row in lists])
    except (_NotLiteral, PgError):
        return None


def _row(row: Sequence[nodes.Expr], readers: list[_Reader]) -> tuple[Any, ...]:
    if len(row) != len(readers):
        raise _NotLiteral
    return tuple([reader.read(node) for reader, node in zip(readers, row, strict=True)])


class _Reader:
    """The reader of one column: how a string or a number becomes a value of the column's type."""

    def __init__(self, session: Session, relation: Relation, attnum: int) -> None:
        self.column = attribute_at(relation, attnum)
        self.scope = Scope(session)
        self._style = session.text_style
        self._casts: dict[int, Callable[[Any], Any]] = {}
        self._text: Callable[[str], Any] | None = None

    def read(self, node: nodes.Expr) -> Any:
        if node.__class__ is not AConst:
            raise _NotLiteral
        kind, value = node.kind, node.value
        if kind is AConstKind.NULL:
            return None
        if kind is AConstKind.STRING:
            if self._text is None:
                self._text = self._text_reader()
            return self._text(str(value))
        typoid: int
        if kind is AConstKind.INTEGER and isinstance(value, int) and -_INT4 <= value < _INT4:
            typoid = oids.INT4
        else:
            constant = self._number(str(value)) if kind is AConstKind.FLOAT else None
            if constant is None:
                made = transform_expr(node, self.scope)
                assert isinstance(made, tree.Const)
                constant = made.type, made.value
            typoid, value = constant
        cast = self._casts.get(typoid)
        if cast is None:
            cast = self._casts[typoid] = self._cast(typoid)
        return cast(value)

    def _number(self, text: str) -> tuple[int, Any] | None:
        """A number with a decimal point or an exponent; None: it is an integer."""
        from pgrepl.types.text import read_text

        return None if text.isdigit() else (oids.NUMERIC, read_text(text, oids.NUMERIC, -1, self._style))

    def _text_reader(self) -> Callable[[str], Any]:
        """The type's input function, followed by its length coercion."""
        from pgrepl.types.text import read_text

        column, style = self.column, self._style
        base, typmod = typefacts.base_and_typmod(column.type, column.typmod)
        if base != column.type:
            raise _NotLiteral
        input_typmod = typmod if base == oids.INTERVAL else -1
        fit = self._cast(base) if typmod >= 0 else None

        def read(text: str) -> Any:
            value = read_text(text, base, input_typmod, style)
            return value if fit is None else fit(value)

        return read

    def _cast(self, source: int) -> Callable[[Any], Any]:
        column = self.column
        given = tree.Param(source)
        cast = coerce_to_target(
            self.scope, given, source, column.type, column.typmod, CastContext.ASSIGNMENT, IMPLICIT_CAST, -1
        )
        if cast is None:
            raise _NotLiteral
        if cast is given:
            return lambda value: value
        return evaluate.compile(cast, Context(self.scope.session), _itself)


def _itself(node: tree.Expr) -> Callable[[Any], Any] | None:
    return (lambda env: env) if isinstance(node, tree.Param) else None
