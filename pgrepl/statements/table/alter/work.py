"""The work queue of ALTER TABLE (wqueue): the steps to take for each table, pass by pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, auto

from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.rows.requirements import Requirement, Unique
from pgrepl.writing.rewrite.values import NewColumnValue


class Pass(IntEnum):
    """The passes, in an order in which no step hinders another (AlterTablePass)."""

    DROP = 0
    ALTER_TYPE = auto()
    ADD_COLUMN = auto()
    SET_EXPRESSION = auto()
    OLD_INDEX = auto()  # indexes rebuilt after a change of type or expression
    OLD_CONSTRAINT = auto()
    ADD_CONSTRAINT = auto()  # constraints are transformed; their steps go to later passes
    COLUMN_ATTRIBUTES = auto()  # NOT NULL
    ADD_INDEX_CONSTRAINT = auto()
    ADD_INDEX = auto()
    ADD_OTHER = auto()  # CHECK, foreign keys, defaults
    MISC = auto()


@dataclass(slots=True)
class AlteredTable:
    """A table that is being altered, and the steps for it (AlteredTableInfo)."""

    oid: int
    before: Relation
    passes: list[list[Step]] = field(default_factory=lambda: [[] for _ in Pass])
    pending: list[Requirement] = field(default_factory=list)
    verify_not_null: bool = False
    new_values: list[NewColumnValue] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    changed_constraints: dict[int, str] = field(default_factory=dict)  # to rebuild: OID and definition
    changed_indexes: dict[int, str] = field(default_factory=dict)
    replica_identity_index: str | None = None
    clustered_index: str | None = None
    persistence: str = ""  # the new one, of SET LOGGED or UNLOGGED
    tablespace: str | None = None
    access_method: int | None = None

    def add(self, when: Pass, step: Step) -> None:
        self.passes[when].append(step)


@dataclass(slots=True)
class WorkQueue:
    session: Session
    tables: dict[int, AlteredTable] = field(default_factory=dict)
    unique: list[Unique] = field(default_factory=list)  # of new unique indexes

    def entry(self, rel: Relation) -> AlteredTable:
        """As ATGetQueueEntry does."""
        found = self.tables.get(rel.oid)
        if found is None:
            found = self.tables[rel.oid] = AlteredTable(rel.oid, rel)
        return found

    def relation(self, altered: AlteredTable) -> Relation:
        """The table as it is now."""
        return relation(self.session, altered.oid)


Step = Callable[[WorkQueue, AlteredTable], None]
