"""Sent columns as those of the target, in Spark SQL, with defaults for columns that are not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.errors import Declined
from pgrepl.expr.context import Context
from pgrepl.expr.defaults import column_default
from pgrepl.expr.tree import Var
from pgrepl.expr.walk import contains_mutable_functions
from pgrepl.replication.subscriber.convert import MatchedColumns, check_readable, through_text
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.replication.wire.text import WIRE_STYLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.spark import Statement


def new_rows(session: Session, target: Relation, sent: SentRelation, rows: DataFrame) -> DataFrame:
    """Whole new rows: c{attnum} for every column that is not generated, from s{place} of the sent relation."""
    from pgrepl.expr.spark import Statement
    from pgrepl.lake import spark

    statement: Statement = Statement(Context(session, WIRE_STYLE))
    matched = MatchedColumns(target, sent)
    columns = []
    for attribute in target.columns:
        if matched.places[attribute.num - 1] >= 0:
            columns.append(f"{_converted(session, matched, attribute, statement)} AS c{attribute.num}")
        elif not attribute.generated:
            columns.append(f"{_default(session, target, attribute, statement)} AS c{attribute.num}")
    return statement.run(spark.session(), f"SELECT {', '.join(columns)} FROM {{f}}", {"f": rows})


def _converted(session: Session, matched: MatchedColumns, attribute: Attribute, statement: Statement) -> str:
    from pgrepl.expr.spark import to_sql

    place = matched.places[attribute.num - 1]
    if matched.same_type(attribute.num):
        return f"s{place}"
    check_readable(session, attribute)
    expr = through_text(matched.sent.columns[place], attribute, place + 1)
    return to_sql(expr, lambda node: f"s{place}" if isinstance(node, Var) else None, statement)


def _default(session: Session, target: Relation, attribute: Attribute, statement: Statement) -> str:
    """A default must be the same for all rows, and for every session."""
    from pgrepl.expr.spark import to_sql
    from pgrepl.expr.spark.sql import cast, form_type

    expr = column_default(session, target, attribute)
    if expr is None:
        return cast("NULL", form_type(attribute.type, attribute.typmod))
    if contains_mutable_functions(expr):
        raise Declined(f'the default of column "{attribute.name}"')
    return to_sql(expr, lambda node: None, statement)
