"""ALTER TABLE gives existing rows new values: converted columns, volatile defaults, generated columns.

A change that the lake's definitions can express touches no file: a column that only gets wider, a default that is the
same for all rows. Otherwise all rows are rewritten and keep their row ids; publishers send nothing of it.

A column of lists or structs becomes one of text, as a statement brings a value that is no list or struct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.session.transaction import DimensionsNeeded
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_attribute, pg_class
from pgrepl.engine import choice
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.evaluate.evaluate import compile, evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr, FuncExpr, RelabelType, Var
from pgrepl.expr.walk import is_volatile
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake import commit
from pgrepl.lake.define.columns import replace_column
from pgrepl.lake.define.types import default_text, keeps_files
from pgrepl.lake.read import local
from pgrepl.lake.read.files import estimate, extent
from pgrepl.lake.table import lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.rows.changes import define_now, next_snapshot
from pgrepl.rows.checks_table import declare_dimensions, keep_dimensions, own
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake.forms import is_row_type
from pgrepl.types.style import STORED_STYLE
from pgrepl.types.text import write_text
from pgrepl.writing.rows_spark import NewColumnValue, Rewrite, rewritten_rows, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace

Row = tuple[Any, ...]


def rewrite(session: Session, values: Mapping[int, list[NewColumnValue]]) -> set[int]:
    """Rewrite the tables that need it; returns their OIDs."""
    snapshot = session.snapshot() - 1
    tables = [
        prepared
        for table, new in values.items()
        if (prepared := _prepared(session, relation(session, table), new, snapshot)) is not None
    ]
    if not tables:
        return set()
    frames = {
        rewriting.relation.oid: frame for rewriting in tables if (frame := _frame(session, rewriting)) is not None
    }
    rows = {
        rewriting.relation.oid: list(_new_rows(session, rewriting))
        for rewriting in tables
        if rewriting.relation.oid not in frames
    }
    for rewriting in tables:
        keep_dimensions(session, rewriting.relation, (row for _, row in rows.get(rewriting.relation.oid, ())))
    define_now(session)
    writes = []
    for rewriting in tables:
        write = Write(session, lake_table(session, rewriting.relation.oid))
        writes.append(write)
        frame = frames.get(rewriting.relation.oid)
        if frame is not None:
            write_rows(session, rewriting, frame, write)
            continue
        for place, row in rows[rewriting.relation.oid]:
            write.update(place, write.table.lake_row(row))
    commit.record_writes(session, writes, {"rewrite": [write.table.table_id for write in writes]})
    return {rewriting.relation.oid for rewriting in tables}


def _frame(session: Session, rewriting: Rewrite) -> DataFrame | None:
    """The rows as Spark computes them; None: this process computes them, as always arrays of several dimensions
    and rows as values."""
    if rewriting.was.has_dimensions or any(c.ndims > 1 or is_row_type(c.type) for c in rewriting.relation.columns):
        return None
    if not choice.choose(session, lambda: extent(session, rewriting.was, snapshot=rewriting.snapshot)).on_spark:
        return None
    try:
        frame = rewritten_rows(session, rewriting)
    except Declined as reason:
        choice.declined(session, "ALTER TABLE", reason, f'table "{rewriting.relation.name}" is not rewritten by Spark')
        return None
    choice.done(session, "ALTER TABLE", choice.Engine.SPARK)
    return frame


def _new_rows(session: Session, rewriting: Rewrite) -> Iterator[tuple[RowPlace, Row]]:
    context = Context(session)
    rel = rewriting.relation
    plain = [(v.attnum, compile(own(v.expr, rel), context)) for v in rewriting.values if not v.generates]
    generated = [(v.attnum, compile(own(v.expr, rel), context)) for v in rewriting.values if v.generates]
    width = len(rel.attributes)
    attnums = [column.attnum for column in rewriting.was.columns]
    for read in local.rows(session, rewriting.was, attnums, places=True, snapshot=rewriting.snapshot):
        old = rewriting.was.own_row(width, read[:-1])
        new = list(old)
        for attnum, value in plain:
            new[attnum - 1] = value(old)
        for attnum, value in generated:
            new[attnum - 1] = value(tuple(new))
        yield read[-1], tuple(new)


# --- what needs no rewrite --------------------------------------------------------------------------------------------


def _prepared(session: Session, rel: Relation, values: Sequence[NewColumnValue], snapshot: int) -> Rewrite | None:
    """The rewrite of a table. None: the lake's definitions express the change, or there is no row."""
    row = store.one(session.at(snapshot), pg_class, oid=rel.oid)
    if rel.kind != "r" or row is None or row.table_id is None:
        return None
    was = lake_table(session, rel.oid, snapshot)
    before = {column.attnum: column for column in was.columns}
    left = []
    for value in values:
        attribute = rel.attributes[value.attnum - 1]
        column = before.get(value.attnum)
        if column is None:
            if value.generates or not _is_missing_value(session, rel, attribute, value.expr):
                left.append(value)
            continue
        kept = not (value.to_text or value.renumbers) and keeps_files(
            (column.typoid, column.typmod), (attribute.type, attribute.typmod)
        )
        if not kept:
            replace_column(session, rel.oid, value.attnum)
            where = {"attrelid": rel.oid, "attnum": value.attnum}  # every row gets a value (RelationClearMissing)
            store.update(session, pg_attribute, where, atthasmissing=False, attmissingval=None)
        if not kept or value.generates or not _is_column_itself(value.expr, value.attnum):
            left.append(value)
    if not left or not estimate(session, was, snapshot=snapshot):
        return None
    return Rewrite(rel, was, snapshot, tuple(values))


def _is_missing_value(session: Session, rel: Relation, attribute: Attribute, expr: Expr) -> bool:
    """Whether a new column's default is the same for all existing rows; it becomes their value (attmissingval)."""
    if is_volatile(expr):
        return False
    value = evaluate(own(expr, rel), (), Context(session))
    if value is None:
        return True
    if default_text(value, attribute.type, attribute.typmod) is None:
        return False  # other readers of the lake could not see the default
    store.update(
        session,
        pg_attribute,
        {"attrelid": rel.oid, "attnum": attribute.num},
        atthasmissing=True,
        attmissingval=write_text(value, attribute.type, STORED_STYLE),
    )
    return True


def _is_column_itself(expr: Expr, attnum: int) -> bool:
    """Whether the expression is the column alone, maybe cast to its new type."""
    while not isinstance(expr, Var):
        if isinstance(expr, RelabelType) and expr.arg is not None:
            expr = expr.arg
        elif isinstance(expr, FuncExpr) and expr.form is CoercionForm.IMPLICIT_CAST:
            expr = expr.args[0]
        else:
            return False
    return expr.attnum == attnum


# --- dimensions -------------------------------------------------------------------------------------------------------


def keep_as_text(session: Session, needed: DimensionsNeeded) -> None:
    """Change the column, as ALTER TABLE changes a type; later changes of the running statement come behind it."""
    session.transaction.require_write()
    rel = relation(session, needed.relid)
    check_not_in_use(session, rel, "ALTER TABLE")
    column = rel.attributes[needed.attnum - 1]
    declare_dimensions(session, rel.oid, column.num)
    same = Var(column.type, typmod=column.typmod, collation=column.collation, attnum=column.num)
    if not rewrite(session, {rel.oid: [NewColumnValue(rel.oid, column.num, same, to_text=True)]}):
        define_now(session)
    next_snapshot(session)


def check_unchanged(session: Session, needed: DimensionsNeeded, begun: int) -> None:
    """Raise if a statement that is to begin anew has changed rows already, by triggers, functions or WITH.

    `begun` is the number of snapshots that the transaction had begun before it.
    """
    if session.transaction.numbering.begun == begun:
        return
    rel = relation(session, needed.relid)
    column = rel.attributes[needed.attnum - 1]
    kind = type_text(session, column.type)
    cannot, such = "become one of arrays of several dimensions", "such an array"
    alter = f"ALTER TABLE {quote_identifier(rel.name)} ALTER COLUMN {quote_identifier(column.name)} TYPE {kind}[]"
    hint = f"Use {alter} before it."
    if not element_type(base_type(column.type)):
        cannot, such = "keep rows that are no struct", "such a row"
        hint = "Store such a row by a statement of its own before it."
    raise PgError(
        "0A000",
        f'column "{column.name}" of relation "{rel.name}" cannot {cannot} now',
        detail=f"The statement has changed other rows before it came to {such}.",
        hint=hint,
    )
