"""RENAME, SET SCHEMA, OWNER TO and DROP of relations, and whether the role may change one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pgrepl.catalog.facts.acl import check_relation_owner, is_owner
from pgrepl.catalog.facts.depend import Dependency
from pgrepl.catalog.facts.namespace import check_create, explicit_schema, is_temporary, schema_name, schema_row
from pgrepl.catalog.facts.privileges import with_new_owner
from pgrepl.catalog.facts.relation import Relation, find_relation, oid_in_schema, range_var, relation
from pgrepl.catalog.facts.relation_parts import (
    children,
    constraint_named,
    constraint_of_index,
    constraint_row,
    indexes,
    not_supported,
)
from pgrepl.catalog.facts.roles import check_can_set_role, is_superuser
from pgrepl.catalog.facts.sequences import owner_column, sequences_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_NAMESPACE, TOAST_NAMESPACE, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_depend
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterObjectSchemaStmt, DropStmt, ObjectType, RangeVar, RenameStmt
from pgrepl.sql.statements import command_tag
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, name_is_free, set_attribute
from pgrepl.statements.table.constraints import already_exists, update_constraint
from pgrepl.statements.table.names import creation_schema, inheritors_with_parents


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


# --- permissions ------------------------------------------------------------------------------------------------------


def refuse_catalog(rel: Relation, name: str) -> None:
    """System catalogs cannot be changed (IsSystemClass without allow_system_table_mods)."""
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{name}" is a system catalog')


_KINDS = {
    ObjectType.SEQUENCE: ("S", "a sequence"),
    ObjectType.VIEW: ("v", "a view"),
    ObjectType.MATVIEW: ("m", "a materialized view"),
    ObjectType.FOREIGN_TABLE: ("f", "a foreign table"),
    ObjectType.INDEX: ("iI", "an index"),
}


def check_alterable(session: Session, rel: Relation, kind: ObjectType, name: str, *, rename: bool = False) -> None:
    """As RangeVarCallbackForAlterRelation does: ALTER TABLE is for all kinds of relations, the others for their own."""
    check_relation_owner(session, rel)
    refuse_catalog(rel, name)
    if rename:
        check_create(session, rel.namespace)
    if kind is ObjectType.TYPE and rel.kind != "c":
        raise PgError("42809", f'"{name}" is not a composite type')
    if kind is not ObjectType.TYPE and rel.kind == "c":
        raise PgError("42809", f'"{name}" is a composite type', hint="Use ALTER TYPE instead.")
    if kind in _KINDS and not (rename and kind is ObjectType.INDEX):
        kinds, words = _KINDS[kind]
        if rel.kind not in kinds:
            raise PgError("42809", f'"{name}" is not {words}')


def refuse_owned_sequence(session: Session, rel: Relation, message: str) -> None:
    """The sequence of a serial or identity column changes owner and schema only with its table."""
    for kind in (Dependency.AUTO, Dependency.INTERNAL):
        owner = owner_column(session, rel.oid, kind)
        if owner is not None:
            table = relation(session, owner[0]).name
            raise PgError("0A000", message, detail=f'Sequence "{rel.name}" is linked to table "{table}".')


def _named(session: Session, name: RangeVar | None, *, missing_ok: bool) -> Relation | None:
    assert name is not None
    if not missing_ok:
        return named_relation(session, name)
    rel = named_relation_or_none(session, name)
    if rel is None:
        session.notice("NOTICE", f'relation "{name.name}" does not exist, skipping')
    return rel


# --- relations ----------------------------------------------------------------------------------------------------


def rename(stmt: RenameStmt, session: Session) -> Result:
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None and stmt.relation is not None:
        check_alterable(session, rel, stmt.kind, stmt.relation.name, rename=True)
        rename_relation(session, rel, stmt.new_name)
    return Result(command_tag(stmt))


def rename_relation(session: Session, rel: Relation, name: str) -> None:
    """As RenameRelationInternal does: the constraint of an index is renamed with it."""
    if oid_in_schema(session, rel.namespace, name) is not None:
        raise PgError("42P07", f'relation "{name}" already exists')
    store.update(session, pg_class, {"oid": rel.oid}, relname=name)
    if rel.kind in ("i", "I"):
        constraint = constraint_of_index(session, rel.oid)
        if constraint:
            _rename_row(session, constraint, name)


def _rename_row(session: Session, oid: int, name: str) -> None:
    """Renames a constraint's row (RenameConstraintById)."""
    row = constraint_row(session, oid)
    if constraint_named(session, row.conrelid, name) is not None:
        raise already_exists(name, relation(session, row.conrelid).name)
    update_constraint(session, oid, conname=name)


# --- columns ------------------------------------------------------------------------------------------------------


def rename_part(stmt: RenameStmt, session: Session) -> Result:
    """A column or a constraint."""
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None and stmt.relation is not None:
        _check_renameable(session, rel)
        rename = _rename_constraint if stmt.kind is ObjectType.TABCONSTRAINT else _rename_column
        rename(session, rel, stmt.name, stmt.new_name, recurse=stmt.relation.inh)
    return Result(command_tag(stmt))


def _check_renameable(session: Session, rel: Relation) -> None:
    """Raises for a relation whose columns cannot be renamed (renameatt_check)."""
    if rel.kind not in ("r", "v", "m", "c", "i", "I", "f", "p"):
        raise PgError("42809", f'cannot rename columns of relation "{rel.name}"', detail=not_supported(rel.kind))
    check_relation_owner(session, rel)
    refuse_catalog(rel, rel.name)


def _rename_column(
    session: Session, rel: Relation, old: str, new: str, *, recurse: bool, expected_parents: int = 0
) -> None:
    """Renames a column, in children too (renameatt_internal)."""
    _check_renameable(session, rel)
    if recurse:
        for oid, parents in inheritors_with_parents(session, rel.oid).items():
            if oid != rel.oid:
                child = relation(session, oid)
                _rename_column(session, child, old, new, recurse=False, expected_parents=parents)
    elif expected_parents == 0 and children(session, rel.oid):
        raise PgError("42P16", f'inherited column "{old}" must be renamed in child tables too')
    attribute = rel.attribute(old)
    if attribute is None:
        if old in SYSTEM_COLUMNS and rel.kind in ("r", "p", "m", "f"):
            raise PgError("0A000", f'cannot rename system column "{old}"')
        raise PgError("42703", f'column "{old}" does not exist')
    if attribute.inhcount > expected_parents:
        raise PgError("42P16", f'cannot rename inherited column "{old}"')
    name_is_free(session, rel, new)
    set_attribute(session, rel.oid, attribute.num, attname=new)


# --- constraints --------------------------------------------------------------------------------------------------


def _rename_constraint(
    session: Session, rel: Relation, old: str, new: str, *, recurse: bool, expected_parents: int = 0
) -> None:
    """Renames a constraint, in children too (rename_constraint_internal)."""
    _check_renameable(session, rel)
    row = constraint_named(session, rel.oid, old)
    if row is None:
        raise PgError("42704", f'constraint "{old}" for table "{rel.name}" does not exist')
    if row.contype in "cn" and not row.connoinherit:
        if recurse:
            for oid, parents in inheritors_with_parents(session, rel.oid).items():
                if oid != rel.oid:
                    child = relation(session, oid)
                    _rename_constraint(session, child, old, new, recurse=False, expected_parents=parents)
        elif expected_parents == 0 and children(session, rel.oid):
            raise PgError("42P16", f'inherited constraint "{old}" must be renamed in child tables too')
        if row.coninhcount > expected_parents:
            raise PgError("42P16", f'cannot rename inherited constraint "{old}"')
    if row.conindid and row.contype in ("p", "u", "x"):
        rename_relation(session, relation(session, row.conindid), new)
    else:
        _rename_row(session, row.oid, new)


# --- SET SCHEMA ---------------------------------------------------------------------------------------------------


def set_schema(stmt: AlterObjectSchemaStmt, session: Session) -> Result:
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None:
        check_alterable(session, rel, stmt.kind, stmt.relation.name)
        _move(session, rel, stmt.relation.name, stmt.new_schema)
    return Result(command_tag(stmt))


def _move(session: Session, rel: Relation, name: str, schema: str) -> None:
    """As AlterTableNamespace does: indexes, owned sequences and constraints move along."""
    if rel.kind in ("i", "I"):
        raise PgError(
            "42809", f'cannot change schema of index "{name}"', hint="Change the schema of the table instead."
        )
    if rel.kind == "S":
        refuse_owned_sequence(session, rel, "cannot move an owned sequence into another schema")
    namespace, _ = creation_schema(session, RangeVar(rel.name, schema), location=False)
    if is_temporary(schema_name(session, namespace)) or is_temporary(rel.schema):
        raise PgError("0A000", "cannot move objects into or out of temporary schemas")
    if TOAST_NAMESPACE in (namespace, rel.namespace):
        raise PgError("0A000", "cannot move objects into or out of TOAST schema")
    if namespace == rel.namespace:
        return
    move_relation(session, rel, namespace)


def move_relation(session: Session, rel: Relation, namespace: int) -> None:
    _move_class(session, rel, namespace)
    for index in indexes(session, rel.oid):
        _move_class(session, relation(session, index.indexrelid), namespace)
    for sequence, _, _ in sequences_of(session, rel.oid):
        _move_class(session, relation(session, sequence), namespace)
    store.update(session, pg_constraint, {"conrelid": rel.oid, "connamespace": rel.namespace}, connamespace=namespace)


def _move_class(session: Session, rel: Relation, namespace: int) -> None:
    if oid_in_schema(session, namespace, rel.name) is not None:
        raise PgError("42P07", f'relation "{rel.name}" already exists in schema "{schema_name(session, namespace)}"')
    store.update(session, pg_class, {"oid": rel.oid}, relnamespace=namespace)
    where = {
        "datid": session.database_oid,
        "classid": PG_CLASS,
        "objid": rel.oid,
        "objsubid": 0,
        "refclassid": PG_NAMESPACE,
        "refobjid": rel.namespace,
    }
    store.update(session, pg_depend, where, refobjid=namespace)


# --- owner ------------------------------------------------------------------------------------------------------------


_INDEX_HINT = "Change the ownership of the index's table instead."


def reassign_relation(session: Session, row: pg_class, new_owner: int) -> None:
    """For REASSIGN OWNED, which has checked privileges already and visits sequences and indexes by themselves."""
    change_relation_owner(session, relation(session, row.oid), new_owner, recursing=True)


def change_relation_owner(session: Session, rel: Relation, new_owner: int, *, recursing: bool = False) -> None:
    """OWNER TO, with indexes and sequences (ATExecChangeOwner)."""
    if rel.kind == "i" and not recursing:
        if rel.owner != new_owner:
            session.notice("WARNING", f'cannot change owner of index "{rel.name}"', sqlstate="42809", hint=_INDEX_HINT)
        return
    if not recursing:
        _refuse_kind(session, rel, new_owner)
    if rel.owner == new_owner:
        return
    if not recursing and not is_superuser(session):
        check_relation_owner(session, rel)
        check_can_set_role(session, session.role, new_owner)
        check_create(session, rel.namespace, new_owner)
    acl = None if rel.acl is None else with_new_owner(list(rel.acl), rel.owner, new_owner)
    store.update(session, pg_class, {"oid": rel.oid}, relowner=new_owner, relacl=acl)
    for attribute in rel.columns:
        if attribute.acl is not None:
            changed = with_new_owner(list(attribute.acl), rel.owner, new_owner)
            set_attribute(session, rel.oid, attribute.num, attacl=changed)
    if rel.kind in ("r", "p", "m"):
        for index in indexes(session, rel.oid):
            change_relation_owner(session, relation(session, index.indexrelid), new_owner, recursing=True)
    for sequence, _, _ in sequences_of(session, rel.oid):
        change_relation_owner(session, relation(session, sequence), new_owner, recursing=True)


def _refuse_kind(session: Session, rel: Relation, new_owner: int) -> None:
    if rel.kind == "I":
        raise PgError("42809", f'cannot change owner of index "{rel.name}"', hint=_INDEX_HINT)
    if rel.kind == "S":
        if rel.owner == new_owner:
            return
        refuse_owned_sequence(session, rel, f'cannot change owner of sequence "{rel.name}"')
    elif rel.kind not in ("r", "v", "m", "f", "p"):
        raise PgError("42809", f'cannot change owner of relation "{rel.name}"', detail=not_supported(rel.kind))


# --- drop -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of messages for a kind of relation."""

    kind: str
    noun: str
    article: str
    sqlstate: str = "42P01"

    @property
    def hint(self) -> str:
        return f"Use DROP {self.noun.upper()} to remove {self.article} {self.noun}."


_TABLE = _Words("r", "table", "a")
_INDEX = _Words("i", "index", "an", "42704")
_WORDS = {
    "r": _TABLE,
    "p": _TABLE,
    "S": _Words("S", "sequence", "a"),
    "v": _Words("v", "view", "a"),
    "m": _Words("m", "materialized view", "a"),
    "i": _INDEX,
    "I": _INDEX,
    "c": _Words("c", "type", "a", "42704"),
    "f": _Words("f", "foreign table", "a", "42704"),
}
_WANTED = {
    ObjectType.TABLE: _WORDS["r"],
    ObjectType.SEQUENCE: _WORDS["S"],
    ObjectType.VIEW: _WORDS["v"],
    ObjectType.MATVIEW: _WORDS["m"],
    ObjectType.INDEX: _WORDS["i"],
    ObjectType.FOREIGN_TABLE: _WORDS["f"],
}


def drop_relations(stmt: DropStmt, session: Session) -> Result:
    """As RemoveRelations does: all are found before any is dropped."""
    wanted = _WANTED[stmt.kind]
    if stmt.concurrently:
        require_no_block(session, "DROP INDEX CONCURRENTLY")
        if len(stmt.names) != 1:
            raise PgError("0A000", "DROP INDEX CONCURRENTLY does not support dropping multiple objects")
        if stmt.cascade:
            raise PgError("0A000", "DROP INDEX CONCURRENTLY does not support CASCADE")
    addresses: list[ObjectAddress] = []
    for parts in stmt.names:
        name = range_var(parts)
        rel = find_relation(session, name, missing_ok=True)
        if rel is None:
            _missing(session, name, wanted, missing_ok=stmt.missing_ok)
            continue
        _check(session, rel, name.name, wanted)
        if stmt.concurrently and rel.kind == "I":
            raise PgError("0A000", f'cannot drop partitioned index "{name.name}" concurrently')
        addresses.append(ObjectAddress(PG_CLASS, rel.oid))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result(command_tag(stmt))


def _missing(session: Session, name: RangeVar, wanted: _Words, *, missing_ok: bool) -> None:
    """The error, or the NOTICE, for a relation that is not there (DropErrorMsgNonExistent)."""
    if name.schema is not None and not explicit_schema(session, name.schema, missing_ok=True):
        text, sqlstate = f'schema "{name.schema}" does not exist', "3F000"
    else:
        text, sqlstate = f'{wanted.noun} "{name.name}" does not exist', wanted.sqlstate
    if not missing_ok:
        raise PgError(sqlstate, text)
    session.notice("NOTICE", f"{text}, skipping")


def _check(session: Session, rel: Relation, name: str, wanted: _Words) -> None:
    """As RangeVarCallbackForDropRelation does: the owner of the table or of its schema may drop it."""
    actual = _WORDS.get(rel.kind)
    if actual is not wanted:
        raise PgError(
            "42809", f'"{name}" is not {wanted.article} {wanted.noun}', hint=actual.hint if actual is not None else None
        )
    row = schema_row(session, rel.namespace)
    if row is None or not is_owner(session, row.nspowner):
        check_relation_owner(session, rel)
    refuse_catalog(rel, name)
