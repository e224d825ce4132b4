"""Definitions as text (pg_get_expr, pg_get_constraintdef …) and comments (obj_description …)."""

from __future__ import annotations

import json
from typing import Any

from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.comments import comment_on, shared_comment_on
from pgrepl.catalog.objects import describe_object_or_none
from pgrepl.catalog.relation import relation_or_none
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_description
from pgrepl.expr import definitions
from pgrepl.expr.context import Call
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.partition import bound_from_json, bound_text
from pgrepl.expr.partition_constraint import partition_constraint_text
from pgrepl.query.system.names import system_table

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
    from pgrepl.expr.trigger_definition import trigger_definition

    return trigger_definition(call.session, oid, pretty)


@implements("pg_get_viewdef", "pg_get_viewdef_ext", context=True)
def pg_get_viewdef(call: Call, oid: int, pretty: bool = False) -> str | None:
    return definitions.view_definition(call.session, oid, pretty)


@implements("pg_get_viewdef_wrap", context=True)
def pg_get_viewdef_wrap(call: Call, oid: int, columns: int) -> str | None:
    return definitions.view_definition(call.session, oid, True)


@implements("pg_get_viewdef_name", "pg_get_viewdef_name_ext", context=True)
def pg_get_viewdef_name(call: Call, name: str, pretty: bool = False) -> str | None:
    from pgrepl.query.system.names import relation_named

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
