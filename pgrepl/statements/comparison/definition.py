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
    SEQUENCES = 4
    COLUMNS = 5
    PARTITIONS = 6  # that are attached in another way
    KEYS = 7
    RELATIONS = 8  # that are new
    FOREIGN_KEYS = 9
    TRIGGERS = 10
    ATTRIBUTES = 11
    PUBLICATIONS = 12
    SUBSCRIPTIONS = 13
    DROPS = 14


@frozen
class Fact:
    """`undone` takes the fact back. A changed fact is made by `made` alone, unless it has to be undone first
    (`anew`). Facts that are objects themselves (constraints, indexes, memberships) go only where drops are wanted."""

    phase: Phase
    made: tuple[str, ...]
    undone: tuple[str, ...] = ()
    anew: bool = False
    is_object: bool = False
    undone_in: float | None = None


@frozen
class ColumnFacts:
    """A column; `inherited`: it comes and goes with that of a parent."""

    definition: str  # as in CREATE TABLE
    type: str  # with its collation
    default: str | None
    generated: bool
    notnull: bool
    identity: str  # "", a: ALWAYS, d: BY DEFAULT
    identity_made: str  # the statement that makes it an identity column
    identity_options: str
    inherited: bool


@dataclass
class Definition:
    """`holds`: the relations whose columns keep their types because of it, how it lets go of each, and how it is made
    what it was."""

    kind: str  # table, view, sequence, schema, publication, subscription, role
    name: str
    made: list[tuple[float, str]]  # statements that make it, each with its phase, or a place within it
    dropped: str  # the word and the name, for DROP
    facts: dict[str, Fact] = field(default_factory=dict)
    columns: dict[str, ColumnFacts] | None = None
    holds: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    owner: str = ""  # the statement that gives a sequence to the owner of its table
    of_parent: tuple[str, frozenset[str]] | None = None  # a partition's parent, and what it gives a new partition
    fixed: Mapping[str, str] = field(default_factory=dict)  # what no statement changes

    @property
    def key(self) -> Key:
        return self.kind, self.name
