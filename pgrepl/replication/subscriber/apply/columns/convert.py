"""Conversion of sent columns to the target's, in Spark SQL: matched by name, through their text form where the types
differ, with defaults for columns that are not sent.

Through the text form means the output function of one type and the input function of the other, never a cast. A value
that does not convert raises an error while rows are written; the exact way then says which row it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.engine import Declined
from pgrepl.errors import PgError
from pgrepl.expr.casts import length_function
from pgrepl.expr.context import Context
from pgrepl.expr.dml.defaults import column_default
from pgrepl.expr.tree import CoerceViaIO, Const, Expr, FuncExpr, Var
from pgrepl.expr.walk import contains_mutable_functions
from pgrepl.replication.subscriber.apply.target import match_columns
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.replication.wire.text import WIRE_STYLE, reads_as_written
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import oids
from pgrepl.types.builtin import element_type, proc_by_oid, type_by_oid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.spark import Statement


class Conversion:
    """Converts the columns s{place} of a sent relation to the columns c{attnum} of the target."""

    def __init__(self, session: Session, target: Relation, sent: SentRelation) -> None:
        from pgrepl.expr.spark import Statement

        self.target = target
        self.sent = sent
        self.places = match_columns(target, sent)
        self._session = session
        self._statement: Statement = Statement(Context(session, WIRE_STYLE))
        self._texts: dict[int, str] = {}
        for attribute in target.columns:
            place = self.places[attribute.num - 1]
            if place >= 0:
                self._texts[attribute.num] = self._converted(sent.columns[place], attribute, place)

    @property
    def unsent(self) -> list[Attribute]:
        """The target's columns that keep their values when a row is updated."""
        return [a for a in self.target.columns if self.places[a.num - 1] < 0 and not a.generated]

    @property
    def sent_places(self) -> list[int]:
        return sorted(place for place in self.places if place >= 0)

    def same_type(self, attnum: int) -> bool:
        """Whether the column has the type and the typmod of the sent column."""
        attribute, place = self.target.attributes[attnum - 1], self.places[attnum - 1]
        column = self.sent.columns[place]
        return (column.type, column.typmod) == (attribute.type, attribute.typmod)

    def new_rows(self, rows: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
        """Whole new rows: c{attnum} for every column that is not generated, besides the columns to `keep`."""
        texts = dict(self._texts)
        for attribute in self.unsent:
            texts[attribute.num] = self._default(attribute)
        return self._run(rows, texts, keep)

    def sent_rows(self, rows: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
        """The target's columns that were sent, as c{attnum}, besides the columns to `keep`."""
        return self._run(rows, self._texts, keep)

    def _run(self, rows: DataFrame, texts: dict[int, str], keep: Sequence[str]) -> DataFrame:
        from pgrepl.lake import spark

        columns = [f"{text} AS c{number}" for number, text in sorted(texts.items())]
        return self._statement.run(spark.session(), f"SELECT {', '.join([*keep, *columns])} FROM {{f}}", {"f": rows})

    def _converted(self, column: SentColumn, attribute: Attribute, place: int) -> str:
        from pgrepl.expr.spark import to_sql

        if (column.type, column.typmod) == (attribute.type, attribute.typmod):
            return f"s{place}"
        if not reads_as_written(self._session):
            raise Declined(f'the settings by which column "{attribute.name}" is read')
        expr = _through_text(column, attribute)
        names = {column.type: f"s{place}"}
        return to_sql(expr, lambda node: names[column.type] if isinstance(node, Var) else None, self._statement)

    def _default(self, attribute: Attribute) -> str:
        """The default of a column that is not sent. It must be the same for all rows, and for every session."""
        from pgrepl.expr.spark import to_sql
        from pgrepl.expr.spark.sql import cast, form_type

        expr = column_default(self._session, self.target, attribute)
        if expr is None:
            return cast("NULL", form_type(attribute.type, attribute.typmod))
        if contains_mutable_functions(expr):
            raise Declined(f'the default of column "{attribute.name}"')
        return to_sql(expr, lambda node: None, self._statement)


_SIZED = (oids.VARCHAR, oids.BPCHAR, oids.NUMERIC, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIME)


def _through_text(column: SentColumn, attribute: Attribute) -> Expr:
    source, target = column.type, attribute.type
    for typoid in (source, target):
        row = type_by_oid(typoid)
        if row is None or row.typtype not in "be" or (element_type(typoid) and typoid != oids.TEXT):
            raise Declined(f'the type of column "{attribute.name}"')
    arg = Var(source, typmod=column.typmod, attnum=1)
    expr: Expr = CoerceViaIO(target, arg=arg) if source != target else arg
    if attribute.typmod < 0:
        return expr
    if target not in _SIZED:
        raise Declined(f'the type of column "{attribute.name}"')
    _, function = length_function(target)
    return _sized(expr, function, attribute) if function else expr


def _sized(expr: Expr, function: int, attribute: Attribute) -> Expr:
    """The cast to a length. An input function treats a typmod as an implicit cast does."""
    proc = proc_by_oid(function)
    args: list[Expr] = [expr, Const(oids.INT4, value=attribute.typmod)]
    if proc is not None and proc.nargs == 3:
        args.append(Const(oids.BOOL, value=False))
    form = CoercionForm.IMPLICIT_CAST
    return FuncExpr(attribute.type, typmod=attribute.typmod, func=function, args=tuple(args), form=form)


def row_errors(error: PgError) -> bool:
    """Whether the error concerns some row or table, so that the exact way has to find and word it."""
    return error.sqlstate[:2] in ("22", "23", "0A", "2F", "XX", "42", "55")


__all__ = ["Conversion", "row_errors"]
