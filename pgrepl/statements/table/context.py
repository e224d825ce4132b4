"""The lists into which CREATE TABLE, and ADD in ALTER TABLE, are transformed (CreateStmtContext): objects to create
before the table (sequences), parts of it (columns, CHECKs), objects to add afterwards (indexes, LIKE, foreign keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.sql.def_elem import conflicting, get_qualified_name
from pgrepl.sql.nodes import (
    Constraint,
    DefElem,
    RangeVar,
    TypeName,
)
from pgrepl.statements.index.spec import IndexSpec
from pgrepl.statements.table.columns import NewColumn
from pgrepl.statements.table.names import choose_relation_name


@dataclass(slots=True)
class ColumnSequence:
    """The sequence of a serial or identity column: created before the table, owned by the column afterwards."""

    schema: str
    name: str
    options: tuple[DefElem, ...]
    identity: bool
    column: str
    persistence: str
    owner: int  # 0: the current role
    oid: int = 0


@dataclass(slots=True)
class ColumnComment:
    """A comment that LIKE … INCLUDING COMMENTS carries over."""

    column: str
    text: str


@dataclass(slots=True)
class Like:
    relation: int
    options: frozenset[str]


@dataclass(slots=True)
class Clauses:
    session: Session
    table: str
    namespace: int
    persistence: str
    parents: tuple[RangeVar, ...] = ()
    is_partition: bool = False
    rel: Relation | None = None  # the table that is altered
    columns: list[NewColumn] = field(default_factory=list)
    checks: list[Constraint] = field(default_factory=list)
    foreign_keys: list[Constraint] = field(default_factory=list)
    index_constraints: list[Constraint] = field(default_factory=list)
    likes: list[Like] = field(default_factory=list)
    sequences: list[ColumnSequence] = field(default_factory=list)
    comments: list[ColumnComment] = field(default_factory=list)
    indexes: list[IndexSpec] = field(default_factory=list)
    set_not_null: list[str] = field(default_factory=list)


def add_sequence(
    clauses: Clauses, column: NewColumn, type_: TypeName | None, options: Sequence[DefElem], *, identity: bool
) -> ColumnSequence:
    """Plan the sequence of a serial or identity column, as generateSerialExtraStmts does."""
    session = clauses.session
    named: DefElem | None = None
    logged: DefElem | None = None
    rest: list[DefElem] = []
    for option in options:
        if option.name == "sequence_name":
            if named is not None:
                conflicting(option)
            named = option
        elif option.name in ("logged", "unlogged"):
            if logged is not None:
                conflicting(option)
            logged = option
        else:
            rest.append(option)
    if named is not None:
        parts = get_qualified_name(named)
        schema = parts[-2] if len(parts) > 1 else schema_name(session, clauses.namespace)
        name = parts[-1]
    else:
        schema = schema_name(session, clauses.namespace)
        name = choose_relation_name(session, clauses.table, column.name, "seq", clauses.namespace)
    persistence = clauses.persistence
    if logged is not None:
        if persistence == "t":
            raise PgError("42P16", "cannot set logged status of a temporary sequence", location=logged.location)
        persistence = "p" if logged.name == "logged" else "u"
    if type_ is not None:
        rest.insert(0, DefElem("as", type_))
    sequence = ColumnSequence(
        schema, name, tuple(rest), identity, column.name, persistence, clauses.rel.owner if clauses.rel else 0
    )
    clauses.sequences.append(sequence)
    return sequence
