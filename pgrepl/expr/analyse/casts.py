"""PostgreSQL's casts: the coercion path from one type to another and where it is allowed; look-up of types and
collations in raw trees.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import namespace
from pgrepl.catalog.facts.namespace import explicit_schema
from pgrepl.catalog.facts.relation import find_relation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.tree import Const, Expr
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AConst, AConstKind, CoercionForm, ColumnRef, TypeName
from pgrepl.types import builtin, oids
from pgrepl.types.names import typmod_in

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class Context(IntEnum):
    """The context in which a cast is allowed: implicitly, in assignments, or only when written (CoercionContext)."""

    IMPLICIT = 0
    ASSIGNMENT = 1
    PLPGSQL = 2  # as ASSIGNMENT, and through text where there is no cast
    EXPLICIT = 3


class Path:
    """The path by which one type is converted to another (CoercionPathType). FUNC comes with the function to call."""

    NONE = "none"
    FUNC = "func"
    RELABEL = "relabel"
    ARRAY = "array"
    IO = "io"


_MULTIRANGE_OF_RANGE = 4281  # int4multirange(int4range); what it makes follows from the type of the call
_CONTEXTS = {"i": Context.IMPLICIT, "a": Context.ASSIGNMENT, "e": Context.EXPLICIT}
_METHODS = {"f": Path.FUNC, "i": Path.IO, "b": Path.RELABEL}


def pathway(target: int, source: int, context: Context) -> tuple[str, int]:
    """The path from one type to another and its function (find_coercion_pathway)."""
    source, target = lookup.base(source), lookup.base(target)
    if source == target:
        return Path.RELABEL, 0
    if oids.INTERNAL in (source, target):
        return Path.NONE, 0
    path = _cast_pathway(target, source, context)
    if path[0] == Path.NONE and context is Context.PLPGSQL:
        return Path.IO, 0
    return path


def _cast_pathway(target: int, source: int, context: Context) -> tuple[str, int]:
    cast = builtin.cast(source, target)
    if cast is not None:
        if context < _CONTEXTS[cast.context]:
            return Path.NONE, 0
        method = _METHODS[cast.method]
        return method, cast.func if method == Path.FUNC else 0
    if lookup.range_multirange(source) == target and target:
        return (Path.FUNC, _MULTIRANGE_OF_RANGE) if context is Context.EXPLICIT else (Path.NONE, 0)
    if target not in (oids.OIDVECTOR, oids.INT2VECTOR):
        target_element, source_element = lookup.element(target), lookup.element(source)
        if target_element and source_element and pathway(target_element, source_element, context)[0] != Path.NONE:
            return Path.ARRAY, 0
    if context >= Context.ASSIGNMENT and lookup.category(target) == lookup.STRING_CATEGORY:
        return Path.IO, 0
    if context >= Context.EXPLICIT and lookup.category(source) == lookup.STRING_CATEGORY:
        return Path.IO, 0
    return Path.NONE, 0


def castable(source: int, target: int, context: Context) -> bool:
    """Whether a cast exists, judged by the two types alone, without other arguments and tables (the first half of
    can_coerce_type)."""
    if source == target:
        return True
    if oids.INTERNAL in (source, target):
        return source == oids.UNKNOWN
    if target == oids.ANY or source == oids.UNKNOWN or pathway(target, source, context)[0] != Path.NONE:
        return True
    if source == oids.RECORD and lookup.is_complex(target):
        return True
    if target == oids.RECORD and lookup.is_complex(source):
        return True
    return target == oids.RECORD_ARRAY and lookup.is_complex_array(source)


def is_binary_coercible(source: int, target: int) -> bool:
    """Whether values of one type are values of the other without conversion at run time (IsBinaryCoercible)."""
    if source == target or target in (oids.ANY, oids.ANYELEMENT, oids.ANYCOMPATIBLE):
        return True
    source = lookup.base(source)
    if source == target:
        return True
    if target in (oids.ANYARRAY, oids.ANYCOMPATIBLEARRAY) and lookup.is_array(source):
        return True
    if target in (oids.ANYNONARRAY, oids.ANYCOMPATIBLENONARRAY) and not lookup.is_array(source):
        return True
    if target == oids.ANYENUM and lookup.is_enum(source):
        return True
    if target in (oids.ANYRANGE, oids.ANYCOMPATIBLERANGE) and lookup.range_subtype(source):
        return True
    if target in (oids.ANYMULTIRANGE, oids.ANYCOMPATIBLEMULTIRANGE) and lookup.multirange_range(source):
        return True
    if target == oids.RECORD and lookup.is_complex(source):
        return True
    if target == oids.RECORD_ARRAY and lookup.is_complex_array(source):
        return True
    cast = builtin.cast(source, target)
    return cast is not None and cast.method == "b" and cast.context == "i"


def length_function(target: int) -> tuple[str, int]:
    """The name of the function that applies a type's length (find_typmod_coercion_function)."""
    elem = lookup.element(target)
    typoid = elem or target
    cast = builtin.cast(typoid, typoid)
    if cast is None or not cast.func:
        return Path.NONE, 0
    return (Path.ARRAY, 0) if elem else (Path.FUNC, cast.func)


def function_typmod(function: int, args: tuple[Expr, ...], form: CoercionForm) -> int:
    """The type modifier that a call of a length coercion function gives its result (exprIsLengthCoercion)."""
    if form not in (CoercionForm.EXPLICIT_CAST, CoercionForm.IMPLICIT_CAST) or len(args) not in (2, 3):
        return -1
    second = args[1]
    if isinstance(second, Const) and second.type == oids.INT4 and second.value is not None:
        return int(second.value)
    return -1


# --- typenames --------------------------------------------------------------------------------------------------------


def type_name_text(name: TypeName) -> str:
    """A type's name as messages quote it (TypeNameToString)."""
    return ".".join(name.names) + ("%TYPE" if name.pct_type else "") + ("[]" if name.array_bounds else "")


def type_of_name(session: Session, name: TypeName) -> tuple[int, int]:
    """The type and its modifier (typenameTypeIdAndMod)."""
    typoid = _look_up(session, name)
    if typoid is None:
        raise PgError("42704", f'type "{type_name_text(name)}" does not exist', location=name.location)
    return typoid, _typmod(session, name, typoid)


def type_of_name_or_none(session: Session, name: TypeName) -> int | None:
    """The type without its modifier; None: no such type. No error points into the statement (LookupTypeName)."""
    return _look_up(session, replace(name, location=-1))


def _look_up(session: Session, name: TypeName) -> int | None:
    if name.pct_type:
        return _column_type(session, name)
    try:
        schema, bare = lookup.split_name(session, name.names, name.location)
        if schema is not None:
            explicit_schema(session, schema)
    except PgError as error:
        raise error.at(name.location) from None
    typoid = find_type(session, schema, bare)
    if name.array_bounds and typoid:
        typoid = lookup.array_over(typoid)
    return typoid or None


def find_type(session: Session, schema: str | None, name: str) -> int:
    """The type with this name, in the schema or else by search_path; 0: no such type."""
    if schema is not None:
        known = builtin.type_by_name(name, schema)
        return known.oid if known is not None else lookup.type_in_schema_named(session, schema, name)
    for listed in lookup.search_schemas(session):
        known = builtin.type_by_name(name, listed)
        if known is not None:
            return known.oid
        oid = lookup.type_in_schema_named(session, listed, name)
        if oid:
            return oid
    return 0


def _column_type(session: Session, name: TypeName) -> int:
    """`table.column%TYPE`."""
    parts = name.names
    dotted = ".".join(parts)
    if len(parts) < 2:
        message = f"improper %TYPE reference (too few dotted names): {dotted}"
        raise PgError("42601", message, location=name.location)
    if len(parts) > 4:
        message = f"improper %TYPE reference (too many dotted names): {dotted}"
        raise PgError("42601", message, location=name.location)
    *qualifiers, table, column = parts
    schema = qualifiers[-1] if qualifiers else None
    catalog = qualifiers[0] if len(qualifiers) == 2 else None
    relation = find_relation(session, nodes.RangeVar(table, schema, catalog, location=name.location))
    assert relation is not None
    attribute = next((a for a in relation.attributes if a.name == column and not a.dropped), None)
    if attribute is None:
        message = f'column "{column}" of relation "{table}" does not exist'
        raise PgError("42703", message, location=name.location)
    text = lookup.type_text(session, attribute.type)
    session.notice("NOTICE", f"type reference {type_name_text(name)} converted to {text}")
    return attribute.type


def _typmod(session: Session, name: TypeName, typoid: int) -> int:
    """The modifier that a written type has (typenameTypeMod)."""
    if not name.typmods:
        return -1
    known = builtin.type_by_oid(typoid)
    if known is None or not known.modin or known.modin == "-":
        message = f'type modifier is not allowed for type "{type_name_text(name)}"'
        raise PgError("42601", message, location=name.location)
    texts = [_typmod_text(modifier) for modifier in name.typmods]
    if None in texts:
        message = "type modifiers must be simple constants or identifiers"
        raise PgError("42601", message, location=name.location)
    warn = lookup.warner(session, name.location)
    try:
        return typmod_in(lookup.element(typoid) or typoid, [text for text in texts if text is not None], warn)
    except PgError as error:
        raise error.at(name.location) from None


def _typmod_text(modifier: nodes.Expr) -> str | None:
    if isinstance(modifier, AConst) and modifier.kind in (AConstKind.INTEGER, AConstKind.FLOAT, AConstKind.STRING):
        return str(modifier.value)
    if isinstance(modifier, ColumnRef) and len(modifier.fields) == 1 and isinstance(modifier.fields[0], str):
        return modifier.fields[0]
    return None


def collation_of_name(session: Session, names: tuple[str, ...], location: int = -1) -> int:
    """A collation by its name, or the error that it does not exist (LookupCollation)."""
    try:
        schema, name = lookup.split_name(session, names)
        if schema is None:
            oid = namespace.collation_in_path(session, name)
        else:
            oid = namespace.collation_in_schema(session, explicit_schema(session, schema), name)
        if not oid:
            raise missing_collation(names)
    except PgError as error:
        raise error.at(location) from None
    return oid


def comparing_collation(session: Session, names: tuple[str, ...], location: int = -1) -> int:
    """The collation by which something is to be compared: not one of ICU, which has an order of its own. Those of
    languages (`"de-x-icu"`) are not in the catalog."""
    try:
        oid = collation_of_name(session, names, location)
    except PgError as error:
        if error.sqlstate == "42704" and names[-1].endswith("-x-icu"):
            raise unsupported(f'collation "{names[-1]}"').at(location) from None
        raise
    row = builtin.collation_by_oid(oid)
    if row is not None and row.provider == "i":
        raise unsupported(f'collation "{row.name}"').at(location)
    return oid


def missing_collation(names: tuple[str, ...]) -> PgError:
    return PgError("42704", f'collation "{".".join(names)}" for encoding "UTF8" does not exist')


def column_collation(session: Session, names: tuple[str, ...], location: int, typoid: int) -> int:
    """The collation of a column of this type, given its COLLATE clause or () (GetColumnDefCollation)."""
    own = lookup.collation(typoid)
    if not names:
        return own
    given = comparing_collation(session, names, location)
    if not own:
        text = lookup.type_text(session, typoid)
        raise PgError("42804", f"collations are not supported by type {text}", location=location)
    return given


def collation_name(oid: int) -> str:
    """The name without its schema, as messages have it."""
    collation = builtin.collation_by_oid(oid)
    return collation.name if collation is not None else getattr(oid, "name", "???")
