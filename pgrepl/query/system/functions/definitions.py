"""Definitions as text (pg_get_expr, pg_get_functiondef …), comments, functions of information_schema, and objects that
only initdb makes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pgrepl.catalog.facts.namespace import routine
from pgrepl.catalog.facts.objects import PLPGSQL, comment_on, describe_object_or_none, shared_comment_on
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_description
from pgrepl.expr.catalog_trees import bound_from_json, bound_text
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.partition_constraint import partition_constraint_text
from pgrepl.expr.print import definitions, print_routine
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.expr.print.print_routine import trigger_definition
from pgrepl.ground.errors import PgError
from pgrepl.query.system.functions.names import relation_named, system_table
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import Proc, ts_parsers
from pgrepl.types.input_checks import width
from pgrepl.types.names import format_type

implements = Family()


@implements("pg_get_expr", "pg_get_expr_ext", context=True)
def pg_get_expr(call: Call, node: str, relid: int, pretty: bool = False) -> str | None:
    session = call.session
    if relid and relation_or_none(session, relid) is None:
        return None
    texts = _known_texts(session)
    key = node, relid, pretty
    if key not in texts:
        texts[key] = _expression_text(session, node, relid, pretty)
    return texts[key]


def _known_texts(session: Session) -> dict[tuple[str, int, bool], str]:
    """Texts of stored expressions, kept until a definition or a setting changes: tools ask for all of them."""
    state, place = session.settings.state, ("expression texts", session.database_oid)
    known: tuple[object, dict[tuple[str, int, bool], str]] | None = session.derived.get(place)
    if known is None or known[0] is not state:
        known = session.derived[place] = state, {}
    return known[1]


def _expression_text(session: Session, node: str, relid: int, pretty: bool) -> str:
    value: Any = json.loads(node)
    if isinstance(value, dict) and "strategy" in value:
        return bound_text(session, bound_from_json(value, session))
    return stored_expression_text(session, value, relid, pretty)


@implements("pg_get_constraintdef", "pg_get_constraintdef_ext", context=True)
def pg_get_constraintdef(call: Call, oid: int, pretty: bool = False) -> str | None:
    return definitions.constraint_definition(call.session, oid, pretty)


@implements("pg_get_indexdef", "pg_get_indexdef_ext", context=True)
def pg_get_indexdef(call: Call, oid: int, column: int = 0, pretty: bool = False) -> str | None:
    return definitions.index_definition(call.session, oid, column, pretty)


@implements("pg_get_triggerdef", "pg_get_triggerdef_ext", context=True)
def pg_get_triggerdef(call: Call, oid: int, pretty: bool = False) -> str | None:
    return trigger_definition(call.session, oid, pretty)


@implements("pg_get_viewdef", "pg_get_viewdef_ext", context=True)
def pg_get_viewdef(call: Call, oid: int, pretty: bool = False) -> str | None:
    return definitions.view_definition(call.session, oid, pretty)


@implements("pg_get_viewdef_wrap", context=True)
def pg_get_viewdef_wrap(call: Call, oid: int, columns: int) -> str | None:
    return definitions.view_definition(call.session, oid, True)


@implements("pg_get_viewdef_name", "pg_get_viewdef_name_ext", context=True)
def pg_get_viewdef_name(call: Call, name: str, pretty: bool = False) -> str | None:
    return definitions.view_definition(call.session, relation_named(call.session, name).oid, pretty)


@implements(
    "pg_get_ruledef", "pg_get_ruledef_ext", "pg_get_statisticsobjdef", "pg_get_statisticsobjdef_columns",
    "pg_get_statisticsobjdef_expressions", "pg_statistics_obj_is_visible",
)  # fmt: skip
def of_nothing(oid: int, pretty: bool = False) -> None:
    """There are no rules and no extended statistics."""


@implements("pg_get_partkeydef", context=True)
def pg_get_partkeydef(call: Call, oid: int) -> str | None:
    return definitions.partition_key_definition(call.session, oid)


@implements("pg_get_partition_constraintdef", context=True)
def pg_get_partition_constraintdef(call: Call, oid: int) -> str | None:
    return partition_constraint_text(call.session, oid) or None


@implements("pg_describe_object", context=True)
def pg_describe_object(call: Call, classid: int, objid: int, subid: int) -> str | None:
    return describe_object_or_none(call.session, ObjectAddress(classid, objid, subid))


# --- comments ---------------------------------------------------------------------------------------------------------


@implements("obj_description(oid,name)", context=True)
def obj_description(call: Call, oid: int, catalog: str) -> str | None:
    classid = system_table(call.session, catalog)
    return None if classid is None else comment_on(call.session, classid, oid)


@implements("obj_description(oid)", context=True)
def obj_description_of_any(call: Call, oid: int) -> str | None:
    row = one(call.session, pg_description, datid=call.session.database_oid, objoid=oid, objsubid=0)
    return None if row is None else str(row.description)


@implements("col_description(oid,integer)", context=True)
def col_description(call: Call, oid: int, column: int) -> str | None:
    return comment_on(call.session, PG_CLASS, oid, column)


@implements("shobj_description(oid,name)", context=True)
def shobj_description(call: Call, oid: int, catalog: str) -> str | None:
    classid = system_table(call.session, catalog)
    return None if classid is None else shared_comment_on(call.session, classid, oid)


# --- routines ---------------------------------------------------------------------------------------------------------


_MAX_NAME = 63  # bytes


def _of_routine(name: str, text: Callable[[Session, Proc], str | None]) -> None:
    def answer(call: Call, oid: int) -> str | None:
        called = routine(call.session, oid)
        return None if called is None else text(call.session, called)

    implements(name, context=True)(answer)


_of_routine(
    "pg_get_function_arguments", lambda session, proc: print_routine.arguments_text(session, proc, defaults=True)
)
_of_routine("pg_get_function_identity_arguments", print_routine.arguments_text)
_of_routine("pg_get_function_result", print_routine.result_text)
_of_routine("pg_get_functiondef", lambda session, proc: print_routine.definition(session, proc.oid))
_of_routine("pg_get_function_sqlbody", lambda session, proc: print_routine.body_text(session, proc.oid))


@implements("pg_get_function_arg_default", context=True)
def pg_get_function_arg_default(call: Call, oid: int, number: int) -> str | None:
    called = routine(call.session, oid)
    return None if called is None else print_routine.default_text(call.session, called, number)


@implements("nameconcatoid")
def nameconcatoid(name: str, oid: int) -> str:
    """The name and the OID, shortened in the name, as information_schema tells routines apart."""
    suffix = f"_{oid}"
    kept = name.encode()[: _MAX_NAME - len(suffix)].decode(errors="ignore")
    return kept + suffix


# --- information schema -----------------------------------------------------------------------------------------------


_MOST_BYTES = 2**30  # of a text
_INTEGERS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64}
_FLOATS = {oids.FLOAT4: 24, oids.FLOAT8: 53}
_TIMES = (oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TIMETZ)
_FULL_PRECISION = 0xFFFF
_INTERVAL = "interval"


@implements("_pg_char_max_length(oid,integer)")
def char_max_length(typid: int, typmod: int) -> int | None:
    if typmod == -1:
        return None
    if typid in (oids.BPCHAR, oids.VARCHAR):
        return typmod - 4
    return typmod if typid in (oids.BIT, oids.VARBIT) else None


@implements("_pg_char_octet_length(oid,integer)", context=True)
def char_octet_length(call: Call, typid: int, typmod: int) -> int | None:
    if typid not in (oids.TEXT, oids.BPCHAR, oids.VARCHAR):
        return None
    length = char_max_length(typid, typmod)
    return (
        _MOST_BYTES
        if typmod == -1
        else None
        if length is None
        else length * width(call.session.settings.get("server_encoding"))
    )


@implements("_pg_numeric_precision(oid,integer)")
def numeric_precision(typid: int, typmod: int) -> int | None:
    if typid == oids.NUMERIC:
        return None if typmod == -1 else (typmod - 4) >> 16 & 0xFFFF
    return _INTEGERS.get(typid) or _FLOATS.get(typid)


@implements("_pg_numeric_precision_radix(oid,integer)")
def numeric_precision_radix(typid: int, typmod: int) -> int | None:
    if typid == oids.NUMERIC:
        return 10
    return 2 if typid in _INTEGERS or typid in _FLOATS else None


@implements("_pg_numeric_scale(oid,integer)")
def numeric_scale(typid: int, typmod: int) -> int | None:
    if typid == oids.NUMERIC:
        return None if typmod == -1 else (typmod - 4) & 0xFFFF
    return 0 if typid in _INTEGERS else None


@implements("_pg_datetime_precision(oid,integer)")
def datetime_precision(typid: int, typmod: int) -> int | None:
    if typid == oids.DATE:
        return 0
    if typid in _TIMES:
        return 6 if typmod < 0 else typmod
    if typid != oids.INTERVAL:
        return None
    precision = typmod & _FULL_PRECISION
    return 6 if typmod < 0 or precision == _FULL_PRECISION else precision


@implements("_pg_interval_type(oid,integer)")
def interval_type(typid: int, typmod: int) -> str | None:
    """The fields, as in INTERVAL YEAR TO MONTH; None without them."""
    if typid != oids.INTERVAL:
        return None
    fields = format_type(typid, typmod).removeprefix(_INTERVAL).lstrip("(0123456789)")
    return fields.strip().upper() if fields.startswith(" ") else None


# --- initdb -----------------------------------------------------------------------------------------------------------


@implements("pg_available_extensions")
def pg_available_extensions() -> Iterator[tuple[Any, ...]]:
    yield "plpgsql", "1.0", PLPGSQL


@implements("pg_available_extension_versions")
def pg_available_extension_versions() -> Iterator[tuple[Any, ...]]:
    yield "plpgsql", "1.0", True, True, False, "pg_catalog", None, PLPGSQL


@implements("pg_tablespace_location")
def pg_tablespace_location(oid: int) -> str:
    """Empty for the tablespaces of initdb, and there are no others."""
    if oid in (0, 1663, 1664):
        return ""
    raise PgError("58P01", f'could not read symbolic link "pg_tblspc/{oid}": No such file or directory')


@implements("pg_options_to_table")
def pg_options_to_table(options: PgArray) -> Iterator[tuple[str, str | None]]:
    """Each `name=value` as a row; an option without a value has NULL (untransformRelOptions)."""
    for option in options.items:
        if option is not None:
            name, equals, value = option.partition("=")
            yield name, value if equals else None


_TOKENS = (
    ("asciiword", "Word, all ASCII"), ("word", "Word, all letters"), ("numword", "Word, letters and digits"),
    ("email", "Email address"), ("url", "URL"), ("host", "Host"), ("sfloat", "Scientific notation"),
    ("version", "Version number"), ("hword_numpart", "Hyphenated word part, letters and digits"),
    ("hword_part", "Hyphenated word part, all letters"), ("hword_asciipart", "Hyphenated word part, all ASCII"),
    ("blank", "Space symbols"), ("tag", "XML tag"), ("protocol", "Protocol head"),
    ("numhword", "Hyphenated word, letters and digits"), ("asciihword", "Hyphenated word, all ASCII"),
    ("hword", "Hyphenated word, all letters"), ("url_path", "URL path"), ("file", "File or path name"),
    ("float", "Decimal notation"), ("int", "Signed integer"), ("uint", "Unsigned integer"), ("entity", "XML entity"),
)  # fmt: skip


@implements("ts_token_type_byid")
def ts_token_type(parser: int) -> Iterator[tuple[int, str, str]]:
    if ts_parsers.get(parser) is None:
        raise PgError("XX000", f"cache lookup failed for text search parser {parser}")
    for number, (alias, description) in enumerate(_TOKENS, 1):
        yield number, alias, description


@implements("ts_token_type_byname")
def ts_token_type_byname(parser: str) -> Iterator[tuple[int, str, str]]:
    parsers = ts_parsers.named(parser.removeprefix("pg_catalog."))
    if not parsers:
        raise PgError("42704", f'text search parser "{parser}" does not exist')
    return ts_token_type(parsers[0].oid)
