"""Errors that PostgreSQL shows without a place in the text, although the text has one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.sql.nodes import RangeVar


@contextmanager
def unplaced() -> Iterator[None]:
    """ALTER TABLE analyzes its expressions without the query's text: their errors have no caret."""
    try:
        yield
    except PgError as error:
        error.report = replace(error.report, position=None)
        raise


def unplaced_name(name: RangeVar) -> RangeVar:
    return replace(name, location=-1)


def named_relation(session: Session, name: RangeVar) -> Relation:
    """The relation of a utility statement: if it does not exist, the message has no caret."""
    return find_relation(session, unplaced_name(name))


def named_relation_or_none(session: Session, name: RangeVar) -> Relation | None:
    return find_relation(session, unplaced_name(name), missing_ok=True)
