"""Finds the line of a row that Spark has rejected: Spark knows no lines, so the file is read again, up to that row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import PgError
from pgrepl.rows.checks_table import TableChecks
from pgrepl.rows.checks_text import index_key
from pgrepl.rows.routing import Router
from pgrepl.rows.unique import UniqueIndex, unique_indexes
from pgrepl.writing.copy.reader import is_placed, placed

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.writing.copy.source import Row, RowSource

_UNIQUE, _FOREIGN_KEY = "23505", "23503"
_OF_ROWS = ("22", "23", "42", "0A", "P0")  # classes of errors that one row can cause


def found_again(session: Session, source: RowSource, error: PgError) -> PgError:
    """The error of the first wrong row, with its CONTEXT; the given error if no single row causes it."""
    if is_placed(error) or error.sqlstate == _FOREIGN_KEY or not error.sqlstate.startswith(_OF_ROWS):
        return error
    fresh = source.anew()
    if error.sqlstate == _UNIQUE:
        number = _duplicate(session, fresh, error)
        return error if number is None else placed(error, fresh.place(number))
    check = _checks(session, source.target.relation, frozenset(source.target.attnums))
    try:
        for row in fresh.rows():
            try:
                check(row)
            except PgError as found:
                return placed(found, fresh.place())
    except PgError as found:
        return found
    return error


def _checks(session: Session, named: Relation, modified: frozenset[int]) -> Callable[[Row], tuple[Relation, Row]]:
    """A function that checks a row, except its unique keys, and returns its leaf partition and the row in the layout of
    that table."""
    router = Router(session, named)
    tables: dict[int, TableChecks] = {}

    def of(rel: Relation) -> TableChecks:
        if rel.oid not in tables:
            tables[rel.oid] = TableChecks(session, rel, named, modified)
        return tables[rel.oid]

    def check(row: Row) -> tuple[Relation, Row]:
        if named.kind == "p":
            if named.is_partition:
                of(named).bound(row)
            leaf, row = router.route(row)
            row = of(leaf).complete(row)
            of(leaf).constraints(row)
            return leaf, row
        row = of(named).complete(row)
        of(named).constraints(row)
        of(named).bound(row)
        return named, row

    return check


def _duplicate(session: Session, source: RowSource, error: PgError) -> int | None:
    """The number of the line whose key exists already: in the table, or in an earlier line."""
    index = _violated(session, source.target.relation, error)
    if index is None or error.report.detail is None:
        return None
    check = _checks(session, source.target.relation, frozenset(source.target.attnums))
    first: int | None = None
    for row in source.rows():
        leaf, own = check(row)
        if leaf.oid != index.relation.oid:
            continue
        values = index.values(own)
        if values is None:
            continue
        if f"{index_key(session, index.info, values)} already exists." != error.report.detail:
            continue
        if first is not None or any(True for _ in index.find([values])):
            return source.number
        first = source.number
    return first


def _violated(session: Session, named: Relation, error: PgError) -> UniqueIndex | None:
    from pgrepl.rows.members import members

    for member in members(session, named.oid, True):
        rel = relation(session, member.relation.oid)
        if rel.name == error.report.table:
            for info in unique_indexes(session, rel):
                if info.name == error.report.constraint:
                    return UniqueIndex(session, rel, info)
    return None
