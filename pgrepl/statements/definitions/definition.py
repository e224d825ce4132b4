"""An object: facts, each with the statements that make it and take it back; columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeAlias

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
