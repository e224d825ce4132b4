"""Sent columns as those of the target: by name, through their text form where the types differ.

Through the text form means the output function of one type and the input function of the other, never a cast. What
does not convert raises while rows are made; the row-by-row way then says which row it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.errors import Declined, PgError
from pgrepl.expr.casts import length_function
from pgrepl.expr.context import Context
from pgrepl.expr.tree import CoerceToDomain, CoerceViaIO, Const, Expr, FuncExpr, Var
from pgrepl.replication.subscriber.apply.target import match_columns
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.replication.wire.text import WIRE_STYLE, reads_as_written
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import oids
from pgrepl.types.builtin import base_type_and_typmod, proc_by_oid
from pgrepl.types.lake_forms import is_row_type

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.kernels.row_maker import KernelColumn

_TEXTS = (oids.TEXT, oids.VARCHAR)


class MatchedColumns:
    """The target's columns beside those that are sent. `places`: for each column by number the place among those that
    are sent, -1: not sent."""

    def __init__(self, target: Relation, sent: SentRelation) -> None:
        self.target = target
        self.sent = sent
        self.places = match_columns(target, sent)

    @property
    def unsent(self) -> list[Attribute]:
        """The target's columns that keep their values when a row is updated."""
        return [a for a in self.target.columns if self.places[a.num - 1] < 0 and not a.generated]

    def same_type(self, attnum: int) -> bool:
        """Whether the column holds what was sent as it is."""
        return is_same(self.sent.columns[self.places[attnum - 1]], self.target.attributes[attnum - 1])


def is_same(column: SentColumn, attribute: Attribute) -> bool:
    return (column.type, column.typmod) == (attribute.type, attribute.typmod)


def copied(column: SentColumn, attribute: Attribute, place: int) -> KernelColumn | None:
    """The column where a cast in Arrow does what the text form would do. None: it does not."""
    from pgrepl.lake.kernels.row_maker import KernelColumn

    longest = None
    if is_row_type(column.type):
        return None  # the target may keep rows in another way
    if not is_same(column, attribute):
        whole = column.type in oids.INTEGERS and attribute.type in oids.INTEGERS
        if not whole and not (column.type in _TEXTS and attribute.type in _TEXTS):
            return None
        if not whole and attribute.typmod >= 0 and not 0 <= column.typmod <= attribute.typmod:
            longest = attribute.typmod - 4
    return KernelColumn(attribute.num, place + 1, None, attribute.notnull, longest)


def converted(session: Session, column: SentColumn, attribute: Attribute, place: int) -> KernelColumn:
    """The same for all types. Sent columns have the attribute numbers 1 + their place."""
    from pgrepl.expr.arrow.program import conversion_of
    from pgrepl.lake.kernels.row_maker import KernelColumn

    made = copied(column, attribute, place)
    if made is not None:
        return made
    if not is_same(column, attribute):
        check_readable(session, attribute)
    value = conversion_of(through_text(column, attribute, place + 1), Context(session, WIRE_STYLE))
    if value is None:
        raise Declined(f'the type of column "{attribute.name}"')
    return KernelColumn(attribute.num, 0, None, attribute.notnull, None, value)


def check_readable(session: Session, attribute: Attribute) -> None:
    if not reads_as_written(session):
        raise Declined(f'the settings by which column "{attribute.name}" is read')


_SIZED = (
    oids.VARCHAR, oids.BPCHAR, oids.NUMERIC, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIME, oids.TIMETZ, oids.INTERVAL,
    oids.BIT, oids.VARBIT,
)  # fmt: skip


def through_text(column: SentColumn, attribute: Attribute, attnum: int) -> Expr:
    """`attnum`: that of the sent column."""
    is_row = is_row_type(column.type)
    if is_row and column.kept is None:
        raise Declined(f'the type of column "{attribute.name}"')
    source, sent_typmod = base_type_and_typmod(column.type, column.typmod)
    target, typmod = base_type_and_typmod(attribute.type, attribute.typmod)
    expr: Expr = Var(column.type, typmod=column.typmod, attnum=attnum)
    if is_row or source != target:
        expr = CoerceViaIO(target, arg=expr)
    if typmod >= 0 and (source, sent_typmod) != (target, typmod):
        expr = _sized(expr, target, typmod, attribute)
    if target != attribute.type:
        expr = CoerceToDomain(attribute.type, arg=expr)
    return expr


def _sized(expr: Expr, target: int, typmod: int, attribute: Attribute) -> Expr:
    """The cast to a length. An input function treats a typmod as an implicit cast does."""
    if target not in _SIZED:
        raise Declined(f'the type of column "{attribute.name}"')
    _, function = length_function(target)
    if not function:
        return expr
    proc = proc_by_oid(function)
    args: list[Expr] = [expr, Const(oids.INT4, value=typmod)]
    if proc is not None and proc.nargs == 3:
        args.append(Const(oids.BOOL, value=False))
    form = CoercionForm.IMPLICIT_CAST
    return FuncExpr(target, typmod=typmod, func=function, args=tuple(args), form=form)


def row_errors(error: PgError) -> bool:
    """Whether the error concerns some row or table, so that the exact way has to find and word it."""
    return error.sqlstate[:2] in ("22", "23", "0A", "2F", "XX", "42", "54", "55")
