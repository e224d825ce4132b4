"""The names that PostgreSQL makes up (`t_pkey`, `t_a_b_idx1`), cut to 63 bytes; a new relation's schema, persistence
and parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.namespace import (
    TEMPORARY,
    creates_temporary,
    is_temporary,
    schema_for_creation,
    schema_name,
    temporary_schema,
)
from pgrepl.catalog.facts.relation import Relation, oid_in_schema
from pgrepl.catalog.facts.relation_parts import children, parents
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_inherits
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import RangeVar
from pgrepl.statements.deletion import require_temporary_schema
from pgrepl.types.builtin import access_method_by_name

HEAP = 2  # pg_am


def check_tablespace(name: str | None, *, partitioned: bool) -> None:
    """Refuse any tablespace but pg_default."""
    if name is None:
        return
    if name == "pg_global":
        raise PgError("22023", "only shared relations can be placed in pg_global tablespace")
    if name != "pg_default":
        raise PgError("42704", f'tablespace "{name}" does not exist')
    if partitioned:
        raise PgError("0A000", "cannot specify default tablespace for partitioned relations")


def table_access_method(name: str) -> int:
    """The OID of an access method of tables; there is one (get_table_am_oid)."""
    method = access_method_by_name(name)
    if method is None:
        raise PgError("42704", f'access method "{name}" does not exist')
    if method.type != "t":
        raise PgError("55000", f'access method "{name}" is not of type TABLE')
    return method.oid


def chosen_access_method(name: str | None, partitioned: bool, parents: Sequence[Relation]) -> int:
    if name is not None:
        return table_access_method(name)
    if parents and parents[0].access_method:
        return parents[0].access_method
    return 0 if partitioned else HEAP


# --- names ------------------------------------------------------------------------------------------------------------


NAMEDATALEN = 64


def clip(name: str, size: int) -> str:
    """At most `size` bytes of a name, whole characters only, as pg_mbcliplen does."""
    data = name.encode()
    if len(data) <= size:
        return name
    return data[:size].decode(errors="ignore")


def make_object_name(name1: str, name2: str | None, label: str) -> str:
    """name1_name2_label in less than 64 bytes, as makeObjectName does."""
    room = NAMEDATALEN - 1 - len(label.encode()) - 1 - (1 if name2 is not None else 0)
    size1, size2 = len(name1.encode()), len(name2.encode()) if name2 is not None else 0
    while size1 + size2 > room:
        if size1 > size2:
            size1 -= 1
        else:
            size2 -= 1
    parts = [clip(name1, size1)]
    if name2 is not None:
        parts.append(clip(name2, size2))
    return "_".join([*parts, label])


def name_addition(columns: Iterable[str]) -> str:
    """The column part of a made-up name, as ChooseIndexNameAddition does: enough columns to fill a name."""
    text = ""
    for column in columns:
        text = f"{text}_{column}" if text else column
        if len(text.encode()) >= NAMEDATALEN:
            break
    return text


def constraint_exists(session: Session, name: str, namespace: int) -> bool:
    return (
        store.one(session, pg_constraint, datid=session.database_oid, connamespace=namespace, conname=name) is not None
    )


def constraint_on(session: Session, relation: int, name: str) -> bool:
    """Whether a constraint of this relation has the name (ConstraintNameIsUsed)."""
    return store.one(session, pg_constraint, conrelid=relation, conname=name) is not None


def choose_relation_name(
    session: Session, name1: str, name2: str | None, label: str, namespace: int, *, constraint: bool = False
) -> str:
    """An unused relation name, as ChooseRelationName finds it."""
    number = 0
    while True:
        name = make_object_name(name1, name2, label if number == 0 else f"{label}{number}")
        if oid_in_schema(session, namespace, name) is None and not (
            constraint and constraint_exists(session, name, namespace)
        ):
            return name
        number += 1


def choose_constraint_name(
    session: Session, name1: str, name2: str | None, label: str, namespace: int, others: Sequence[str] = ()
) -> str:
    """An unused constraint name, as ChooseConstraintName finds it. An empty label is a number at once."""
    number = 0 if label else 1
    while True:
        name = make_object_name(name1, name2, label if number == 0 else f"{label}{number}")
        if name not in others and not constraint_exists(session, name, namespace):
            return name
        number += 1


def choose_column_names(wanted: Sequence[str]) -> tuple[str, ...]:
    """The names of an index's columns: unlike each other, as ChooseIndexColumnNames does."""
    chosen: list[str] = []
    for original in wanted:
        name, number = original, 0
        while name in chosen:
            number += 1
            suffix = str(number)
            name = clip(original, NAMEDATALEN - 1 - len(suffix)) + suffix
        chosen.append(name)
    return tuple(chosen)


# --- inherit ----------------------------------------------------------------------------------------------------------


def store_inheritance(session: Session, child: int, parent: Relation, number: int, *, is_partition: bool) -> None:
    """As StoreCatalogInheritance1 does. A partition is dropped with its parent, an ordinary child only by CASCADE."""
    store.insert(session, pg_inherits, inhrelid=child, inhparent=parent.oid, inhseqno=number, inhdetachpending=False)
    record_dependency(
        session, ObjectAddress(PG_CLASS, child), ObjectAddress(PG_CLASS, parent.oid), child_dependency(is_partition)
    )
    set_has_subclass(session, parent)


def child_dependency(is_partition: bool) -> Dependency:
    return Dependency.AUTO if is_partition else Dependency.NORMAL


def set_has_subclass(session: Session, parent: Relation) -> None:
    if not parent.has_subclass:
        store.update(session, pg_class, {"oid": parent.oid}, relhassubclass=True)


def partition_parent(session: Session, child: int) -> int:
    """The parent of a partition or of a partition's index (get_partition_parent)."""
    return parents(session, child)[0]


def has_parent(session: Session, child: int) -> bool:
    return bool(parents(session, child))


def inheritors_with_parents(session: Session, root: int) -> dict[int, int]:
    """The relation and all that inherit from it, with the number of parents each has inside the tree."""
    counts = {root: 0}
    queue = [root]
    for relid in queue:
        for child in children(session, relid):
            if child in counts:
                counts[child] += 1
            else:
                counts[child] = 1
                queue.append(child)
    return counts


# --- creation ---------------------------------------------------------------------------------------------------------


def creation_schema(session: Session, name: RangeVar, *, location: bool = True) -> tuple[int, str]:
    """The schema's OID and the relation's persistence, as RangeVarGetAndCheckCreationNamespace finds them."""
    try:
        namespace = _namespace(session, name)
        return namespace, _persistence(session, name.persistence, namespace)
    except PgError as problem:
        raise problem.at(name.location if location else None) from None


def _namespace(session: Session, name: RangeVar) -> int:
    if name.catalog is not None and name.catalog != session.database.name:
        raise PgError(
            "0A000", f'cross-database references are not implemented: "{name.catalog}.{name.schema}.{name.name}"'
        )
    unqualified = name.schema is None and (name.persistence == "t" or creates_temporary(session))
    if unqualified or name.schema == TEMPORARY:
        return require_temporary_schema(session)
    return schema_for_creation(session, name.schema)


def _persistence(session: Session, wanted: str, namespace: int) -> str:
    """As RangeVarAdjustRelationPersistence: relations in the session's temporary schema are temporary."""
    own = temporary_schema(session)
    if namespace == own:
        if wanted == "u":
            raise PgError("42P16", "only temporary relations may be created in temporary schemas")
        return "t"
    if wanted == "t":
        raise PgError("42P16", "cannot create temporary relation in non-temporary schema")
    if is_temporary(schema_name(session, namespace)):
        if wanted == "u":
            raise PgError("42P16", "only temporary relations may be created in temporary schemas")
        raise PgError("42P16", "cannot create relations in temporary schemas of other sessions")
    return wanted
