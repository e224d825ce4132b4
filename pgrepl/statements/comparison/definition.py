"""An object, as far as it is compared: facts, each with the statements that make it and take it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from pgrepl.frozen import frozen

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


@frozen
class Fact:
    """`undone` takes the fact back. A changed fact is made by `made` alone, unless it has to be undone first
    (`anew`). Facts that are objects themselves (constraints, indexes, memberships) go only where drops are wanted."""

    phase: float  # a phase, or a place within it
    made: tuple[str, ...]
    undone: tuple[str, ...] = ()
    anew: bool = False
    is_object: bool = False
    undone_in: float | None = None
    compared: tuple[str, ...] = ()  # what makes it another, where that is not `made`

    @property
    def meaning(self) -> tuple[str, ...]:
        return self.compared or self.made


@frozen
class ColumnFacts:
    """A column; `inherited`: it comes and goes with that of a parent."""

    definition: str  # as in CREATE TABLE
    type: str  # with its collation
    default: str | None
    generated: bool
    notnull: bool
    identity: str  # "", a: ALWAYS, d: BY DEFAULT
    identity_clause: str  # GENERATED …
    identity_options: str
    inherited: bool


@dataclass
class Definition:
    """`holds`: the relations whose columns keep their types because of it, how it lets go of each, and how it is made
    what it was."""

    kind: str  # table, view, sequence, type, routine, schema, publication, subscription, role
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
