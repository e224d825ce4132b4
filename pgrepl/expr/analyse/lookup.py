"""Look-ups of analysis and deparsing: relations, schemas, properties of types, range table entries, system columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.catalog.facts.namespace import explicit_schema, schema_name, search_path
from pgrepl.catalog.facts.relation import Attribute, Relation, display_name, find_relation, relation
from pgrepl.catalog.facts.user_types import rowtype_relation, type_display_name, type_in_schema, type_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.expr.tree import Column, Rte, RteKind, Var
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.types import builtin, oids
from pgrepl.types.names import format_type
from pgrepl.types.text import read_text, write_text
from pgrepl.types.user_types import array_over, is_row_of_table


def relid(session: Session, name: nodes.RangeVar) -> int:
    """The relid of a name; 0: no such relation."""
    table = find_relation(session, name, missing_ok=True)
    return table.oid if table is not None else 0


def relid_in_schema(session: Session, schema: str, name: str) -> int:
    """The relid of a relation in a schema; 0: either does not exist."""
    return relid(session, nodes.RangeVar(name, schema))


def row_type(session: Session, oid: int) -> int:
    rel = relation(session, oid)
    if rel.type:
        return session.type_of(rel.type)
    known = builtin.type_by_name(rel.name, rel.schema)
    return known.oid if known is not None and known.relid else oids.RECORD


def existing_type(session: Session, oid: int) -> int:
    """The OID of a type, with its description if it is a user's type."""
    described = session.type_of(oid)
    if builtin.type_by_oid(described) is None and rowtype_relation(session, oid) is None:
        raise PgError("XX000", f"cache lookup failed for type {oid}")
    return described


def type_name(session: Session, typoid: int) -> str | None:
    """The printed name of a user's type, or of a relation's row type."""
    row = type_row(session, typoid)
    if row is not None:
        return type_display_name(session, row)
    table = rowtype_relation(session, typoid)
    return display_name(session, table) if table is not None else None


def type_in_schema_named(session: Session, schema: str, name: str) -> int:
    """A user's type, or the row type of a relation, by name; 0: no such type."""
    namespace = explicit_schema(session, schema, missing_ok=True)
    known = type_in_schema(session, namespace, name)
    if known is not None:
        return session.type_of(known.oid)
    row = one(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace, relname=name)
    if row is not None:
        return int(row.reltype or 0)
    row = one(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace, relname=name[1:])
    return array_over(row.reltype) if name[:1] == "_" and row is not None and row.reltype else 0


def search_schemas(session: Session) -> list[str]:
    return [schema_name(session, oid) for oid in search_path(session)]


def row_attributes(session: Session, typoid: int) -> Sequence[Attribute]:
    """The columns of a named row type, dropped ones included."""
    table = rowtype_relation(session, typoid)
    return table.attributes if table is not None else ()


def row_inherits(session: Session, source: int, target: int) -> bool:
    """Whether one row type's relation is a descendant of the other's (typeInheritsFrom)."""
    if source < oids.FIRST_USER_OID or target < oids.FIRST_USER_OID:
        return False
    child, parent = rowtype_relation(session, source), rowtype_relation(session, target)
    if child is None or parent is None:
        return False
    waiting, seen = [child.oid], {child.oid}
    while waiting:
        for row in rows(session, tables.pg_inherits, inhrelid=waiting.pop()):
            if row.inhparent == parent.oid:
                return True
            if row.inhparent not in seen:
                seen.add(row.inhparent)
                waiting.append(row.inhparent)
    return False


def split_name(session: Session, names: tuple[str, ...], location: int = -1) -> tuple[str | None, str]:
    """Schema and name of a qualified name (DeconstructQualifiedName)."""
    if len(names) == 1:
        return None, names[0]
    if len(names) == 2:
        return names[0], names[1]
    dotted = ".".join(names)
    if len(names) == 3:
        if names[0] != session.database.name:
            raise PgError("0A000", f"cross-database references are not implemented: {dotted}", location=location)
        return names[1], names[2]
    raise PgError("42601", f"improper qualified name (too many dotted names): {dotted}", location=location)


def warner(session: Session, location: int = -1) -> Callable[[str, str], None]:
    """The function by which a type's input function raises a warning: (sqlstate, message)."""
    return lambda sqlstate, message: session.notice("WARNING", message, sqlstate=sqlstate, location=location)


def read_value(session: Session, text: str, typoid: int, typmod: int) -> Any:
    """The value of a literal, as the type's input function gives it in this session."""
    return read_text(text, typoid, typmod, session.text_style)


def write_value(session: Session, value: Any, typoid: int) -> str:
    """A value as the type's output function prints it in this session."""
    return write_text(value, typoid, session.text_style)


# --- typefacts --------------------------------------------------------------------------------------------------------


__all__ = ["array_over", "is_row_of_table"]

POLYMORPHIC_1 = frozenset(
    {oids.ANYELEMENT, oids.ANYARRAY, oids.ANYNONARRAY, oids.ANYENUM, oids.ANYRANGE, oids.ANYMULTIRANGE}
)
POLYMORPHIC_2 = frozenset(
    {
        oids.ANYCOMPATIBLE,
        oids.ANYCOMPATIBLEARRAY,
        oids.ANYCOMPATIBLENONARRAY,
        oids.ANYCOMPATIBLERANGE,
        oids.ANYCOMPATIBLEMULTIRANGE,
    }
)
POLYMORPHIC = POLYMORPHIC_1 | POLYMORPHIC_2

INVALID_CATEGORY = ""
STRING_CATEGORY = "S"


def type_text(session: Session, oid: int, typmod: int = -1) -> str:
    """A type's name with its modifier, for messages (format_type_be, format_type_with_typemod)."""
    oid = session.type_of(oid)
    return format_type(oid, typmod if typmod >= 0 else None, lambda other: type_name(session, other))


def category(oid: int) -> str:
    row = builtin.type_by_oid(oid)
    return row.category if row is not None else "C"


def is_preferred(slot_category: str, oid: int) -> bool:
    """As IsPreferredType does: INVALID_CATEGORY matches every category."""
    row = builtin.type_by_oid(oid)
    return row is not None and row.preferred and slot_category in (row.category, INVALID_CATEGORY)


def preferred(oid: int) -> bool:
    return is_preferred(INVALID_CATEGORY, oid)


def element(oid: int) -> int:
    """The element type of an array type, 0 of another (get_element_type)."""
    return builtin.element_type(oid)


def base_element(oid: int) -> int:
    """As get_base_element_type does: looks through domains."""
    return builtin.element_type(builtin.base_type(oid))


def base(oid: int) -> int:
    return builtin.base_type(oid)


def base_and_typmod(oid: int, typmod: int) -> tuple[int, int]:
    """The type below domains, and the modifier that it gets (getBaseTypeAndTypmod)."""
    row = builtin.type_by_oid(oid)
    while row is not None and row.typtype == "d":
        typmod = row.typmod
        oid = row.basetype
        row = builtin.type_by_oid(oid)
    return oid, typmod


def is_array(oid: int) -> bool:
    return element(oid) != 0


def is_array_domain(oid: int) -> bool:
    return base_element(oid) != 0


def is_enum(oid: int) -> bool:
    row = builtin.type_by_oid(oid)
    return row is not None and row.typtype == "e"


def is_complex(oid: int) -> bool:
    """Whether a type is a named row type, or a domain over one (ISCOMPLEX)."""
    row = builtin.type_by_oid(builtin.base_type(oid))
    if row is None:
        return oid >= oids.FIRST_USER_OID
    return row.typtype == "c"


def is_row(oid: int) -> bool:
    """Whether a type is a row type as type_is_rowtype decides; RECORD is one."""
    return oid == oids.RECORD or is_complex(oid)


def is_complex_array(oid: int) -> bool:
    elem = element(oid)
    return elem != 0 and is_complex(elem)


def collation(oid: int) -> int:
    """The type's default collation; 0: not collatable."""
    row = builtin.type_by_oid(oid)
    return row.collation if row is not None else 0


def is_collatable(oid: int) -> bool:
    return collation(oid) != 0


def range_subtype(oid: int) -> int:
    row = builtin.range_by_oid(oid)
    return row.subtype if row is not None else 0


def multirange_range(oid: int) -> int:
    row = builtin.range_of_multirange(oid)
    return row.oid if row is not None else 0


def range_multirange(oid: int) -> int:
    row = builtin.range_by_oid(oid)
    return row.multirange if row is not None else 0


# --- range table ------------------------------------------------------------------------------------------------------


# name: attnum, type
SYSTEM_COLUMNS: dict[str, tuple[int, int]] = {
    "ctid": (-1, oids.TID),
    "xmin": (-2, oids.XID),
    "cmin": (-3, oids.CID),
    "xmax": (-4, oids.XID),
    "cmax": (-5, oids.CID),
    "tableoid": (-6, oids.OID),
}
SYSTEM_COLUMN_NAMES = {attnum: name for name, (attnum, _) in SYSTEM_COLUMNS.items()}
TABLEOID = -6
XMAX = -4


def relation_rte(
    relation: Relation, alias: str | None = None, alias_columns: tuple[str, ...] = (), inh: bool = True
) -> Rte:
    """A range table entry of a relation, its columns renamed by an alias (buildRelationAliases)."""
    name = alias if alias is not None else relation.name
    names = list(alias_columns)
    columns = []
    for attribute in relation.attributes:
        if attribute.dropped:
            columns.append(Column("", 0, dropped=True))
            continue
        column_name = names.pop(0) if names else attribute.name
        column_collation = collation(attribute.type) if relation.is_system else attribute.collation
        columns.append(
            Column(column_name, attribute.type, attribute.typmod, column_collation, expands=attribute.expands)
        )
    if names:
        live = sum(not column.dropped for column in columns)
        raise PgError(
            "42P10", f'table "{name}" has {live} columns available but {len(alias_columns)} columns specified'
        )
    return Rte(
        RteKind.RELATION,
        name,
        tuple(columns),
        alias=alias,
        alias_columns=alias_columns,
        relid=relation.oid,
        relkind=relation.kind,
        inh=inh,
        release=17 if relation.system is None else relation.system.release,
    )


def var_of(column: Column, attnum: int) -> Var:
    """A column of a query's only relation."""
    return Var(column.type, typmod=column.typmod, collation=column.collation, varno=1, attnum=attnum)
