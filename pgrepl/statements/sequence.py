"""CREATE SEQUENCE and ALTER SEQUENCE; the sequences of serial and identity columns."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog import store
from pgrepl.catalog.acl import check_relation_owner
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.namespace import schema_for_creation
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.relkind import not_supported, open_table
from pgrepl.catalog.sequence_positions import created, new_relfilenumber
from pgrepl.catalog.sequences import owner_column
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_sequence
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterSeqStmt, CreateSeqStmt, RangeVar
from pgrepl.statements.sequence_options import Sequence, sequence_options
from pgrepl.statements.table.columns import SYSTEM_COLUMNS
from pgrepl.statements.table.context import ColumnSequence
from pgrepl.statements.table.creation import creation_schema
from pgrepl.statements.table.heap import create_relation, simple_column
from pgrepl.statements.table.permissions import refuse_catalog
from pgrepl.statements.table.position import named_relation, named_relation_or_none
from pgrepl.types.oids import BOOL, INT8


def create_sequence(stmt: CreateSeqStmt, session: Session) -> Result:
    name = replace(stmt.relation, location=-1)
    if stmt.if_not_exists:
        namespace, _ = creation_schema(session, name)
        if oid_in_schema(session, namespace, name.name) is not None:
            session.notice("NOTICE", f'relation "{name.name}" already exists, skipping', sqlstate="42P07")
            return Result("CREATE SEQUENCE")
    options, owned_by = sequence_options(session, stmt.options)
    namespace, persistence = creation_schema(session, name)
    oid = _store(session, name.name, namespace, options, persistence, 0)
    if owned_by:
        _set_owner_column(session, relation(session, oid), owned_by, Dependency.AUTO)
    return Result("CREATE SEQUENCE")


def _store(session: Session, name: str, namespace: int, options: Sequence, persistence: str, owner: int) -> int:
    columns = [
        simple_column("last_value", INT8, not_null=True),
        simple_column("log_cnt", INT8, not_null=True),
        simple_column("is_called", BOOL, not_null=True),
    ]
    for column in columns:
        column.storage = "p"
    oid = create_relation(session, name, namespace, "S", columns, persistence=persistence, owner=owner)
    store.insert(session, pg_sequence, seqrelid=oid, **_values(options))
    created(session, oid)
    return oid


def _values(options: Sequence) -> dict[str, object]:
    return {
        "seqtypid": options.type,
        "seqstart": options.start,
        "seqincrement": options.increment,
        "seqmax": options.maximum,
        "seqmin": options.minimum,
        "seqcache": options.cache,
        "seqcycle": options.cycle,
        "last_value": options.last_value,
        "is_called": options.is_called,
    }


def sequence_of(session: Session, oid: int) -> Sequence:
    row = store.one(session, pg_sequence, seqrelid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for sequence {oid}")
    return Sequence(
        row.seqtypid,
        row.seqstart,
        row.seqincrement,
        row.seqmax,
        row.seqmin,
        row.seqcache,
        bool(row.seqcycle),
        row.last_value,
        bool(row.is_called),
    )


def alter_sequence(stmt: AlterSeqStmt, session: Session) -> Result:
    rel = named_relation_or_none(session, stmt.relation)
    if rel is None:
        if not stmt.missing_ok:
            named_relation(session, stmt.relation)
        session.notice("NOTICE", f'relation "{stmt.relation.name}" does not exist, skipping')
        return Result("ALTER SEQUENCE")
    check_relation_owner(session, rel)
    refuse_catalog(rel, stmt.relation.name)
    if rel.kind != "S":
        raise PgError("42809", f'cannot open relation "{rel.name}"', detail=not_supported(rel.kind))
    change_sequence(session, rel, stmt, identity=False)
    return Result("ALTER SEQUENCE")


def change_sequence(session: Session, rel: Relation, stmt: AlterSeqStmt, *, identity: bool) -> None:
    """As AlterSequence does."""
    options, owned_by = sequence_options(session, stmt.options, sequence_of(session, rel.oid), identity=identity)
    if owned_by:
        _set_owner_column(session, rel, owned_by, Dependency.INTERNAL if identity else Dependency.AUTO)
    if any(option.name != "owned_by" for option in stmt.options):
        new_relfilenumber(session, rel.oid)
        store.update(session, pg_sequence, {"seqrelid": rel.oid}, **_values(options))


# --- owned by a column --------------------------------------------------------------------------------------------


def _set_owner_column(session: Session, rel: Relation, owned_by: tuple[str, ...], kind: Dependency) -> None:
    """OWNED BY table.column or NONE, as process_owned_by does."""
    target: ObjectAddress | None = None
    if len(owned_by) == 1:
        if owned_by[0] != "none":
            raise PgError(
                "42601",
                "invalid OWNED BY option",
                hint="Specify OWNED BY table.column or OWNED BY NONE.",
            )
    else:
        *parts, column = owned_by
        catalog, schema, name = (None, None, *parts)[-3:]
        table = open_table(session, RangeVar(str(name), schema, catalog))
        target = _owner_target(rel, table, column)
    if kind is Dependency.AUTO:
        owner = owner_column(session, rel.oid, Dependency.INTERNAL)
        if owner is not None:
            raise PgError(
                "0A000",
                "cannot change ownership of identity sequence",
                detail=f'Sequence "{rel.name}" is linked to table "{relation(session, owner[0]).name}".',
            )
    self = ObjectAddress(PG_CLASS, rel.oid)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=kind)
    if target is not None:
        record_dependency(session, self, target, kind)


def _owner_target(rel: Relation, table: Relation, column: str) -> ObjectAddress:
    if table.kind not in ("r", "f", "v", "p"):
        raise PgError("42809", f'sequence cannot be owned by relation "{table.name}"', detail=not_supported(table.kind))
    if rel.owner != table.owner:
        raise PgError("55000", "sequence must have same owner as table it is linked to")
    if rel.namespace != table.namespace:
        raise PgError("55000", "sequence must be in same schema as table it is linked to")
    attribute = table.attribute(column)
    attnum = attribute.num if attribute is not None else SYSTEM_COLUMNS.get(column)
    if attnum is None:
        raise PgError("42703", f'column "{column}" of relation "{table.name}" does not exist')
    return ObjectAddress(PG_CLASS, table.oid, attnum)


# --- serial and identity columns ----------------------------------------------------------------------------------


def create_column_sequence(session: Session, plan: ColumnSequence) -> None:
    """Create the sequence of a new serial or identity column, before its table exists."""
    options, owned_by = sequence_options(session, plan.options, identity=plan.identity)
    namespace = schema_for_creation(session, plan.schema)
    plan.oid = _store(session, plan.name, namespace, options, plan.persistence, plan.owner)
    if owned_by:
        kind = Dependency.INTERNAL if plan.identity else Dependency.AUTO
        _set_owner_column(session, relation(session, plan.oid), owned_by, kind)


def own_sequence(session: Session, plan: ColumnSequence, table: Relation) -> None:
    """Make the sequence belong to its column, once that exists."""
    rel = relation(session, plan.oid)
    kind = Dependency.INTERNAL if plan.identity else Dependency.AUTO
    target = _owner_target(rel, table, plan.column)
    record_dependency(session, ObjectAddress(PG_CLASS, rel.oid), target, kind)
