"""CREATE OPERATOR (DefineOperator, OperatorCreate)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import operators, store
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.namespace import schema_for_creation
from pgrepl.catalog.tables import pg_operator
from pgrepl.catalog.user_types import check_usage
from pgrepl.errors import PgError
from pgrepl.expr import lookup
from pgrepl.expr.typenames import type_of_name
from pgrepl.query.result import Result
from pgrepl.sql.def_elem import get_boolean, get_qualified_name, get_type_name
from pgrepl.sql.nodes import DefElem, DefineStmt
from pgrepl.statements.operator.links import check_name, link, other_operator, record_uses
from pgrepl.statements.operator.options import (
    check_allowed,
    function_of,
    join_estimator,
    restriction_estimator,
)
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FLAGS = ("hashes", "merges")
_MERGES = ("sort1", "sort2", "ltcmp", "gtcmp")  # obsolete
_NAMES = ("function", "procedure", "commutator", "negator", "restrict", "join")


def create_operator(stmt: DefineStmt, session: Session) -> Result:
    schema, name = lookup.split_name(session, stmt.name)
    namespace = schema_for_creation(session, schema)
    given = _read(session, stmt.options)
    if "function" not in given:
        raise PgError("42P13", "operator function must be specified")
    left, right = (_operand(session, given.get(each)) for each in ("leftarg", "rightarg"))
    if not left and not right:
        raise PgError("42P13", "operator argument types must be specified")
    if not right:
        raise PgError(
            "42P13", "operator right argument type must be specified", detail="Postfix operators are not supported."
        )
    for typoid in filter(None, (left, right)):
        check_usage(session, typoid)
    function = function_of(session, given["function"], (left, right) if left else (right,))
    check_usage(session, function.rettype)
    values: dict[str, Any] = {
        "oprname": name, "oprnamespace": namespace, "oprkind": "b" if left else "l", "oprleft": left, "oprright": right,
        "oprresult": function.rettype, "oprcode": function.oid, "oprcanmerge": given.get("merges", False),
        "oprcanhash": given.get("hashes", False),
        "oprrest": restriction_estimator(session, given["restrict"]) if "restrict" in given else 0,
        "oprjoin": join_estimator(session, given["join"]) if "join" in given else 0,
    }  # fmt: skip
    _create(session, values, given)
    return Result("CREATE OPERATOR")


def _read(session: Session, options: tuple[DefElem, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for option in options:
        if option.name in ("leftarg", "rightarg"):
            given[option.name] = get_type_name(option)
            if given[option.name].setof:
                raise PgError("42P13", "SETOF type not allowed for operator argument")
        elif option.name in _NAMES:
            given["function" if option.name == "procedure" else option.name] = get_qualified_name(option)
        elif option.name in _FLAGS:
            given[option.name] = get_boolean(option)
        elif option.name in _MERGES:
            given["merges"] = True
        else:
            session.notice("WARNING", f'operator attribute "{option.name}" not recognized', sqlstate="42601")
    return given


def _operand(session: Session, name: Any) -> int:
    return 0 if name is None else type_of_name(session, replace(name, location=-1))[0]


def _create(session: Session, values: dict[str, Any], given: dict[str, Any]) -> None:
    name, namespace, left, right = (values[c] for c in ("oprname", "oprnamespace", "oprleft", "oprright"))
    check_name(name)
    check_allowed(
        is_binary=bool(left), is_boolean=values["oprresult"] == oids.BOOL, commutator="commutator" in given,
        negator="negator" in given, restrict="restrict" in given, join="join" in given, merges=values["oprcanmerge"],
        hashes=values["oprcanhash"],
    )  # fmt: skip
    named = operators.operators_named(session, name, namespace)
    known = next((o for o in named if (o.left, o.right) == (left, right)), None)
    if known is not None and known.code:
        raise PgError("42723", f"operator {name} already exists")
    shell = None if known is None else operators.operator_row(session, known.oid)
    if shell is not None:
        check_owner(session, "operator", name, shell.oprowner)
    self = namespace, name, left, right
    commutator = negator = 0
    if "commutator" in given:
        commutator = other_operator(session, given["commutator"], right, left, self)
    if "negator" in given:
        negator = other_operator(session, given["negator"], left, right, self)
        if not negator or (shell is not None and negator == shell.oid):
            raise PgError("42P13", "operator cannot be its own negator")
    values |= {"oprowner": session.role, "oprcom": commutator, "oprnegate": negator}
    if shell is None:
        oid = store.new_oid(session)
        store.insert(session, pg_operator, datid=session.database_oid, oid=oid, **values)
    else:
        oid = shell.oid
        store.update(session, pg_operator, {"oid": oid}, **values)
    record_uses(session, oid)
    if "commutator" in given and not commutator:
        commutator = oid
        store.update(session, pg_operator, {"oid": oid}, oprcom=oid)
    link(session, oid, commutator=commutator, negator=negator)
