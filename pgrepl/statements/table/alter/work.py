"""The work queue of ALTER TABLE (wqueue), pass by pass; and actions of a few lines: REPLICA IDENTITY, CLUSTER ON, SET
LOGGED, SET TABLESPACE, ALTER and VALIDATE CONSTRAINT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import partial

from pgrepl.catalog.facts.acl import check_relation_owner
from pgrepl.catalog.facts.publication import relation_publications
from pgrepl.catalog.facts.relation import Attribute, Relation, oid_in_schema, relation
from pgrepl.catalog.facts.relation_parts import indexes, inheritors, not_supported
from pgrepl.catalog.facts.sequences import new_relfilenumber, sequences_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_index
from pgrepl.expr.catalog_trees import IndexInfo, index_info
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import Requirement, Unique
from pgrepl.sql.nodes import AlterTableCmd, AlterTableKind
from pgrepl.statements.table.columns import SYSTEM_COLUMNS
from pgrepl.statements.table.names import HEAP, check_tablespace, table_access_method
from pgrepl.statements.table.relations import refuse_catalog
from pgrepl.writing.rows_spark import NewColumnValue

TABLE = "rp"
VIEW = "v"
MATVIEW = "m"
INDEX = "i"
PARTITIONED_INDEX = "I"
SEQUENCE = "S"
FOREIGN = "f"
COMPOSITE = "c"


def check_target(session: Session, action: str, rel: Relation, kinds: str) -> None:
    """Refuse a table of another kind, and one of another owner (ATSimplePermissions); `kinds` are relkinds."""
    if rel.kind not in kinds:
        raise PgError(
            "42809",
            f'ALTER action {action} cannot be performed on relation "{rel.name}"',
            detail=not_supported(rel.kind),
        )
    check_relation_owner(session, rel)
    refuse_catalog(rel, rel.name)


def for_children(session: Session, rel: Relation, action: Callable[[Relation], None]) -> None:
    """Apply an action to all relations that inherit from this one, at any depth (ATSimpleRecursion)."""
    if rel.has_subclass:
        for oid in inheritors(session, rel.oid)[1:]:
            action(relation(session, oid))


def column_of(rel: Relation, name: str, *, verb: str = "alter") -> Attribute:
    """The column of this name; system columns cannot be changed."""
    attribute = rel.attribute(name)
    if attribute is None:
        if name in SYSTEM_COLUMNS:
            raise PgError("0A000", f'cannot {verb} system column "{name}"')
        raise missing_column(rel, name)
    return attribute


def missing_column(rel: Relation, name: str) -> PgError:
    return PgError("42703", f'column "{name}" of relation "{rel.name}" does not exist')


def only_partitioned(what: str) -> PgError:
    return PgError(
        "42P16",
        f"cannot {what} only the partitioned table when partitions exist",
        hint="Do not specify the ONLY keyword.",
    )


def index_of(session: Session, rel: Relation, name: str) -> IndexInfo:
    """The index of a table that CLUSTER ON or REPLICA IDENTITY USING INDEX names."""
    oid = oid_in_schema(session, rel.namespace, name)
    if oid is None:
        raise PgError("42704", f'index "{name}" for table "{rel.name}" does not exist')
    if relation(session, oid).kind not in ("i", "I"):
        raise PgError("42809", f'"{name}" is not an index')
    info = index_info(session, oid)
    if info.table != rel.oid:
        raise PgError("42809", f'"{name}" is not an index for table "{rel.name}"')
    return info


# --- work -------------------------------------------------------------------------------------------------------------


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
        """The entry of a table in the work queue (ATGetQueueEntry)."""
        altered = self.tables.get(rel.oid)
        if altered is None:
            altered = self.tables[rel.oid] = AlteredTable(rel.oid, rel)
        return altered

    def relation(self, altered: AlteredTable) -> Relation:
        """The table as it is now."""
        return relation(self.session, altered.oid)


Step = Callable[[WorkQueue, AlteredTable], None]


# --- access -----------------------------------------------------------------------------------------------------------


def prepare_tablespace(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    """SET TABLESPACE (ATPrepSetTableSpace)."""
    check_target(work.session, cmd.kind.value, rel, TABLE + MATVIEW + INDEX + PARTITIONED_INDEX)
    check_tablespace(cmd.name, partitioned=False)
    altered = work.entry(rel)
    if altered.tablespace is not None:
        raise PgError("42601", "cannot have multiple SET TABLESPACE subcommands")
    altered.tablespace = cmd.name


def prepare_access_method(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    """SET ACCESS METHOD (ATPrepSetAccessMethod). Only a partitioned table may be without one: its partitions take the
    default."""
    check_target(work.session, cmd.kind.value, rel, TABLE + MATVIEW)
    altered = work.entry(rel)
    if altered.access_method is not None:
        raise PgError("0A000", "cannot have multiple SET ACCESS METHOD subcommands")
    partitioned = rel.kind == "p"
    method = table_access_method(cmd.name) if cmd.name is not None else 0 if partitioned else HEAP
    if method != rel.access_method:
        altered.access_method = method
        altered.add(Pass.MISC, partial(_change, method=method))


def _change(work: WorkQueue, altered: AlteredTable, *, method: int) -> None:
    store.update(work.session, pg_class, {"oid": altered.oid}, relam=method)


# --- cluster ----------------------------------------------------------------------------------------------------------


_CLUSTERABLE = (403, 783)  # btree, gist


def cluster(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    mark_clustered(work.session, work.relation(altered), cmd.name)


def mark_clustered(session: Session, rel: Relation, index: str | None) -> None:
    """Note by which index the table is clustered; None: by none (ATExecClusterOn, mark_index_clustered)."""
    chosen = 0 if index is None else _suitable_index(session, rel, index)
    if rel.kind == "p":
        raise PgError("0A000", "cannot mark index clustered in partitioned table")
    for row in indexes(session, rel.oid):
        if bool(row.indisclustered) != (row.indexrelid == chosen):
            store.update(session, pg_index, {"indexrelid": row.indexrelid}, indisclustered=row.indexrelid == chosen)


def _suitable_index(session: Session, rel: Relation, name: str) -> int:
    """The index by which a table can be clustered (check_index_is_clusterable)."""
    info = index_of(session, rel, name)
    if info.method not in _CLUSTERABLE:
        raise PgError("0A000", f'cannot cluster on index "{name}" because access method does not support clustering')
    if info.predicate is not None:
        raise PgError("0A000", f'cannot cluster on partial index "{name}"')
    if not info.valid:
        raise PgError("0A000", f'cannot cluster on invalid index "{name}"')
    return info.oid


# --- persistence ------------------------------------------------------------------------------------------------------


_WORDS = {"p": "logged", "u": "unlogged"}


def prepare_persistence(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    session = work.session
    tables = TABLE if session.settings.release < 18 else "r"
    check_target(session, cmd.kind.value, rel, tables + SEQUENCE)
    altered = work.entry(rel)
    if altered.persistence:
        raise PgError("0A000", "cannot change persistence setting twice")
    wanted = "p" if cmd.kind is AlterTableKind.SET_LOGGED else "u"
    if rel.persistence == "t":
        raise PgError("42P16", f'cannot change logged status of table "{rel.name}" because it is temporary')
    if rel.persistence == wanted:
        return
    if wanted == "u" and relation_publications(session, rel.oid):
        raise PgError(
            "55000",
            f'cannot change table "{rel.name}" to unlogged because it is part of a publication',
            detail="Unlogged relations cannot be replicated.",
        )
    _check_foreign_keys(session, rel, wanted)
    altered.persistence = wanted
    if rel.kind != "p":
        altered.after.append(partial(_persistence_change, session, rel, wanted))


def _check_foreign_keys(session: Session, rel: Relation, wanted: str) -> None:
    """A logged table can reference logged tables only."""
    mine, others = ("conrelid", "confrelid") if wanted == "p" else ("confrelid", "conrelid")
    for key in store.rows(session, pg_constraint, contype="f", **{mine: rel.oid}):
        other = relation(session, getattr(key, others))
        if other.oid != rel.oid and (other.persistence == "p") != (wanted == "p"):
            raise PgError(
                "42P16",
                f'could not change table "{rel.name}" to {_WORDS[wanted]} because it references '
                f'{_WORDS["u" if wanted == "p" else "p"]} table "{other.name}"',
            )


def _persistence_change(session: Session, rel: Relation, persistence: str) -> None:
    """Change the table, its indexes and the sequences it owns."""
    oids = [rel.oid, *(row.indexrelid for row in indexes(session, rel.oid))]
    oids += [sequence for sequence, _, _ in sequences_of(session, rel.oid)]
    for oid in oids:
        if relation(session, oid).kind == "S":
            new_relfilenumber(session, oid)
        store.update(session, pg_class, {"oid": oid}, relpersistence=persistence)


# --- replica ----------------------------------------------------------------------------------------------------------


def identify(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    mark_replica_identity(work.session, work.relation(altered), cmd.identity or "d", cmd.name)


def mark_replica_identity(session: Session, rel: Relation, identity: str, index: str | None) -> None:
    """Notes what identifies a table's rows (ATExecReplicaIdentity, relation_mark_replica_identity)."""
    chosen = _replica_suitable_index(session, rel, index or "").oid if identity == "i" else 0
    if rel.replident != identity:
        store.update(session, pg_class, {"oid": rel.oid}, relreplident=identity)
    for row in indexes(session, rel.oid):
        if bool(row.indisreplident) != (row.indexrelid == chosen):
            store.update(session, pg_index, {"indexrelid": row.indexrelid}, indisreplident=row.indexrelid == chosen)


def _replica_suitable_index(session: Session, rel: Relation, name: str) -> IndexInfo:
    info = index_of(session, rel, name)
    if not info.unique:
        raise PgError("42809", f'cannot use non-unique index "{name}" as replica identity')
    if not info.immediate:
        raise PgError("0A000", f'cannot use non-immediate index "{name}" as replica identity')
    if info.exprs:
        raise PgError("0A000", f'cannot use expression index "{name}" as replica identity')
    if info.predicate is not None:
        raise PgError("0A000", f'cannot use partial index "{name}" as replica identity')
    for attnum in info.columns[: info.key_count]:
        attribute = rel.attribute_by_number(attnum)
        if attribute is not None and not attribute.notnull:
            raise PgError(
                "42809",
                f'index "{name}" cannot be used as replica identity because column "{attribute.name}" is nullable',
            )
    return info
