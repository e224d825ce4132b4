"""ALTER OPERATOR and DROP OPERATOR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog import operators, store
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER, PG_OPERATOR, ObjectAddress
from pgrepl.catalog.namespace import schema_for_creation, schema_or_none
from pgrepl.catalog.roles import resolve_role
from pgrepl.catalog.tables import pg_operator
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.operators import signature
from pgrepl.expr.scope import Scope
from pgrepl.expr.typenames import type_name_text, type_of_name_or_none
from pgrepl.query.result import Result
from pgrepl.sql.def_elem import get_boolean, get_qualified_name
from pgrepl.sql.nodes import AlterOperatorStmt, DefElem, DropOperatorStmt, OperatorName, TypeName
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.in_schema import check_may_drop, check_may_give, check_may_move, depend_on_schema
from pgrepl.statements.operator.links import link, operator_of_types, record_uses
from pgrepl.statements.operator.options import check_allowed, join_estimator, restriction_estimator
from pgrepl.types import oids
from pgrepl.types.builtin import Operator

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FIXED = ("leftarg", "rightarg", "function", "procedure")
_COLUMNS = {"restrict": "oprrest", "join": "oprjoin", "commutator": "oprcom", "negator": "oprnegate"}
_FLAGS = {"merges": "oprcanmerge", "hashes": "oprcanhash"}


def find_operator(session: Session, wanted: OperatorName) -> pg_operator:
    """The operator that a statement names, which must be a user's."""
    found = _find(session, wanted)
    row = operators.operator_row(session, found.oid)
    if row is None:
        check_owner(session, "operator", ".".join(wanted.name), BOOTSTRAP_SUPERUSER)
        raise unsupported(f"changing the built-in operator {found.name}")
    return row


def _find(session: Session, wanted: OperatorName) -> Operator:
    """As LookupOperWithArgs does."""
    left, right = (_operand(session, name) for name in (wanted.left, wanted.right))
    if not right:
        raise PgError("42601", "postfix operators are not supported")
    found = operator_of_types(session, wanted.name, left, right)
    if found is None:
        text = signature(Scope(session), wanted.name, left, right)
        raise PgError("42883", f"operator does not exist: {text}")
    return found


def _operand(session: Session, name: TypeName | None) -> int:
    if name is None:
        return 0
    found = type_of_name_or_none(session, name)
    if found is None:
        raise PgError("42704", f'type "{type_name_text(name)}" does not exist')
    return found


def alter_operator(stmt: AlterOperatorStmt, session: Session) -> Result:
    row = find_operator(session, stmt.operator)
    if stmt.new_owner is not None:
        reassign_operator(session, row.oid, resolve_role(session, stmt.new_owner))
    elif stmt.new_schema is not None:
        _move(session, row, stmt.new_schema)
    else:
        _change(session, row, stmt.options)
    return Result("ALTER OPERATOR")


def reassign_operator(session: Session, oid: int, owner: int) -> None:
    row = operators.operator_row(session, oid)
    assert row is not None
    if row.oprowner != owner:
        check_may_give(session, "operator", row.oprname, row.oprowner, row.oprnamespace, owner)
        store.update(session, pg_operator, {"oid": oid}, oprowner=owner)


def _move(session: Session, row: pg_operator, schema: str) -> None:
    namespace = schema_for_creation(session, schema)
    check_owner(session, "operator", row.oprname, row.oprowner)
    check_may_move(session, row.oprnamespace, namespace)
    if namespace == row.oprnamespace:
        return
    there = operators.operators_named(session, row.oprname, namespace)
    if any((o.left, o.right) == (row.oprleft, row.oprright) for o in there):
        key = f"({row.oprname}, {row.oprleft}, {row.oprright}, {namespace})"
        raise PgError(
            "23505",
            'duplicate key value violates unique constraint "pg_operator_oprname_l_r_n_index"',
            detail=f"Key (oprname, oprleft, oprright, oprnamespace)={key} already exists.",
        )
    store.update(session, pg_operator, {"oid": row.oid}, oprnamespace=namespace)
    depend_on_schema(session, ObjectAddress(PG_OPERATOR, row.oid), namespace)


def _change(session: Session, row: pg_operator, options: tuple[DefElem, ...]) -> None:
    """As AlterOperator does."""
    given = _read(options)
    check_owner(session, "operator", row.oprname, row.oprowner)
    values: dict[str, Any] = {_FLAGS[name]: value for name, value in given.items() if name in _FLAGS}
    if "restrict" in given:
        values["oprrest"] = restriction_estimator(session, given["restrict"]) if given["restrict"] else 0
    if "join" in given:
        values["oprjoin"] = join_estimator(session, given["join"]) if given["join"] else 0
    if "commutator" in given:
        values["oprcom"] = _other_operator(session, given["commutator"], row.oprright, row.oprleft)
    if "negator" in given:
        values["oprnegate"] = _other_operator(session, given["negator"], row.oprleft, row.oprright)
        if values["oprnegate"] == row.oid:
            raise PgError("42P13", "operator cannot be its own negator")
    _refuse_other_values(row, values)
    check_allowed(
        is_binary=bool(row.oprleft and row.oprright), is_boolean=row.oprresult == oids.BOOL,
        commutator="oprcom" in values, negator="oprnegate" in values, restrict=bool(values.get("oprrest")),
        join=bool(values.get("oprjoin")), merges=bool(values.get("oprcanmerge")), hashes=bool(values.get("oprcanhash")),
    )  # fmt: skip
    store.update(session, pg_operator, {"oid": row.oid}, **values)
    record_uses(session, row.oid)
    link(session, row.oid, commutator=values.get("oprcom", 0), negator=values.get("oprnegate", 0))


def _other_operator(session: Session, name: tuple[str, ...], left: int, right: int) -> int:
    """As ValidateOperatorReference does."""
    found = operator_of_types(session, name, left, right)
    if found is None or not found.code:
        problem = "does not exist" if found is None else "is only a shell"
        raise PgError("42883", f"operator {problem}: {signature(Scope(session), name, left, right)}")
    row = operators.operator_row(session, found.oid)
    check_owner(session, "operator", ".".join(name), BOOTSTRAP_SUPERUSER if row is None else row.oprowner)
    return found.oid


def _read(options: tuple[DefElem, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for option in options:
        if option.name in ("restrict", "join"):
            given[option.name] = None if option.value is None else get_qualified_name(option)
        elif option.name in ("commutator", "negator"):
            given[option.name] = get_qualified_name(option)
        elif option.name in _FLAGS:
            given[option.name] = get_boolean(option)
        else:
            problem = "cannot be changed" if option.name in _FIXED else "not recognized"
            raise PgError("42601", f'operator attribute "{option.name}" {problem}')
    return given


def _refuse_other_values(row: pg_operator, values: dict[str, Any]) -> None:
    """What plans may rely on is set once."""
    for name, column in {**_COLUMNS, **_FLAGS}.items():
        before = getattr(row, column)
        if column in values and column not in ("oprrest", "oprjoin") and before and values[column] != before:
            message = f'operator attribute "{name}" cannot be changed if it has already been set'
            raise PgError("42P17", message)


def drop_operator(stmt: DropOperatorStmt, session: Session) -> Result:
    addresses = []
    for wanted in stmt.operators:
        if stmt.missing_ok:
            missing = _missing(session, wanted)
            if missing is not None:
                session.notice("NOTICE", f"{missing} does not exist, skipping")
                continue
        found = _find(session, wanted)
        row = operators.operator_row(session, found.oid)
        owner = BOOTSTRAP_SUPERUSER if row is None else row.oprowner
        check_may_drop(session, "operator", ".".join(wanted.name), owner, operators.namespace_of(session, found.oid))
        addresses.append(ObjectAddress(PG_OPERATOR, found.oid))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result("DROP OPERATOR")


def _missing(session: Session, wanted: OperatorName) -> str | None:
    """What does not exist, as does_not_exist_skipping says; None: the operator exists."""
    if len(wanted.name) > 1 and schema_or_none(session, wanted.name[-2]) is None:
        return f'schema "{wanted.name[-2]}"'
    for name in filter(None, (wanted.left, wanted.right)):
        if len(name.names) > 1 and schema_or_none(session, name.names[-2]) is None:
            return f'schema "{name.names[-2]}"'
        if type_of_name_or_none(session, name) is None:
            return f'type "{type_name_text(name)}"'
    try:
        _find(session, wanted)
    except PgError as error:
        if error.sqlstate == "42883":
            return f"operator {'.'.join(wanted.name)}"
        raise
    return None
