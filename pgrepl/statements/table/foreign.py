"""FOREIGN KEY: the columns of both sides, whether they can be compared, and the rows in pg_constraint.

Of or to a partitioned table there is one for each partition on either side, each tied to the row above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pgrepl.catalog.facts.acl import has_column_privilege, has_table_privilege, permission_denied
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_row, constraints_of, open_table
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import can_coerce
from pgrepl.expr.analyse.sorting import EQUAL, family_member
from pgrepl.expr.catalog_trees import GIST, IndexInfo, attnum_map, index_info, index_infos
from pgrepl.expr.partition_constraint import partition_desc
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import KeysExist, Requirement
from pgrepl.sql.nodes import Constraint
from pgrepl.statements.deletion import check_at_commit, drop_objects
from pgrepl.statements.index.store import partition_index
from pgrepl.statements.table.columns import SYSTEM_COLUMNS
from pgrepl.statements.table.constraints import (
    ForeignKeyFields,
    already_exists,
    set_parent_constraint,
    store_constraint,
    update_constraint,
)
from pgrepl.statements.table.names import choose_constraint_name, constraint_on, name_addition
from pgrepl.types.builtin import opclass_by_oid


class KeySide(Enum):
    """The sides of a foreign key that a row is for: both for the key itself, one for a partition."""

    BOTH = "both"
    REFERENCED = "referenced"
    REFERENCING = "referencing"


@dataclass(frozen=True, slots=True)
class KeySpec:
    """The fields that all rows of one foreign key share."""

    name: str | None
    columns: tuple[str, ...]  # of the referencing table, for names
    on_update: str
    on_delete: str
    match: str
    deferrable: bool
    deferred: bool
    valid: bool
    validate: bool
    enforced: bool = True
    period: bool = False


@dataclass(frozen=True, slots=True)
class KeyColumns:
    referenced: tuple[int, ...]
    referencing: tuple[int, ...]
    delete_set: tuple[int, ...] = ()


def store_key(
    session: Session,
    side: KeySide,
    spec: KeySpec,
    wanted: str,
    rel: Relation,
    pk_rel: Relation,
    index: int,
    parent: int,
    columns: KeyColumns,
) -> tuple[int, KeySpec]:
    """Store one row of a foreign key, as addFkConstraint does. Returns its OID, and the spec with a name."""
    if pk_rel.kind not in ("r", "p"):
        raise PgError("42809", f'referenced relation "{pk_rel.name}" is not a table')
    name = wanted
    if constraint_on(session, rel.oid, wanted):
        if session.settings.release >= 18:
            name = choose_constraint_name(session, wanted, None, "", rel.namespace)
        else:
            name = choose_constraint_name(session, rel.name, name_addition(spec.columns), "fkey", rel.namespace)
    if spec.name is None:
        spec = replace(spec, name=name)
    oid = store_constraint(
        session,
        rel,
        name,
        "f",
        columns=columns.referencing,
        deferrable=spec.deferrable,
        deferred=spec.deferred,
        valid=spec.valid,
        parent=parent,
        foreign=ForeignKeyFields(
            pk_rel.oid, columns.referenced, index, spec.on_update, spec.on_delete, spec.match, columns.delete_set
        ),
        local=not parent,
        inhcount=1 if parent else 0,
        no_inherit=not parent and rel.kind != "p",
        enforced=spec.enforced,
        period=spec.period,
    )
    if parent:
        self, whole = ObjectAddress(PG_CONSTRAINT, oid), ObjectAddress(PG_CONSTRAINT, parent)
        if side is KeySide.REFERENCED:
            record_dependency(session, self, whole, Dependency.INTERNAL)
        else:
            record_dependency(session, self, whole, Dependency.PARTITION_PRI)
            record_dependency(session, self, ObjectAddress(PG_CLASS, rel.oid), Dependency.PARTITION_SEC)
    return oid, spec


def recurse_referenced(
    session: Session, spec: KeySpec, rel: Relation, pk_rel: Relation, index: int, parent: int, columns: KeyColumns
) -> None:
    """A row for each partition of the referenced table, as addFkRecurseReferenced makes them."""
    if pk_rel.kind != "p":
        return
    for oid in partition_desc(session, pk_rel.oid).oids:
        part = relation(session, oid)
        numbers = attnum_map(part, pk_rel)
        mapped = replace(columns, referenced=tuple(numbers[number] for number in columns.referenced))
        part_index = partition_index(session, oid, index)
        assert spec.name is not None
        row, _ = store_key(session, KeySide.REFERENCED, spec, spec.name, rel, part, part_index, parent, mapped)
        recurse_referenced(session, spec, rel, part, part_index, row, mapped)


def recurse_referencing(
    session: Session,
    spec: KeySpec,
    rel: Relation,
    pk_rel: Relation,
    index: int,
    parent: int,
    columns: KeyColumns,
    pending: list[Requirement] | None,
) -> None:
    """A row for each partition of the referencing table, as addFkRecurseReferencing makes them."""
    if rel.kind == "r":
        if pending is not None and spec.validate:
            pending.append(KeysExist(rel.oid, parent))
        return

    for oid in partition_desc(session, rel.oid).oids:
        part = relation(session, oid)
        if part.oid == pk_rel.oid:
            # the referenced table is open, and every partition of the referencing one must not be (CheckTableNotInUse)
            raise PgError(
                "55006", f'cannot ALTER TABLE "{part.name}" because it is being used by active queries in this session'
            )
        numbers = attnum_map(part, rel)
        mapped = replace(columns, referencing=tuple(numbers[number] for number in columns.referencing))
        if attach_existing_key(session, part, parent, mapped, pending):
            continue
        assert spec.name is not None
        row, _ = store_key(session, KeySide.REFERENCING, spec, spec.name, part, pk_rel, index, parent, mapped)
        recurse_referencing(session, spec, part, pk_rel, index, row, mapped, pending)


def attach_existing_key(
    session: Session, partition: Relation, parent: int, columns: KeyColumns, pending: list[Requirement] | None
) -> bool:
    """Tie a foreign key that the partition has already to its parent's, as tryAttachPartitionForeignKey does."""
    whole = constraint_row(session, parent)
    for row in constraints_of(session, partition.oid, "f"):
        if not _same_key(row, whole, columns) or not (row.convalidated or session.settings.release >= 18):
            continue
        set_parent_constraint(session, row.oid, parent, partition.oid)
        if relation(session, row.confrelid).kind == "p":
            _drop_parts(session, row)
        if whole.convalidated and not row.convalidated and pending is not None:
            validate_key(session, row, row.confrelid, pending)
        return True
    return False


def _same_key(row: pg_constraint, whole: pg_constraint, columns: KeyColumns) -> bool:
    return (
        row.confrelid == whole.confrelid
        and tuple(row.conkey) == columns.referencing
        and tuple(row.confkey or ()) == columns.referenced
        and not row.conparentid
        and (bool(row.conenforced), bool(row.conperiod)) == (bool(whole.conenforced), bool(whole.conperiod))
        and (row.condeferrable, row.condeferred, row.confupdtype, row.confdeltype, row.confmatchtype)
        == (whole.condeferrable, whole.condeferred, whole.confupdtype, whole.confdeltype, whole.confmatchtype)
    )


def validate_key(session: Session, row: pg_constraint, referenced: int, pending: list[Requirement]) -> None:
    """Mark a foreign key as valid, with its rows for partitions, and require that all keys exist in the table
    `referenced` (QueueFKConstraintValidation)."""
    rel = relation(session, row.conrelid)
    if rel.kind == "r" and row.confrelid == referenced:
        pending.append(KeysExist(rel.oid, row.oid))
    for part in store.rows(session, pg_constraint, conparentid=row.oid):
        if not part.convalidated:
            validate_key(session, part, referenced, pending)
    update_constraint(session, row.oid, convalidated=True)


def _drop_parts(session: Session, row: pg_constraint) -> None:
    """Drop a key's rows for the partitions of the referenced table: its new parent has such rows."""
    addresses = []
    for part in constraints_of(session, row.conrelid, "f"):
        if part.conparentid == row.oid:
            address = ObjectAddress(PG_CONSTRAINT, part.oid)
            forget_dependencies(session, address, refclassid=PG_CONSTRAINT, kind=Dependency.INTERNAL)
            addresses.append(address)
    if addresses:
        drop_objects(session, addresses, cascade=False, quietly=True)


# --- foreign ----------------------------------------------------------------------------------------------------------


MAX_KEYS = 32


def add_foreign_key(
    session: Session,
    rel: Relation,
    constraint: Constraint,
    *,
    recurse: bool,
    valid: bool,
    validate: bool,
    pending: list[Requirement],
    referenced: int = 0,
) -> None:
    """As ATAddForeignKeyConstraint does; the requirement on existing rows is added to `pending`. `referenced` is the
    referenced table's OID, if it is known."""
    name = _name(session, rel, constraint)
    if referenced:
        pk_rel = relation(session, referenced)
    else:
        assert constraint.pk_table is not None
        pk_rel = open_table(session, replace(constraint.pk_table, location=-1))
    not_valid = constraint.enforced and not validate and not valid and session.settings.release < 18
    _refuse_relations(rel, pk_rel, recurse=recurse, not_valid=not_valid)
    columns, key, index = _columns(session, rel, pk_rel, constraint)
    _check_period(session, constraint, index)
    _check_permission(session, pk_rel, columns.referenced)
    _refuse_generated(rel, columns.referencing, constraint)
    if len(columns.referencing) != len(columns.referenced):
        raise PgError("42830", "number of referencing and referenced columns for foreign key disagree")
    _check_comparable(session, name, rel, pk_rel, columns, key)
    spec = KeySpec(
        name,
        constraint.fk_columns,
        constraint.on_update,
        constraint.on_delete,
        constraint.match,
        constraint.deferrable,
        constraint.initially_deferred,
        valid and constraint.enforced,
        validate and constraint.enforced,
        constraint.enforced,
        constraint.fk_period,
    )
    oid, spec = store_key(session, KeySide.BOTH, spec, name, rel, pk_rel, index, 0, columns)
    recurse_referenced(session, spec, rel, pk_rel, index, oid, columns)
    recurse_referencing(session, spec, rel, pk_rel, index, oid, columns, pending)
    if rel.persistence == "t":
        check_at_commit(session)


def _check_period(session: Session, constraint: Constraint, index: int) -> None:
    """Both sides have a PERIOD, or neither."""
    temporal, period = index_info(session, index).is_temporal, constraint.fk_period
    there = constraint.pk_period if constraint.pk_columns else temporal
    if period and not there:
        raise PgError("42830", "foreign key uses PERIOD on the referencing table but not the referenced table")
    if there and not period:
        raise PgError("42830", "foreign key uses PERIOD on the referenced table but not the referencing table")
    if temporal and not period:
        message = "foreign key must use PERIOD when referencing a primary key using WITHOUT OVERLAPS"
        raise PgError("42830", message)
    for action, what in ((constraint.on_update, "ON UPDATE"), (constraint.on_delete, "ON DELETE")):
        if period and action != "a":
            raise PgError("0A000", f"unsupported {what} action for foreign key constraint using PERIOD")


def _name(session: Session, rel: Relation, constraint: Constraint) -> str:
    if constraint.name is None:
        addition = name_addition(constraint.fk_columns)
        return choose_constraint_name(session, rel.name, addition, "fkey", rel.namespace)
    if constraint_on(session, rel.oid, constraint.name):
        raise already_exists(constraint.name, rel.name)
    return constraint.name


def _refuse_relations(rel: Relation, pk_rel: Relation, *, recurse: bool, not_valid: bool) -> None:
    if rel.kind == "p":
        what = f'foreign key on partitioned table "{rel.name}" referencing relation "{pk_rel.name}"'
        if not recurse:
            raise PgError("42809", f"cannot use ONLY for {what}")
        if not_valid:
            raise PgError(
                "42809",
                f"cannot add NOT VALID {what}",
                detail="This feature is not yet supported on partitioned tables.",
            )
    if pk_rel.kind not in ("r", "p"):
        raise PgError("42809", f'referenced relation "{pk_rel.name}" is not a table')
    if pk_rel.is_catalog:
        raise PgError("42501", f'permission denied: "{pk_rel.name}" is a system catalog')
    if rel.persistence == "p" and pk_rel.persistence != "p":
        raise PgError("42P16", "constraints on permanent tables may reference only permanent tables")
    if rel.persistence == "u" and pk_rel.persistence not in ("p", "u"):
        raise PgError("42P16", "constraints on unlogged tables may reference only permanent or unlogged tables")
    if rel.persistence == "t" and pk_rel.persistence != "t":
        raise PgError("42P16", "constraints on temporary tables may reference only temporary tables")


# --- columns ------------------------------------------------------------------------------------------------------


def _columns(
    session: Session, rel: Relation, pk_rel: Relation, constraint: Constraint
) -> tuple[KeyColumns, tuple[int, ...], int]:
    """Both sides' columns, the operator classes of the referenced ones, and the index that makes those unique."""
    referencing = _numbers(rel, constraint.fk_columns)
    delete_set = _numbers(rel, constraint.delete_set_columns)
    for name, number in zip(constraint.delete_set_columns, delete_set, strict=True):
        if number not in referencing:
            raise PgError("42P10", f'column "{name}" referenced in ON DELETE SET action must be part of foreign key')
    if constraint.pk_columns:
        referenced = _numbers(pk_rel, constraint.pk_columns)
        index, classes = _unique_index(session, pk_rel, referenced, temporal=constraint.pk_period)
    else:
        index, referenced, classes = _primary_key(session, pk_rel)
    return KeyColumns(referenced, referencing, tuple(dict.fromkeys(delete_set))), classes, index


def _numbers(rel: Relation, names: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the columns that a foreign key names (transformColumnNameList)."""
    numbers: list[int] = []
    for name in names:
        attribute = rel.attribute(name)
        if attribute is None:
            if name in SYSTEM_COLUMNS:
                raise PgError("0A000", "system columns cannot be used in foreign keys")
            raise PgError("42703", f'column "{name}" referenced in foreign key constraint does not exist')
        if len(numbers) >= MAX_KEYS:
            raise PgError("54011", f"cannot have more than {MAX_KEYS} keys in a foreign key")
        numbers.append(attribute.num)
    return tuple(numbers)


def _primary_key(session: Session, pk_rel: Relation) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The primary key that a foreign key means (transformFkeyGetPrimaryKey)."""
    for info in index_infos(session, pk_rel.oid):
        if info.primary and info.valid:
            if not info.immediate:
                raise PgError("55000", f'cannot use a deferrable primary key for referenced table "{pk_rel.name}"')
            return info.oid, info.columns[: info.key_count], info.opclasses
    raise PgError("42704", f'there is no primary key for referenced table "{pk_rel.name}"')


def _unique_index(
    session: Session, pk_rel: Relation, numbers: tuple[int, ...], *, temporal: bool
) -> tuple[int, tuple[int, ...]]:
    """The unique index that a foreign key's columns match (transformFkeyCheckAttrs)."""
    if len(set(numbers)) != len(numbers):
        raise PgError("42830", "foreign key referenced-columns list must not contain duplicates")
    deferrable = False
    for info in index_infos(session, pk_rel.oid):
        if not _makes_unique(info, numbers):
            continue
        if temporal and not (info.is_temporal and info.columns[info.key_count - 1] == numbers[-1]):
            continue
        if info.immediate:
            places = {number: place for place, number in enumerate(info.columns[: info.key_count])}
            return info.oid, tuple(info.opclasses[places[number]] for number in numbers)
        deferrable = True
    if deferrable:
        raise PgError("55000", f'cannot use a deferrable unique constraint for referenced table "{pk_rel.name}"')
    raise PgError("42830", f'there is no unique constraint matching given keys for referenced table "{pk_rel.name}"')


def _makes_unique(info: IndexInfo, numbers: tuple[int, ...]) -> bool:
    return (
        info.unique
        and info.valid
        and info.predicate is None
        and not info.exprs
        and set(info.columns[: info.key_count]) == set(numbers)
        and info.key_count == len(numbers)
    )


def _check_permission(session: Session, pk_rel: Relation, numbers: Sequence[int]) -> None:
    if has_table_privilege(session, pk_rel, "REFERENCES"):
        return
    if not all(has_column_privilege(session, pk_rel, number, "REFERENCES") for number in numbers):
        raise permission_denied(pk_rel)


def _refuse_generated(rel: Relation, numbers: Sequence[int], constraint: Constraint) -> None:
    for number in numbers:
        attribute = rel.attribute_by_number(number)
        if attribute is None or not attribute.generated:
            continue
        what = "action for foreign key constraint containing generated column"
        if constraint.on_update in ("n", "d", "c"):
            raise PgError("42601", f"invalid ON UPDATE {what}")
        if constraint.on_delete in ("n", "d"):
            raise PgError("42601", f"invalid ON DELETE {what}")
        if attribute.generated == "v":
            raise PgError("0A000", "foreign key constraints on virtual generated columns are not supported")


def _check_comparable(
    session: Session, name: str, rel: Relation, pk_rel: Relation, columns: KeyColumns, classes: Sequence[int]
) -> None:
    """There must be an = between each pair of columns that agrees with the referenced index."""
    for own, other, opclass in zip(columns.referencing, columns.referenced, classes, strict=True):
        fk, pk = rel.attribute_by_number(own), pk_rel.attribute_by_number(other)
        row = opclass_by_oid(opclass)
        assert fk is not None and pk is not None and row is not None
        base = lookup.base(fk.type)
        if row.method == GIST and base == lookup.base(pk.type):
            continue
        if family_member(row.family, row.intype, base, EQUAL) and family_member(row.family, base, base, EQUAL):
            continue
        if can_coerce((pk.type, fk.type), (row.intype, row.intype), Context.IMPLICIT):
            continue
        names = f'"{fk.name}" and "{pk.name}"'
        if session.settings.release >= 18:
            names = f'"{fk.name}" of the referencing table and "{pk.name}" of the referenced table'
        raise PgError(
            "42804",
            f'foreign key constraint "{name}" cannot be implemented',
            detail=f"Key columns {names} are of incompatible types: "
            f"{lookup.type_text(session, fk.type)} and {lookup.type_text(session, pk.type)}.",
        )
