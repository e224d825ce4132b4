"""ALTER COLUMN … IDENTITY, owner, storage parameters, row security, statistics, storage and compression.

Partitions share the identity of the partitioned table; ordinary children have none of their parents'.
"""

from __future__ import annotations

from pgrepl.catalog.facts import history as history_facts
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import children, indexes, not_nulls, not_supported
from pgrepl.catalog.facts.roles import resolve_role
from pgrepl.catalog.facts.sequences import identity_sequence
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_rewrite
from pgrepl.expr import stored
from pgrepl.expr.catalog_trees import index_info
from pgrepl.expr.rewrite.views import require_updatable
from pgrepl.expr.tree import Query
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber import history
from pgrepl.sql.nodes import AlterSeqStmt, AlterTableCmd, DefElem, RangeVar, TypeName
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.sequence import change_sequence, create_column_sequence, own_sequence
from pgrepl.statements.table import storage
from pgrepl.statements.table.alter.work import AlteredTable, WorkQueue, column_of, missing_column
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, column_of_type, compression_of, set_attribute, storage_of
from pgrepl.statements.table.constraints import Clauses, add_sequence
from pgrepl.statements.table.not_null import not_valid
from pgrepl.statements.table.relations import change_relation_owner
from pgrepl.statements.table.storage import refuse_partitioned_options
from pgrepl.types.builtin import access_methods, type_by_oid


def _refuse_place(rel: Relation, verb: str, recurse: bool, recursing: bool, what: str) -> None:
    if rel.kind == "p" and not recurse:
        raise PgError(
            "42P16", f"cannot {verb} {what} of only the partitioned table", hint="Do not specify the ONLY keyword."
        )
    if rel.is_partition and not recursing:
        raise PgError("42P16", f"cannot {verb} {what} of a partition")


def _partitions(session: Session, rel: Relation, recurse: bool) -> list[Relation]:
    if not recurse or rel.kind != "p":
        return []
    return [relation(session, oid) for oid in children(session, rel.oid)]


# --- ADD ----------------------------------------------------------------------------------------------------------


def add_identity(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel = work.session, work.relation(altered)
    name = cmd.name or ""
    assert cmd.constraint is not None
    attribute = rel.attribute(name)
    if attribute is None and name not in SYSTEM_COLUMNS:
        raise missing_column(rel, name)
    clauses = Clauses(session, rel.name, rel.namespace, rel.persistence, rel=rel)
    column = column_of_type(name, attribute.type if attribute is not None else 0, -1, 0)
    type_ = type_by_oid(column.type)
    written = TypeName(("pg_catalog", type_.name)) if type_ is not None else None
    plan = add_sequence(clauses, column, written, cmd.constraint.sequence_options, identity=True)
    create_column_sequence(session, plan)
    own_sequence(session, plan, rel)
    _mark_identity(session, rel, name, cmd.constraint.generated_when or "a", recurse=recurse)


def _mark_identity(
    session: Session, rel: Relation, name: str, identity: str, *, recurse: bool, recursing: bool = False
) -> None:
    """ALTER COLUMN … ADD GENERATED AS IDENTITY (ATExecAddIdentity)."""
    _refuse_place(rel, "add identity to", recurse, recursing, "a column")
    attribute = column_of(rel, name)
    what = f'column "{name}" of relation "{rel.name}"'
    if not attribute.notnull:
        raise PgError("55000", f"{what} must be declared NOT NULL before identity can be added")
    row = not_nulls(session, rel.oid).get(attribute.num)
    if row is not None and not row.convalidated:
        raise not_valid(rel, row)
    if attribute.identity:
        raise PgError("55000", f"{what} is already an identity column")
    if attribute.has_default:
        raise PgError("55000", f"{what} already has a default value")
    set_attribute(session, rel.oid, attribute.num, attidentity=identity)
    for part in _partitions(session, rel, recurse):
        _mark_identity(session, part, name, identity, recurse=recurse, recursing=True)


# --- SET ----------------------------------------------------------------------------------------------------------


def set_identity(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel = work.session, work.relation(altered)
    name = cmd.name or ""
    generated = [option for option in cmd.options if option.name == "generated"]
    sequence_options = tuple(option for option in cmd.options if option.name != "generated")
    attribute = rel.attribute(name)
    if attribute is None and name not in SYSTEM_COLUMNS:
        raise missing_column(rel, name)
    sequence = identity_sequence(session, rel.oid, attribute.num) if attribute is not None else 0
    if sequence:
        stmt = AlterSeqStmt(RangeVar(""), sequence_options)
        change_sequence(session, relation(session, sequence), stmt, identity=True)
    if len(generated) > 1:
        _refuse_place(rel, "change", recurse, False, "identity column")
        raise PgError("42601", "conflicting or redundant options")
    value = str(generated[0].value) if generated else None
    _change_identity(session, rel, name, value, recurse=recurse)


def _change_identity(
    session: Session, rel: Relation, name: str, identity: str | None, *, recurse: bool, recursing: bool = False
) -> None:
    """ALTER COLUMN … SET GENERATED (ATExecSetIdentity)."""
    _refuse_place(rel, "change", recurse, recursing, "identity column")
    attribute = column_of(rel, name)
    if not attribute.identity:
        raise PgError("55000", f'column "{name}" of relation "{rel.name}" is not an identity column')
    if identity is None:
        return
    set_attribute(session, rel.oid, attribute.num, attidentity=identity)
    for part in _partitions(session, rel, recurse):
        _change_identity(session, part, name, identity, recurse=recurse, recursing=True)


# --- DROP ---------------------------------------------------------------------------------------------------------


def drop_own_identity(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    drop_identity(work.session, work.relation(altered), cmd.name or "", missing_ok=cmd.missing_ok, recurse=recurse)


def drop_identity(
    session: Session,
    rel: Relation,
    name: str,
    *,
    missing_ok: bool = False,
    recurse: bool = True,
    recursing: bool = False,
) -> None:
    """ALTER COLUMN … DROP IDENTITY (ATExecDropIdentity)."""
    _refuse_place(rel, "drop identity from", recurse, recursing, "a column")
    attribute = column_of(rel, name)
    if not attribute.identity:
        text = f'column "{name}" of relation "{rel.name}" is not an identity column'
        if not missing_ok:
            raise PgError("55000", text)
        session.notice("NOTICE", f"{text}, skipping")
        return
    sequence = 0 if recursing else identity_sequence(session, rel.oid, attribute.num)
    set_attribute(session, rel.oid, attribute.num, attidentity="")
    for part in _partitions(session, rel, recurse):
        drop_identity(session, part, name, recurse=recurse, recursing=True)
    if sequence:
        address = ObjectAddress(PG_CLASS, sequence)
        forget_dependencies(session, address, refclassid=PG_CLASS, kind=Dependency.INTERNAL)
        drop_objects(session, [address], cascade=False, quietly=True)


_MOST_STATISTICS = 10000


# --- the relation -------------------------------------------------------------------------------------------------


def change_owner(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    assert cmd.new_owner is not None
    new_owner = resolve_role(work.session, cmd.new_owner)
    change_relation_owner(work.session, work.relation(altered), new_owner)


_SECURITY: dict[str, dict[str, object]] = {
    "ENABLE_RLS": {"relrowsecurity": True},
    "DISABLE_RLS": {"relrowsecurity": False},
    "FORCE_RLS": {"relforcerowsecurity": True},
    "NO_FORCE_RLS": {"relforcerowsecurity": False},
}


def set_row_security(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    store.update(work.session, pg_class, {"oid": altered.oid}, **_SECURITY[cmd.kind.name])


def set_parameters(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    reset = cmd.kind.name == "RESET_RELOPTIONS"
    set_storage_parameters(work.session, work.relation(altered), cmd.options, reset=reset)


def set_storage_parameters(
    session: Session, rel: Relation, options: tuple[DefElem, ...], *, reset: bool = False, replace: bool = False
) -> None:
    """SET and RESET (…) of a relation (ATExecSetRelOptions); `replace`: it has only these from now on."""
    if not options and not replace:
        return
    old = None if replace else rel.options
    texts = storage.transform(old, options, namespaces=storage.NAMESPACES, reset=reset)
    if rel.kind in ("r", "m"):
        storage.validate(texts, storage.HEAP)
    elif rel.kind == "p":
        refuse_partitioned_options(texts)
    elif rel.kind == "v":
        storage.validate(texts, storage.VIEW)
        if any(text.startswith("check_option=") for text in texts):
            _require_updatable(session, rel.oid)
    elif rel.kind in ("i", "I"):
        method = access_methods.get(rel.access_method)
        storage.validate(texts, method.name if method is not None else "")
    else:
        raise PgError("42809", f'cannot set options for relation "{rel.name}"', detail=not_supported(rel.kind))
    store.update(session, pg_class, {"oid": rel.oid}, reloptions=texts or None)
    if any(text.startswith(history_facts.OPTION) for text in {*texts} ^ {*(rel.options or ())}):
        history.follow_parameter(session, rel)


def _require_updatable(session: Session, view: int) -> None:
    row = store.one(session, pg_rewrite, ev_class=view)
    assert row is not None
    query = stored.from_json(row.ev_action, session)
    assert isinstance(query, Query)
    require_updatable(query)


# --- a column -----------------------------------------------------------------------------------------------------


def set_statistics(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """ALTER COLUMN … SET STATISTICS (ATExecSetStatistics)."""
    session, rel = work.session, work.relation(altered)
    if cmd.name is None and rel.kind not in ("i", "I"):
        raise PgError("0A000", "cannot refer to non-index column by number")
    target = _statistics_target(session, cmd.value)
    attribute = _column(rel, cmd)
    if rel.kind in ("i", "I"):
        _refuse_index_statistics(session, rel, attribute)
    set_attribute(session, rel.oid, attribute.num, attstattarget=target)


def _column(rel: Relation, cmd: AlterTableCmd) -> Attribute:
    if cmd.name is not None:
        return column_of(rel, cmd.name)
    attribute = rel.attribute_by_number(cmd.number or 0)
    if attribute is None or attribute.dropped:
        raise PgError("42703", f'column number {cmd.number} of relation "{rel.name}" does not exist')
    return attribute


def _statistics_target(session: Session, value: int | str | None) -> int | None:
    if value is None or value == -1:
        return None
    target = int(value)
    if target < 0:
        raise PgError("22023", f"statistics target {target} is too low")
    if target > _MOST_STATISTICS:
        session.notice("WARNING", f"lowering statistics target to {_MOST_STATISTICS}", sqlstate="22023")
        return _MOST_STATISTICS
    return target


def _refuse_index_statistics(session: Session, rel: Relation, attribute: Attribute) -> None:
    info = index_info(session, rel.oid)
    if attribute.num > info.key_count:
        raise PgError("0A000", f'cannot alter statistics on included column "{attribute.name}" of index "{rel.name}"')
    if info.columns[attribute.num - 1] != 0:
        raise PgError(
            "0A000",
            f'cannot alter statistics on non-expression column "{attribute.name}" of index "{rel.name}"',
            hint="Alter statistics on table column instead.",
        )


def set_column_options(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    rel = work.relation(altered)
    attribute = column_of(rel, cmd.name or "")
    reset = cmd.kind.name == "RESET_OPTIONS"
    texts = storage.transform(attribute.options, cmd.options, reset=reset)
    storage.validate(texts, storage.ATTRIBUTE)
    set_attribute(work.session, rel.oid, attribute.num, attoptions=texts or None)


def set_storage(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """Sets a column's storage or compression, in the indexes that have it, too (SetIndexStorageProperties)."""
    session, rel = work.session, work.relation(altered)
    attribute, word = column_of(rel, cmd.name or ""), str(cmd.value)
    if cmd.kind.name == "SET_STORAGE":
        values = {"attstorage": storage_of(session, attribute.type, word)}
    else:
        values = {"attcompression": compression_of(session, attribute.type, word)}
    set_attribute(session, rel.oid, attribute.num, **values)
    for row in indexes(session, rel.oid):
        if attribute.num in row.indkey:
            set_attribute(session, row.indexrelid, list(row.indkey).index(attribute.num) + 1, **values)
