"""ALTER FUNCTION | PROCEDURE | ROUTINE: options, RENAME TO, OWNER TO, SET SCHEMA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog import store
from pgrepl.catalog.acl import ObjectKind, check_owner, check_privilege
from pgrepl.catalog.aclchange import with_new_owner
from pgrepl.catalog.classes import PG_PROC, ObjectAddress
from pgrepl.catalog.namespace import schema_for_creation, schema_name, schema_row
from pgrepl.catalog.roles import is_superuser, resolve_role
from pgrepl.catalog.routines import routine_row
from pgrepl.catalog.tables import pg_proc
from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterFunctionStmt
from pgrepl.sql.tags import command_tag
from pgrepl.statements.in_schema import check_may_give, check_may_move, depend_on_schema
from pgrepl.statements.routine.drop import routine_word
from pgrepl.statements.routine.find import find_routine
from pgrepl.statements.routine.options import read_options, with_settings

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def alter_function(stmt: AlterFunctionStmt, session: Session) -> Result:
    routine = find_routine(session, stmt.kind, stmt.routine)
    if stmt.new_owner is not None:
        _change_owner(session, routine, resolve_role(session, stmt.new_owner))
    elif stmt.new_schema is not None:
        _move(session, routine, schema_for_creation(session, stmt.new_schema))
    else:
        check_owner(session, routine_word(routine), routine.proname, routine.proowner)
        if stmt.new_name is not None:
            _rename(session, routine, stmt.new_name)
        else:
            _change(session, stmt, routine)
    return Result(command_tag(stmt))


def _change(session: Session, stmt: AlterFunctionStmt, routine: pg_proc) -> None:
    """As AlterFunction does."""
    options = read_options(stmt.options, is_procedure=routine.prokind == "p")
    if options.leakproof and not is_superuser(session):
        raise PgError("42501", "only superuser can define a leakproof function")
    if options.rows is not None and not routine.proretset:
        raise PgError("22023", "ROWS is not applicable when function does not return a set")
    given = {
        "provolatile": options.volatility,
        "proisstrict": options.strict,
        "prosecdef": options.security_definer,
        "proleakproof": options.leakproof,
        "procost": options.cost,
        "prorows": options.rows,
        "proparallel": options.parallel,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if options.settings:
        values["proconfig"] = with_settings(session, routine.proconfig, options.settings)
    store.update(session, pg_proc, {"oid": routine.oid}, **values)


def _rename(session: Session, routine: pg_proc, name: str) -> None:
    """As AlterObjectRename_internal does."""
    _refuse_same(session, routine, name, routine.pronamespace)
    schema = schema_row(session, routine.pronamespace)
    assert schema is not None
    check_privilege(session, ObjectKind.SCHEMA, schema, "CREATE", schema.nspname)
    store.update(session, pg_proc, {"oid": routine.oid}, proname=name)


def _refuse_same(session: Session, routine: pg_proc, name: str, namespace: int) -> None:
    """As IsThereFunctionInNamespace does."""
    where = {"datid": session.database_oid, "proname": name, "pronamespace": namespace}
    for row in store.rows(session, pg_proc, **where):
        if row.proargtypes == routine.proargtypes:
            types = ", ".join(typefacts.type_text(session, typoid) for typoid in routine.proargtypes)
            schema = schema_name(session, namespace)
            raise PgError("42723", f'function {name}({types}) already exists in schema "{schema}"')


def reassign_routine(session: Session, oid: int, owner: int) -> None:
    row = routine_row(session, oid)
    assert row is not None
    _change_owner(session, row, owner)


def _change_owner(session: Session, routine: pg_proc, owner: int) -> None:
    """As AlterObjectOwner_internal does."""
    if routine.proowner == owner:
        return
    word = routine_word(routine)
    check_may_give(session, word, routine.proname, routine.proowner, routine.pronamespace, owner)
    acl = with_new_owner(routine.proacl, routine.proowner, owner)
    store.update(session, pg_proc, {"oid": routine.oid}, proowner=owner, proacl=acl)


def _move(session: Session, routine: pg_proc, namespace: int) -> None:
    """As AlterObjectNamespace_internal does."""
    check_owner(session, routine_word(routine), routine.proname, routine.proowner)
    check_may_move(session, routine.pronamespace, namespace)
    if namespace == routine.pronamespace:
        return
    _refuse_same(session, routine, routine.proname, namespace)
    store.update(session, pg_proc, {"oid": routine.oid}, pronamespace=namespace)
    depend_on_schema(session, ObjectAddress(PG_PROC, routine.oid), namespace)
