"""An object: facts, each with the statements that make it and take it back; columns. What of these comes before what.

Sequences come first; tables and views each after what it is made of; partitions are made as tables of their own and
attached, as pg_dump does; keys and indexes of partitions come before those of their parents, which then take them
over; foreign keys come last. A routine comes before the relations that use it and after those whose rows it names.
Bodies are not checked when they are restored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import partial
from typing import TypeAlias

from pgrepl.catalog.facts.namespace import is_user_routine, operator_rows, written_routines
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import PG_CLASS, PG_OPERATOR, PG_PROC, PG_TYPE
from pgrepl.expr.print.print_routine import create_operator, definition, signature
from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import quote_identifier

Key: TypeAlias = "tuple[str, str]"  # the kind and the name of an object


class Phase(IntEnum):
    """The order of statements: what others need comes first, what others need gone goes last."""

    ROLES = 1
    SCHEMAS = 2
    REMOVALS = 3  # of constraints and indexes that are made anew
    TYPES = 4  # and the routines that need no relation
    SEQUENCES = 5
    COLUMNS = 6
    PARTITIONS = 7  # that are attached in another way
    KEYS = 8
    RELATIONS = 9  # that are new
    FOREIGN_KEYS = 10
    TRIGGERS = 11
    ATTRIBUTES = 12
    PUBLICATIONS = 13
    SUBSCRIPTIONS = 14
    DROPS = 15


class Stage(Enum):
    """Where the facts of relations are in a dump, one stage for all of them behind the other."""

    CREATE = 1
    OWNED = 2  # sequences, by columns
    PARTITIONS = 3
    CHECKS = 4  # that are not valid
    INDEXES = 5
    FOREIGN_KEYS = 6
    ROWS = 7
    ATTRIBUTES = 8
    TRIGGERS = 9
    NOWHERE = 10  # CREATE says it, or it is usual


@frozen
class Fact:
    """`undone` takes the fact back. A changed fact is made by `made` alone, unless it has to be undone first
    (`anew`). Facts that are objects themselves (constraints, indexes, memberships) go only where drops are wanted."""

    phase: float  # a phase, or a place within it
    made: tuple[str, ...]  # empty: not compared
    undone: tuple[str, ...] = ()
    anew: bool = False
    is_object: bool = False
    undone_in: float | None = None
    compared: tuple[str, ...] = ()  # what makes it another, where that is not `made`
    of: str = ""  # the fact or the column that it goes with
    stage: Stage = Stage.ATTRIBUTES
    dumped: tuple[str, ...] = ()  # what a dump has, where that is not `made`

    @property
    def meaning(self) -> tuple[str, ...]:
        return self.compared or self.made


@frozen
class ColumnFacts:
    """A column; `inherited`: it comes and goes with that of a parent."""

    definition: str  # as in CREATE TABLE
    type: str  # with its collation
    default: str | None
    generated: str  # s: STORED, v: VIRTUAL; empty: not at all
    notnull: bool
    not_null: tuple[str, str]  # the constraint: its name, and NO INHERIT; empty where PostgreSQL 17 is spoken
    identity: str  # "", a: ALWAYS, d: BY DEFAULT
    identity_clause: str  # GENERATED …
    identity_options: str
    inherited: bool


@dataclass
class Definition:
    """`holds`: the relations whose columns keep their types because of it, how it lets go of each, and how it is made
    what it was."""

    kind: str  # table, view, sequence, type, routine, schema, publication, subscription, server, role …
    name: str
    made: list[tuple[float, str]]  # statements that make it, each with its phase, or a place within it
    dropped: str  # the word and the name, for DROP
    facts: dict[str, Fact] = field(default_factory=dict)
    columns: dict[str, ColumnFacts] | None = None
    holds: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    owner: str = ""  # the statement that gives a sequence to the owner of its table
    of_parent: tuple[str, frozenset[str]] | None = None  # a partition's parent, and what it gives a new partition
    labels: tuple[str, ...] = ()  # of an enum
    attributes: Mapping[str, str] | None = None  # of a composite type, each as in CREATE TYPE
    fixed: Mapping[str, str] = field(default_factory=dict)  # what no statement changes

    @property
    def key(self) -> Key:
        return self.kind, self.name


def statements(facts: Mapping[str, Fact]) -> list[tuple[float, str]]:
    """Those that make facts that CREATE does not."""
    return [
        (fact.phase, text)
        for fact in facts.values()
        if fact.stage is not Stage.NOWHERE
        for text in fact.dumped or fact.made
    ]


def texts(facts: Mapping[str, Fact]) -> Iterator[str]:
    return (text for _, text in statements(facts))


# --- columns ----------------------------------------------------------------------------------------------------------


Columns = Mapping[str, ColumnFacts]
Steps = Iterator[tuple[float, str]]


def changed_columns(table: str, have: Columns, wanted: Columns) -> Steps:
    """The statements for columns that both have, and for new ones. An inherited column's type changes with its
    parent's."""
    for name, column in wanted.items():
        before = have.get(name)
        if before is None:
            if not column.inherited:
                identity = f" {column.identity_clause}" if column.identity else ""
                yield Phase.COLUMNS, f"ALTER TABLE {table} ADD COLUMN {column.definition}{identity};"
        elif before != column:
            yield from _changed(f"ALTER TABLE {table} ALTER COLUMN {quote_identifier(name)}", name, before, column)


def gone_columns(table: str, have: Columns, wanted: Columns) -> Steps:
    for name, column in have.items():
        if name not in wanted and not column.inherited:
            yield Phase.DROPS, f"ALTER TABLE {table} DROP COLUMN {quote_identifier(name)};"


def anew(have: Columns, wanted: Columns) -> list[str]:
    """Columns that only dropping and adding them can change: a plain column does not become a generated one, and a
    virtual one no other."""
    return [
        name
        for name, column in wanted.items()
        if (before := have.get(name)) is not None and _is_of_another_kind(before, column)
    ]


def _is_of_another_kind(before: ColumnFacts, after: ColumnFacts) -> bool:
    return before.generated != after.generated and (before.generated == "v" or after.generated != "")


def _changed(alter: str, name: str, before: ColumnFacts, after: ColumnFacts) -> Steps:
    if _is_of_another_kind(before, after):
        return  # see `anew`
    new_default = before.default != after.default or before.generated != after.generated
    new_type = before.type != after.type and not after.inherited
    if before.generated and not after.generated:
        yield Phase.COLUMNS, f"{alter} DROP EXPRESSION;"
    elif before.default is not None and not before.generated and new_default and (new_type or after.default is None):
        yield Phase.COLUMNS, f"{alter} DROP DEFAULT;"
    if before.identity and not after.identity:
        yield Phase.REMOVALS, f"{alter} DROP IDENTITY;"
    if new_type:
        plain = after.type.partition(" COLLATE ")[0]
        yield Phase.COLUMNS, f"{alter} TYPE {after.type} USING {quote_identifier(name)}::{plain};"
    if after.generated and new_default:
        yield Phase.COLUMNS, f"{alter} SET EXPRESSION AS ({after.default});"
    elif after.default is not None and not after.generated and (new_default or new_type):
        yield Phase.COLUMNS, f"{alter} SET DEFAULT {after.default};"
    yield from _changed_not_null(alter, name, before, after)
    if after.identity and not before.identity:
        yield Phase.COLUMNS + 0.6, f"{alter} ADD {after.identity_clause};"
    elif after.identity:
        if before.identity != after.identity:
            yield Phase.COLUMNS, f"{alter} SET GENERATED {'ALWAYS' if after.identity == 'a' else 'BY DEFAULT'};"
        if before.identity_options != after.identity_options:
            words = after.identity_options.replace("START WITH", "SET START WITH").replace(
                " INCREMENT", " SET INCREMENT"
            )
            for word in ("NO MINVALUE", "MINVALUE", "NO MAXVALUE", "MAXVALUE", "CACHE", "NO CYCLE", "CYCLE"):
                words = re.sub(rf"(?<!SET)(?<!NO) {word}", f" SET {word}", words)
            yield Phase.COLUMNS, f"{alter} {words};"


def _changed_not_null(alter: str, column: str, before: ColumnFacts, after: ColumnFacts) -> Steps:
    """An inherited constraint follows its parent's."""
    table = alter.partition(" ALTER COLUMN ")[0]
    (old, was), (new, is_) = before.not_null, after.not_null
    if before.notnull and after.notnull and new and old and was == is_:
        if old != new and not after.inherited:
            yield Phase.COLUMNS, f"{table} RENAME CONSTRAINT {quote_identifier(old)} TO {quote_identifier(new)};"
    elif before.notnull and after.notnull and new and old:
        word = "NO INHERIT" if is_ else "INHERIT"
        yield Phase.COLUMNS, f"{table} ALTER CONSTRAINT {quote_identifier(old)} {word};"
    elif after.notnull and not before.notnull and new:
        constraint = f"CONSTRAINT {quote_identifier(new)} NOT NULL {quote_identifier(column)}{is_}"
        yield Phase.COLUMNS, f"{table} ADD {constraint};"
    elif before.notnull != after.notnull:
        yield Phase.COLUMNS, f"{alter} {'SET' if after.notnull else 'DROP'} NOT NULL;"


Placed = Iterator[tuple[int, str]]  # statements, each with the OID of what it is about
RelationFacts = Mapping[int, Mapping[str, Fact]]  # by the OID of the relation


def placed_parts(session: Session, facts: RelationFacts) -> Iterator[tuple[int, float, str]]:
    """The statements that make routines and relations: the object, the place in the order of all, and the text."""
    routines = RoutineParts(session)
    first = list(routines.first())
    for place, (oid, text) in enumerate(first):
        yield oid, Phase.TYPES + 0.5 + place / len(first) / 4, text
    parts = list(relation_parts(session, facts, routines))
    for place, (oid, text) in enumerate(parts):
        phase = Phase.SEQUENCES if text.startswith("CREATE SEQUENCE") else Phase.RELATIONS
        yield oid, phase + place / len(parts), text


def relation_parts(session: Session, facts: RelationFacts, routines: RoutineParts) -> Placed:
    """The statements for relations, and for the routines that are not made yet."""
    rels = [relation(session, oid) for oid in facts]
    sequences = [r for r in rels if r.kind == "S"]
    tables = _in_order(session, [r for r in rels if r.kind != "S"], routines)
    depth = {t.oid: len(partition_ancestors(session, t.oid)) if t.is_partition else 0 for t in tables}

    def at(stage: Stage, relations: Iterable[Relation]) -> Placed:
        for rel in relations:
            if stage is Stage.CREATE:
                yield from routines.before(rel.oid)
            for fact in facts[rel.oid].values():
                if fact.stage is stage:
                    yield from ((rel.oid, text) for text in fact.dumped or fact.made)

    yield from at(Stage.CREATE, [*sequences, *tables])
    yield from routines.rest()
    yield from at(Stage.OWNED, sequences)
    yield from at(Stage.PARTITIONS, tables)
    yield from at(Stage.CHECKS, reversed(tables))  # a parent's check is merged with those of its children
    yield from at(Stage.INDEXES, sorted(tables, key=lambda t: -depth[t.oid]))  # else a parent's key makes others
    yield from at(Stage.FOREIGN_KEYS, tables)
    yield from at(Stage.ROWS, tables)
    yield from at(Stage.ATTRIBUTES, [*sequences, *tables])
    yield from at(Stage.TRIGGERS, tables)


def _in_order(session: Session, listed: list[Relation], routines: RoutineParts) -> list[Relation]:
    """Parents before children, and what a view reads, or a function that a relation calls, before it."""
    by_oid = {r.oid: r for r in listed}
    ordered: dict[int, Relation] = {}
    begun: set[int] = set()

    def place(one_of_them: Relation) -> None:
        if one_of_them.oid in begun:
            return
        begun.add(one_of_them.oid)
        needed = needed_by(session, one_of_them)
        needed += sorted(routines.relations_needed_by(one_of_them.oid) - set(needed))
        for oid in needed:
            if oid in by_oid and oid != one_of_them.oid:
                place(by_oid[oid])
        ordered[one_of_them.oid] = one_of_them

    for one_of_them in listed:
        place(one_of_them)
    return list(ordered.values())


def needed_by(session: Session, rel: Relation) -> list[int]:
    if rel.kind in "vm":
        rule = one(session, tables.pg_rewrite, ev_class=rel.oid)
        if rule is None:
            return []
        return [d.refobjid for d in rows(session, tables.pg_depend, objid=rule.oid, refclassid=PG_CLASS)]
    return [row.inhparent for row in rows(session, tables.pg_inherits, inhrelid=rel.oid)]


class RoutineParts:
    """The routines of the database, and which of them have been made already."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting = {row.oid: row for row in written_routines(session)}
        self._all = list(self._waiting.values())
        operators = [row for row in operator_rows(session) if row.oprcode]  # without shells
        self._operators = sorted(operators, key=partial(signature, session))
        self._code = {row.oid: row.oprcode for row in self._operators}

    def first(self) -> Placed:
        """The statements for routines and operators that need no relation."""
        if self._all:
            yield 0, "SET check_function_bodies = false;"
        for operator in self._operators:
            if not is_user_routine(operator.oprcode):
                yield operator.oid, create_operator(self._session, operator)
        for row in self._all:
            if not self.relations_of(row.oid):
                yield from self._make(row.oid)

    def before(self, relation: int) -> Placed:
        """The statements for routines that a relation uses."""
        for oid in self._used_by(relation):
            yield from self._make(oid)

    def rest(self) -> Placed:
        for row in self._all:
            yield from self._make(row.oid)

    def relations_needed_by(self, relation: int) -> set[int]:
        """The relations that must exist before the routines that a relation uses."""
        return {rel_oid for oid in self._used_by(relation) for rel_oid in self.relations_of(oid)} - {relation}

    def relations_of(self, oid: int, seen: frozenset[int] = frozenset()) -> set[int]:
        """The relations that a routine, or another that it uses, needs."""
        oids: set[int] = set()
        for row in rows(self._session, tables.pg_depend, classid=PG_PROC, objid=oid):
            if row.refclassid == PG_CLASS:
                oids.add(row.refobjid)
            elif row.refclassid == PG_TYPE:
                oids |= {
                    source.oid
                    for source in rows(
                        self._session, tables.pg_class, datid=self._session.database_oid, reltype=row.refobjid
                    )
                }
            elif (routine := self._routine(row)) and routine not in seen:
                oids |= self.relations_of(routine, seen | {oid})
        return oids

    def _routine(self, row: tables.pg_depend) -> int:
        """The user's routine that something depends on, be it by an operator; 0: none."""
        if row.refclassid == PG_OPERATOR:
            code = self._code.get(row.refobjid, 0)
            return code if is_user_routine(code) else 0
        return row.refobjid if row.refclassid == PG_PROC else 0

    def _make(self, oid: int) -> Placed:
        if self._waiting.pop(oid, None) is None:
            return
        for row in rows(self._session, tables.pg_depend, classid=PG_PROC, objid=oid):
            yield from self._make(self._routine(row))
        text = definition(self._session, oid) or ""
        yield oid, text.replace("CREATE OR REPLACE ", "CREATE ", 1).rstrip("\n") + ";"
        for operator in self._operators:
            if operator.oprcode == oid:
                yield operator.oid, create_operator(self._session, operator)

    def _used_by(self, relation: int) -> list[int]:
        session = self._session
        parts = {relation}
        parts |= {row.oid for row in rows(session, tables.pg_attrdef, adrelid=relation)}
        parts |= {row.oid for row in rows(session, tables.pg_constraint, conrelid=relation)}
        parts |= {row.oid for row in rows(session, tables.pg_rewrite, ev_class=relation)}
        used = {self._routine(row) for row in rows(session, tables.pg_depend, objid=parts)}
        return sorted(used - {0})
