"""Names: current_user, pg_get_userbyid, format_type, visibility, to_regclass and the like."""

from __future__ import annotations

from typing import Any

from pgrepl.catalog.facts import namespace
from pgrepl.catalog.facts.namespace import current_schemas, is_temporary, routine, schema_row, temporary_schema
from pgrepl.catalog.facts.relation import Relation, find_relation, range_var, relation_is_visible, relation_or_none
from pgrepl.catalog.facts.roles import role_display, role_row
from pgrepl.catalog.facts.user_types import rowtype_relation
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.catalog.session.session import Session
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import is_visible
from pgrepl.expr.analyse.casts import find_type
from pgrepl.expr.analyse.lookup import read_value
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.builtin import (
    BuiltinCatalog,
    conversions,
    opclasses,
    opfamilies,
    ts_configs,
    ts_dicts,
    ts_parsers,
    ts_templates,
    type_by_oid,
)
from pgrepl.types.input_checks import NAMES, encoding_name, width
from pgrepl.types.names import format_type as type_name


def relation_named(session: Session, text: str) -> Relation:
    """The relation that a text names (textToQualifiedNameList, RangeVarGetRelid)."""
    parts = split_identifiers(text, ".")
    if not parts:
        raise PgError("42602", "invalid name syntax")
    return find_relation(session, range_var(parts))


def system_table(session: Session, name: str) -> int | None:
    """The OID of a system catalog in pg_catalog; None: there is none of this name."""
    rel = session.system_relations().by_name("pg_catalog", name)
    return None if rel is None else rel.oid


# --- names ------------------------------------------------------------------------------------------------------------


implements = Family()


@implements("current_database", context=True)
def current_database(call: Call) -> str:
    return call.session.database.name


@implements("current_user", context=True)
def current_user(call: Call) -> str:
    return role_display(call.session, call.session.role)


@implements("session_user", context=True)
def session_user(call: Call) -> str:
    return role_display(call.session, call.session.user)


@implements("current_schema", context=True)
def current_schema(call: Call) -> str | None:
    listed = current_schemas(call.session, False)
    return listed[0] if listed else None


@implements("current_schemas", context=True)
def current_schemas_function(call: Call, implicit: bool) -> PgArray:
    return array_of(oids.NAME, current_schemas(call.session, implicit))


@implements("pg_get_userbyid", context=True)
def pg_get_userbyid(call: Call, oid: int) -> str:
    row = role_row(call.session, oid)
    return f"unknown (OID={oid})" if row is None else str(row.rolname)


@implements("format_type", context=True)
def format_type(call: Call, oid: int | None, typmod: int | None) -> str | None:
    if oid is None:
        return None
    session = call.session
    return type_name(session.type_of(oid), typmod, lambda other: lookup.type_name(session, other))


@implements("pg_table_is_visible", context=True)
def pg_table_is_visible(call: Call, oid: int) -> bool | None:
    rel = relation_or_none(call.session, oid)
    return None if rel is None else relation_is_visible(call.session, rel)


@implements("pg_type_is_visible", context=True)
def pg_type_is_visible(call: Call, oid: int) -> bool | None:
    named = type_by_oid(call.session.type_of(oid)) or rowtype_relation(call.session, oid)
    return None if named is None else find_type(call.session, None, named.name) == oid


@implements("pg_function_is_visible", context=True)
def pg_function_is_visible(call: Call, oid: int) -> bool | None:
    called = routine(call.session, oid)
    return None if called is None else is_visible(call.session, called)


@implements("PG_encoding_to_char")
def pg_encoding_to_char(encoding: int) -> str:
    return NAMES[encoding] if 0 <= encoding < len(NAMES) else ""


@implements("PG_char_to_encoding")
def pg_char_to_encoding(name: str) -> int:
    encoding = encoding_name(name)
    return -1 if encoding is None else NAMES.index(encoding)


@implements("pg_encoding_max_length_sql")
def pg_encoding_max_length(encoding: int) -> int | None:
    return width(NAMES[encoding]) if 0 <= encoding < len(NAMES) else None


@implements("getdatabaseencoding", context=True)
def database_encoding(call: Call) -> str:
    return call.session.settings.get("server_encoding")


@implements("pg_client_encoding", context=True)
def pg_client_encoding(call: Call) -> str:
    return call.session.settings.get("client_encoding")


@implements("pg_my_temp_schema", context=True)
def pg_my_temp_schema(call: Call) -> int:
    return temporary_schema(call.session)


@implements("pg_is_other_temp_schema", context=True)
def pg_is_other_temp_schema(call: Call, oid: int) -> bool:
    schema = schema_row(call.session, oid)
    return schema is not None and is_temporary(schema.nspname) and oid != temporary_schema(call.session)


def _in_pg_catalog(kind: str, rows: BuiltinCatalog[Any]) -> None:
    """All of these objects are in pg_catalog, which is always searched."""

    @implements(f"pg_{kind}_is_visible")
    def is_visible(oid: int) -> bool | None:
        return None if rows.get(oid) is None else True


_OWN: dict[str, BuiltinCatalog[Any]] = {
    "opclass": opclasses, "opfamily": opfamilies, "conversion": conversions, "ts_parser": ts_parsers,
    "ts_template": ts_templates, "ts_dict": ts_dicts, "ts_config": ts_configs,
}  # fmt: skip
for _kind, _rows in _OWN.items():
    _in_pg_catalog(_kind, _rows)


@implements("pg_operator_is_visible", context=True)
def pg_operator_is_visible(call: Call, oid: int) -> bool | None:
    operator = namespace.operator(call.session, oid)
    return None if operator is None else namespace.is_operator_visible(call.session, operator)


@implements("pg_collation_is_visible", context=True)
def pg_collation_is_visible(call: Call, oid: int) -> bool | None:
    return namespace.is_collation_visible(call.session, oid)


@implements("get_current_ts_config", context=True)
def get_current_ts_config(call: Call) -> int:
    return int(read_value(call.session, call.session.settings.get("default_text_search_config"), oids.REGCONFIG, -1))


@implements("pg_collation_for", context=True)
def pg_collation_for(call: Call, value: Any) -> str | None:
    typoid = call.argtypes[0]
    if not lookup.is_collatable(typoid) and typoid != oids.UNKNOWN:
        text = lookup.type_text(call.session, typoid)
        raise PgError("42804", f"collations are not supported by type {text}")
    return namespace.collation_text(call.session, call.collation) if call.collation else None


# errors that have no soft form: the parser's, and those of type modifiers
_HARD = (
    "cross-database references", "improper qualified name", "improper relation name", "length for type", "syntax error",
    "unterminated quoted identifier",
)  # fmt: skip


def _to_reg(name: str, typoid: int) -> None:
    @implements(f"to_{name}", context=True)
    def find(call: Call, text: str) -> int | None:
        try:
            return int(read_value(call.session, text, typoid, -1))
        except PgError as error:
            if error.message.startswith(_HARD):
                raise
            return None


for _name, _typoid in {
    "regclass": oids.REGCLASS, "regtype": oids.REGTYPE, "regrole": oids.REGROLE, "regnamespace": oids.REGNAMESPACE,
    "regproc": oids.REGPROC, "regprocedure": oids.REGPROCEDURE, "regoper": oids.REGOPER,
    "regoperator": oids.REGOPERATOR, "regcollation": oids.REGCOLLATION,
}.items():  # fmt: skip
    _to_reg(_name, _typoid)
