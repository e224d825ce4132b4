"""CREATE TYPE … AS ENUM and AS RANGE, ADD VALUE and RENAME VALUE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.namespace import INTERNAL_LANGUAGE, check_may_execute, schema_for_creation
from pgrepl.catalog.facts.user_types import is_type_name_taken, labels_of, type_row
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.store import insert, insert_many, new_oid, update
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_NAMESPACE, PG_PROC, PG_TYPE, ObjectAddress
from pgrepl.catalog.store.tables import pg_proc, pg_range
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import procs_named
from pgrepl.expr.analyse.casts import comparing_collation, type_name_text, type_of_name
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.sorting import BTREE, default_opclass
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting, get_qualified_name, get_type_name
from pgrepl.sql.nodes import AlterEnumStmt, CreateEnumStmt, CreateRangeStmt, DefElem
from pgrepl.statements.dependencies import record_collations, record_functions, record_types
from pgrepl.statements.index.attributes import index_access_method, resolve_opclass
from pgrepl.statements.table.heap import check_name_is_free, insert_type, namespace_of_new
from pgrepl.statements.type.domain import check_type_owner, type_of_parts
from pgrepl.types import builtin, oids
from pgrepl.types.builtin import type_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def create_enum(stmt: CreateEnumStmt, session: Session) -> Result:
    """CREATE TYPE … AS ENUM (DefineEnum)."""
    namespace = namespace_of_new(session, stmt.name)
    check_name_is_free(session, namespace, stmt.name.name)
    oid = insert_type(session, namespace, stmt.name.name, typtype="e")
    if not session.transaction.savepoints:
        session.transaction.uncommitted_enums.add(oid)
    for number, label in enumerate(stmt.labels):
        _check_length(label)
        if label in stmt.labels[:number]:
            raise PgError(
                "23505",
                'duplicate key value violates unique constraint "pg_enum_typid_label_index"',
                detail=f"Key (enumtypid, enumlabel)=({oid}, {label}) already exists.",
            )
    insert_many(
        session,
        tables.pg_enum,
        [
            {
                "oid": new_oid(session), "enumtypid": oid, "enumsortorder": float(number), "enumlabel": label,
                "storedlabel": label,
            }
            for number, label in enumerate(stmt.labels, 1)
        ],
    )  # fmt: skip
    return Result("CREATE TYPE")


def alter_enum(stmt: AlterEnumStmt, session: Session) -> Result:
    """ALTER TYPE … ADD VALUE and RENAME VALUE (AlterEnum)."""
    oid = type_of_parts(session, stmt.name)
    row = type_row(session, oid)
    if row is None or row.typtype != "e":
        raise PgError("42809", f"{type_text(session, oid)} is not an enum")
    check_type_owner(session, row)
    if stmt.old_label is None:
        _add(session, row, stmt)
    else:
        _rename(session, row, stmt.old_label, stmt.label)
    return Result("ALTER TYPE")


def _check_length(label: str) -> None:
    if len(label.encode()) > 63:
        raise PgError("42602", f'invalid enum label "{label}"', detail="Labels must be 63 bytes or less.")


def _add(session: Session, enum: tables.pg_type, stmt: AlterEnumStmt) -> None:
    """As AddEnumLabel. The new label cannot be used before the transaction has committed, unless the type is new in it,
    too, and neither was made behind a savepoint."""
    _check_length(stmt.label)
    labels = labels_of(session, enum.oid)
    if any(label.enumlabel == stmt.label for label in labels):
        if not stmt.if_not_exists:
            raise PgError("42710", f'enum label "{stmt.label}" already exists')
        session.notice("NOTICE", f'enum label "{stmt.label}" already exists, skipping', sqlstate="42710")
        return
    place = _place(session, labels, stmt)
    oid = new_oid(session)
    stored, number = stmt.label, 0
    while stored in [label.storedlabel for label in labels]:  # a label that was renamed had this name
        number += 1
        stored = f"{stmt.label} ({number})"
    values = {"enumtypid": enum.oid, "enumsortorder": place, "enumlabel": stmt.label, "storedlabel": stored}
    insert(session, tables.pg_enum, oid=oid, **values)
    transaction = session.transaction
    if transaction.savepoints or enum.oid not in transaction.uncommitted_enums:
        session.transaction.uncommitted_labels.add(oid)


def _place(session: Session, labels: Sequence[tables.pg_enum], stmt: AlterEnumStmt) -> float:
    """The sort order of a new label, between its neighbors."""
    if stmt.neighbor is None:
        return labels[-1].enumsortorder + 1 if labels else 1.0
    place = next((n for n, label in enumerate(labels) if label.enumlabel == stmt.neighbor), None)
    if place is None:
        raise PgError("22023", f'"{stmt.neighbor}" is not an existing enum label')
    after = place if stmt.after else place - 1
    if after < 0:
        return labels[0].enumsortorder - 1
    if after == len(labels) - 1:
        return labels[-1].enumsortorder + 1
    low, high = labels[after].enumsortorder, labels[after + 1].enumsortorder
    middle: float = unpack("<f", pack("<f", (low + high) / 2))[0]
    if low < middle < high:
        return middle
    for number, label in enumerate(labels, 1):  # no number is left between them (RenumberEnumType)
        update(session, tables.pg_enum, {"oid": label.oid}, enumsortorder=float(number))
    return after + 1.5


def _rename(session: Session, enum: tables.pg_type, old: str, new: str) -> None:
    """Renames a label of an enum (RenameEnumLabel)."""
    _check_length(new)
    labels = labels_of(session, enum.oid)
    renamed = next((label for label in labels if label.enumlabel == old), None)
    if renamed is None:
        raise PgError("22023", f'"{old}" is not an existing enum label')
    if any(label.enumlabel == new for label in labels):
        raise PgError("42710", f'enum label "{new}" already exists')
    update(session, tables.pg_enum, {"oid": renamed.oid}, enumlabel=new)


# --- range ------------------------------------------------------------------------------------------------------------


_READERS = {
    "subtype": get_type_name, "subtype_opclass": get_qualified_name, "collation": get_qualified_name,
    "canonical": get_qualified_name, "subtype_diff": get_qualified_name, "multirange_type_name": get_qualified_name,
}  # fmt: skip
_MOST_BYTES = 63  # of a name


def create_range(stmt: CreateRangeStmt, session: Session) -> Result:
    name = stmt.name.name
    namespace = namespace_of_new(session, stmt.name)
    check_name_is_free(session, namespace, name)
    given = _read(stmt.options)
    if "subtype" not in given:
        raise PgError("42601", 'type attribute "subtype" is required')
    subtype = type_of_name(session, replace(given["subtype"], location=-1))[0]
    if lookup.is_row_of_table(subtype):
        raise unsupported(f"a range over the row type {type_name_text(given['subtype'])}")
    kind = type_by_oid(subtype)
    if kind is not None and kind.typtype == "p":
        raise PgError("42804", f"range subtype cannot be {lookup.type_text(session, subtype)}")
    opclass = _opclass(session, given.get("subtype_opclass"), subtype)
    collation = _collation(session, given.get("collation"), subtype)
    if "canonical" in given:
        raise PgError(
            "42P17",
            "cannot specify a canonical function without a pre-created shell type",
            hint="Create the type as a shell type, then create its canonicalization function, then do a full CREATE"
            " TYPE.",
        )
    difference = _difference(session, given["subtype_diff"], subtype) if "subtype_diff" in given else 0
    multirange = _multirange_name(session, given.get("multirange_type_name"), namespace, name)
    _store(session, (namespace, name), multirange, subtype, opclass, collation, difference)
    return Result("CREATE TYPE")


def _read(options: tuple[DefElem, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for option in options:
        if option.name not in _READERS:
            raise PgError("42601", f'type attribute "{option.name}" not recognized')
        if option.name in given:
            conflicting(option)
        given[option.name] = _READERS[option.name](option)
    return given


def _opclass(session: Session, name: tuple[str, ...] | None, subtype: int) -> int:
    """The operator class of a range (findRangeSubOpclass). One that orders otherwise than the type does is refused."""
    usual = default_opclass(subtype, BTREE)
    if name is None:
        if usual is None:
            raise PgError(
                "42704",
                f"data type {lookup.type_text(session, subtype)} has no default operator class for access method"
                ' "btree"',
                hint="You must specify an operator class for the range type or define a default operator class for the"
                " subtype.",
            )
        return usual.oid
    opclass = resolve_opclass(session, name, subtype, index_access_method("btree"))
    known = builtin.opclass_by_oid(opclass)
    if known is not None and (usual is None or opclass != usual.oid) and not known.name.endswith("_pattern_ops"):
        raise unsupported(f"a range with the operator class {known.name}")
    return opclass


def _collation(session: Session, name: tuple[str, ...] | None, subtype: int) -> int:
    own = lookup.collation(subtype)
    if name is None:
        return own
    collation = comparing_collation(session, name)
    if not own:
        raise PgError("42809", "range collation specified but subtype does not support collation")
    return collation


def _difference(session: Session, name: tuple[str, ...], subtype: int) -> int:
    """The function of SUBTYPE_DIFF (findRangeSubtypeDiffFunction). Only GiST indexes would call it."""
    procs = procs_named(Scope(session), name)
    proc = next((p for p in procs if p.argtypes == (subtype, subtype) and p.kind != "p"), None)
    text = lookup.type_text(session, subtype)
    shown = f"{'.'.join(name)}({text}, {text})"
    if proc is None:
        raise PgError("42883", f"function {shown} does not exist")
    if proc.rettype != oids.FLOAT8:
        raise PgError("42P17", f"range subtype diff function {shown} must return type double precision")
    if proc.volatile != "i":
        raise PgError("42P17", f"range subtype diff function {shown} must be immutable")
    check_may_execute(session, proc.oid)
    return proc.oid


def _multirange_name(session: Session, name: tuple[str, ...] | None, namespace: int, of: str) -> tuple[int, str]:
    """The schema and name of the multirange type, given or made from the range's (makeMultirangeTypeName)."""
    if name is not None:
        schema, bare = lookup.split_name(session, name)
        schema_oid = schema_for_creation(session, schema)
        check_name_is_free(session, schema_oid, bare)
        return schema_oid, bare
    before, word, after = of.partition("range")
    multirange = f"{before}multirange{after}" if word else f"{_cut(of, 'multirange')}_multirange"
    multirange = multirange.encode()[:_MOST_BYTES].decode(errors="ignore")
    if is_type_name_taken(session, namespace, multirange):
        raise PgError(
            "42710",
            f'type "{multirange}" already exists',
            detail=f'Failed while creating a multirange type for type "{of}".',
            hint='You can manually specify a multirange type name using the "multirange_type_name" attribute.',
        )
    return namespace, multirange


def _cut(name: str, suffix: str) -> str:
    return name.encode()[: _MOST_BYTES - 1 - len(suffix)].decode(errors="ignore")


def _store(
    session: Session,
    name: tuple[int, str],
    multirange_name: tuple[int, str],
    subtype: int,
    opclass: int,
    collation: int,
    difference: int,
) -> None:
    oid, multirange = store.new_oid(session), store.new_oid(session)
    cast = store.new_oid(session)
    store.insert(
        session, pg_range, rngtypid=oid, rngsubtype=int(subtype), rngmultitypid=multirange, rngcollation=int(collation),
        rngsubopc=opclass, rngcanonical=0, rngsubdiff=difference, rngcast=cast, rngcastfunc=0,
    )  # fmt: skip
    insert_type(session, *name, oid=oid, typtype="r")
    insert_type(session, *multirange_name, oid=multirange, typtype="m")
    self = ObjectAddress(PG_TYPE, oid)
    record_types(session, self, [subtype])
    record_collations(session, self, [collation])
    record_functions(session, self, [difference])
    record_dependency(session, ObjectAddress(PG_TYPE, multirange), self, Dependency.INTERNAL)
    array = lookup.array_over(session.type_of(oid))
    _constructor(session, name, oid, (subtype, subtype), "range_constructor2")
    _constructor(session, name, oid, (subtype, subtype, oids.TEXT), "range_constructor3")
    _constructor(session, multirange_name, multirange, (), "multirange_constructor0", strict=True)
    one = _constructor(session, multirange_name, multirange, (oid,), "multirange_constructor1", strict=True)
    store.update(session, pg_range, {"rngtypid": oid}, rngcastfunc=one)
    _constructor(session, multirange_name, multirange, (array,), "multirange_constructor2", strict=True, variadic=oid)


def _constructor(
    session: Session,
    name: tuple[int, str],
    result: int,
    types: Sequence[int],
    source: str,
    *,
    strict: bool = False,
    variadic: int = 0,
) -> int:
    """As makeRangeConstructors and makeMultirangeConstructors do: functions that go with the type."""
    namespace, bare = name
    oid = store.new_oid(session)
    store.insert(
        session, pg_proc, datid=session.database_oid, oid=oid, proname=bare, pronamespace=namespace,
        proowner=BOOTSTRAP_SUPERUSER, prolang=INTERNAL_LANGUAGE, procost=1.0, prorows=0.0, provariadic=variadic,
        prokind="f", prosecdef=False, proleakproof=False, proisstrict=strict, proretset=False, provolatile="i",
        proparallel="s", pronargs=len(types), prorettype=result, proargtypes=list(map(int, types)),
        proallargtypes=list(map(int, types)) if variadic else None, proargmodes=["v"] if variadic else None,
        proargnames=None, proargdefaults=None, prosrc=source, prosqlbody=None, proconfig=None, proacl=None,
    )  # fmt: skip
    self = ObjectAddress(PG_PROC, oid)
    record_dependency(session, self, ObjectAddress(PG_NAMESPACE, namespace))
    record_types(session, self, [result, *types])
    record_dependency(session, self, ObjectAddress(PG_TYPE, result), Dependency.INTERNAL)
    return oid
