"""CREATE [OR REPLACE] FUNCTION | PROCEDURE (CreateFunction, ProcedureCreate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import ObjectKind, check_owner
from pgrepl.catalog.facts.namespace import LANGUAGE_NAMES, SQL_LANGUAGE, TEMPORARY, routine_row, schema_for_creation
from pgrepl.catalog.facts.privileges import user_default_acl
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_proc
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.analyse.operators import MAX_ARGUMENTS
from pgrepl.expr.rewrite.inline import input_names
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CreateFunctionStmt
from pgrepl.statements.deletion import require_temporary_schema
from pgrepl.statements.routine.alter import RoutineOptions, read_options, with_settings
from pgrepl.statements.routine.call import language_of, language_oid
from pgrepl.statements.routine.parameters import (
    Parameters,
    check_internal,
    check_polymorphic,
    check_replaceable,
    interpret,
    record_uses,
    result_type,
    stored_body,
)
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def create_function(stmt: CreateFunctionStmt, session: Session) -> Result:
    schema, name = lookup.split_name(session, stmt.name)
    if schema == TEMPORARY:
        namespace = require_temporary_schema(session)
    else:
        namespace = schema_for_creation(session, schema)
    options = read_options(stmt.options, is_procedure=stmt.is_procedure)
    language = _language(stmt, options)
    if options.leakproof and not is_superuser(session):
        raise PgError("42501", "only superuser can define a leakproof function")
    parameters = interpret(session, stmt.parameters, is_procedure=stmt.is_procedure)
    result, retset = _result(session, stmt, parameters)
    if options.rows is not None and not retset:
        raise PgError("22023", "ROWS is not applicable when function does not return a set")
    body = _source(stmt, options, language)
    _check_signature(session, stmt, parameters, result)
    values: dict[str, Any] = {
        "datid": session.database_oid,
        "proname": name,
        "pronamespace": namespace,
        "prolang": language,
        "procost": 100.0 if options.cost is None else options.cost,
        "prorows": options.rows if options.rows is not None else 1000.0 if retset else 0.0,
        "provariadic": parameters.variadic,
        "prokind": "p" if stmt.is_procedure else "f",
        "prosecdef": bool(options.security_definer),
        "proleakproof": bool(options.leakproof),
        "proisstrict": bool(options.strict),
        "proretset": retset,
        "provolatile": options.volatility or "v",
        "proparallel": options.parallel or "u",
        "pronargs": len(parameters.types),
        "prorettype": result,
        "proargtypes": list(parameters.types),
        "proallargtypes": None if parameters.all_types is None else list(parameters.all_types),
        "proargmodes": None if parameters.modes is None else list(parameters.modes),
        "proargnames": None if parameters.names is None else list(parameters.names),
        "proargdefaults": [stored.to_json(expr) for expr in parameters.defaults] or None,
        "prosrc": body,
        "prosqlbody": None,
        "proconfig": with_settings(session, None, options.settings),
    }
    if stmt.body is not None:
        inputs = input_names(parameters.names, parameters.modes, len(parameters.types))
        values["prosqlbody"] = stored_body(session, name, inputs, parameters.types, stmt.body)
    _store(session, stmt, values)
    return Result("CREATE PROCEDURE" if stmt.is_procedure else "CREATE FUNCTION")


def _language(stmt: CreateFunctionStmt, options: RoutineOptions) -> int:
    if options.language is None:
        if stmt.body is None:
            raise PgError("42P13", "no language specified")
        return SQL_LANGUAGE
    return language_oid(options.language)


def _source(stmt: CreateFunctionStmt, options: RoutineOptions, language: int) -> str:
    """The text of the body (interpret_AS_clause)."""
    if stmt.body is not None and language != SQL_LANGUAGE:
        raise PgError("42P13", "inline SQL function body only valid for language SQL")
    if options.source is None:
        if stmt.body is None:
            raise PgError("42P13", "no function body specified")
        return ""
    if stmt.body is not None:
        raise PgError("42P13", "duplicate function body specified")
    if len(options.source) > 1:
        raise PgError("42P13", f'only one AS item needed for language "{LANGUAGE_NAMES[language]}"')
    return options.source[0]


def _result(session: Session, stmt: CreateFunctionStmt, parameters: Parameters) -> tuple[int, bool]:
    if stmt.is_procedure:
        return parameters.result or oids.VOID, False
    if stmt.return_type is None:
        if not parameters.result:
            raise PgError("42P13", "function result type must be specified")
        return parameters.result, False
    result, retset = result_type(session, stmt.return_type)
    if parameters.result and result != parameters.result:
        text = type_text(session, parameters.result)
        raise PgError("42P13", f"function result type must be {text} because of OUT parameters")
    return result, retset


def _check_signature(session: Session, stmt: CreateFunctionStmt, parameters: Parameters, result: int) -> None:
    if len(parameters.types) > MAX_ARGUMENTS:
        what = "procedures" if stmt.is_procedure else "functions"
        raise PgError("54023", f"{what} cannot have more than {MAX_ARGUMENTS} arguments")
    check_polymorphic(session, result, parameters.types)
    check_internal(result, parameters.types)
    for typoid, mode in zip(parameters.all_types or (), parameters.modes or "", strict=True):
        if mode in "ot":
            check_polymorphic(session, typoid, parameters.types)
            check_internal(typoid, parameters.types)


def _store(session: Session, stmt: CreateFunctionStmt, values: dict[str, Any]) -> None:
    where = {"datid": values["datid"], "proname": values["proname"], "pronamespace": values["pronamespace"]}
    same = [row for row in store.rows(session, pg_proc, **where) if row.proargtypes == values["proargtypes"]]
    if same:
        (old,) = same
        if not stmt.replace:
            message = f'function "{old.proname}" already exists with same argument types'
            raise PgError("42723", message)
        check_owner(session, "procedure" if old.prokind == "p" else "function", old.proname, old.proowner)
        new = old._replace(**values)
        check_replaceable(session, old, new)
        oid = old.oid
        store.update(session, pg_proc, {"oid": oid}, **values)
    else:
        oid = store.new_oid(session)
        acl = user_default_acl(session, ObjectKind.FUNCTION, session.role, values["pronamespace"])
        store.insert(session, pg_proc, **values, oid=oid, proowner=session.role, proacl=acl)
    row = routine_row(session, oid)
    assert row is not None
    record_uses(session, row, replaced=bool(same))
    language = language_of(row)
    if language is not None:
        with session.settings.of_routine(row.proconfig):
            language.validate(session, row)
