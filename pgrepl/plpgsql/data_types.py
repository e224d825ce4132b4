"""The types of declarations: type names, %TYPE and %ROWTYPE (pl_comp.c)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.catalog.row_types import rowtype_relation
from pgrepl.catalog.user_types import type_row
from pgrepl.errors import PgError
from pgrepl.expr import lookup, typefacts
from pgrepl.expr.typenames import type_name_text, type_of_name
from pgrepl.plpgsql.datums import DataType, Rec, Var, find_name
from pgrepl.sql import nodes
from pgrepl.sql.parser import parse_type_name
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.plpgsql.compilation import Compilation

REFCURSOR = DataType(1790, -1, oids.DEFAULT_COLLATION, "refcursor")

# kinds of relations with a row type (LookupTypeName of %ROWTYPE): tables, views, composite types, and so on
_WITH_ROWS = frozenset("rvmcfp")


def type_text(session: Session, oid: int) -> str:
    return typefacts.type_text(session, oid)


def data_type(session: Session, oid: int, typmod: int = -1, name: str = "", collation: int | None = None) -> DataType:
    """The description of a type (build_datatype)."""
    base = typefacts.base(oid)
    is_row = base == oids.RECORD or typefacts.is_complex(base)
    own = typefacts.collation(oid)
    return DataType(oid, typmod, own if collation is None else collation, name or type_text(session, oid), is_row)


def named_type(compilation: Compilation, key: tuple[str, ...], look_up: Callable[[], DataType]) -> DataType:
    """The type of a declaration: the one that its name meant when the session first compiled the function. If that is
    gone, or its relation has changed, the one that the name means now; a row variable may have none, as long as nothing
    is done with it (revalidate_rectypeid)."""
    session, types = compilation.session, compilation.first.types
    known, state = types.get(key, (None, ""))
    if known is not None and _state(session, int(known.oid)) == state:
        return replace(known, oid=session.type_of(int(known.oid)))
    try:
        found = look_up()
    except PgError:
        if known is None or not known.is_row:
            raise
        return replace(known, is_gone=True)
    types[key] = found, _state(session, int(found.oid))
    return found


def _state(session: Session, oid: int) -> str:
    """What a type is whose name need not be looked up again."""
    row = None if oid < oids.FIRST_USER_OID else type_row(session, oid)
    if oid < oids.FIRST_USER_OID or (row is not None and row.typtype != "c"):
        return "there"
    return repr(rowtype_relation(session, oid))


class RecordError(PgError):
    """A record variable is not what an expression takes it for."""


def missing_type(kind: DataType) -> PgError:
    return RecordError("42704", f'type "{kind.name}" does not exist')


def type_of_text(compilation: Compilation, text: str, begin: int) -> DataType:
    """The type that a name means (parse_datatype)."""
    session = compilation.session
    try:
        name = parse_type_name(text)
        if name.setof:
            raise PgError("42601", f'invalid type name "{text}"')
        oid, typmod = type_of_name(session, name)
    except PgError as error:
        if error.sqlstate == "42601" and error.message.startswith("syntax error"):
            error.with_context(f'invalid type name "{text}"')
        raise compilation.placed(error, begin) from None
    return data_type(session, oid, typmod, type_name_text(name))


def type_like(compilation: Compilation, names: tuple[str, ...]) -> DataType:
    """name%TYPE: of a variable, or of a column of a relation (plpgsql_parse_wordtype, …_cwordtype)."""
    item, used = find_name(compilation.names, names)
    if item is not None:
        datum = compilation.function.datums[item.number]
        if used == len(names) and isinstance(datum, (Var, Rec)):
            return datum.type
    if len(names) == 1:
        raise PgError("42704", f'variable "{names[0]}" does not exist')
    session = compilation.session
    found = _relation(session, names[:-1])
    column = next((a for a in found.attributes if a.name == names[-1] and not a.dropped), None)
    if column is None:
        raise PgError("42703", f'column "{names[-1]}" of relation "{names[-2]}" does not exist')
    return data_type(session, column.type, column.typmod, collation=column.collation)


def row_type_of(compilation: Compilation, names: tuple[str, ...]) -> DataType:
    """name%ROWTYPE (plpgsql_parse_wordrowtype, …_cwordrowtype)."""
    session = compilation.session
    found = _relation(session, names)
    if found.kind not in _WITH_ROWS:
        raise PgError("42809", f'relation "{names[-1]}" does not have a composite type')
    return data_type(session, lookup.row_type(session, found.oid), name=names[-1])


def _relation(session: Session, names: tuple[str, ...]) -> Relation:
    schema = names[-2] if len(names) > 1 else None
    found = find_relation(session, nodes.RangeVar(names[-1], schema))
    assert found is not None
    return found


def array_of(session: Session, kind: DataType) -> DataType:
    """The array of a type (plpgsql_build_datatype_arrayof)."""
    if typefacts.element(kind.oid):
        return kind
    array = typefacts.array_over(kind.oid)
    if not array:
        text = type_text(session, kind.oid)
        raise PgError("42704", f"could not find array type for data type {text}")
    return data_type(session, array, kind.typmod, collation=kind.collation)
