"""SET, RESET, SHOW and DISCARD; ALTER ROLE, DATABASE and SYSTEM … SET.

Settings that PostgreSQL writes to postgresql.auto.conf are in the catalog. They apply to sessions that begin
afterwards, and at pg_reload_conf().
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import check_owner
from pgrepl.catalog.facts.roles import (
    database_by_name,
    has_attribute,
    is_admin_of_role,
    is_superuser,
    resolve_role,
    role_row,
)
from pgrepl.catalog.locks.notifications import import_snapshot
from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.parameters import check_custom_name
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, update
from pgrepl.expr.analyse.casts import type_of_name
from pgrepl.ground.errors import PgError
from pgrepl.query.portal import close_all
from pgrepl.query.result import Result, ResultColumn
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import (
    AConst,
    AlterRoleSetStmt,
    AlterSystemStmt,
    DefElem,
    DiscardStmt,
    FloatText,
    TypeCast,
    VariableSetKind,
    VariableSetStmt,
    VariableShowStmt,
)
from pgrepl.statements.roles.role import check_not_reserved
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

TEXT = 25


def execute_set(stmt: VariableSetStmt, session: Session) -> Result:
    """SET and RESET (ExecSetVariableStmt)."""
    kind = stmt.kind
    settings = session.settings
    if kind is VariableSetKind.RESET_ALL:
        settings.reset_all()
        return Result("RESET")
    if kind is VariableSetKind.MULTI:
        return _set_several(stmt, session)
    assert stmt.name is not None
    if kind is VariableSetKind.RESET:
        settings.set(stmt.name, None)
        return Result("RESET")
    if stmt.local:
        _warn_outside_block(session, "SET LOCAL")
    settings.set(stmt.name, setting_text(session, stmt), local=stmt.local)
    return Result("SET")


def _set_several(stmt: VariableSetStmt, session: Session) -> Result:
    options = [item for item in stmt.args if isinstance(item, DefElem)]
    if stmt.name == "TRANSACTION":
        _warn_outside_block(session, "SET TRANSACTION")
        set_transaction(session, options)
    elif stmt.name == "SESSION CHARACTERISTICS":
        for option in options:
            session.settings.set(f"default_{option.name}", _argument_text(session, option.value))
    else:
        if stmt.local:
            raise PgError("0A000", "SET LOCAL TRANSACTION SNAPSHOT is not implemented")
        _warn_outside_block(session, "SET TRANSACTION")
        _import_snapshot(session, _argument_text(session, stmt.args[0]))
    return Result("SET")


def _import_snapshot(session: Session, identifier: str) -> None:
    """SET TRANSACTION SNAPSHOT (ImportSnapshot)."""
    if session.transaction.snapshot_taken or session.transaction.savepoints:
        raise PgError("25001", "SET TRANSACTION SNAPSHOT must be called before any query")
    if session.settings.get("transaction_isolation") not in ("repeatable read", "serializable"):
        raise PgError(
            "0A000", "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
        )
    if identifier.strip("0123456789ABCDEF-"):
        raise PgError("22023", f'invalid snapshot identifier: "{identifier}"')
    import_snapshot(session, identifier)


def set_transaction(session: Session, options: Iterable[DefElem]) -> None:
    """The characteristics of the running transaction."""
    for option in options:
        session.settings.set(option.name, _argument_text(session, option.value), local=True)


def _warn_outside_block(session: Session, what: str) -> None:
    """As WarnNoTransactionBlock: a routine need not know."""
    if session.transaction.is_outside_block:
        session.notice("WARNING", f"{what} can only be used in transaction blocks", sqlstate="25P01")


def setting_text(session: Session, stmt: VariableSetStmt) -> str | None:
    """The value a SET clause gives, as text; None if it resets (ExtractSetVariableArgs)."""
    if stmt.name is None or stmt.kind not in (VariableSetKind.CURRENT, VariableSetKind.VALUE):
        return None
    if stmt.kind is VariableSetKind.CURRENT:
        return session.settings.get(stmt.name)
    key = stmt.name.lower()
    if len(stmt.args) != 1 and key not in parameters.LIST_INPUT:
        raise PgError("22023", f"SET {stmt.name} takes only one argument")
    return ", ".join(_argument_text(session, arg, quote=key in parameters.LIST_QUOTE) for arg in stmt.args)


def _argument_text(session: Session, argument: object, *, quote: bool = False) -> str:
    if isinstance(argument, TypeCast):
        return _interval_text(session, argument)
    if isinstance(argument, AConst):
        # a constant of the grammar is a number or a string; only a string is quoted in a list of names
        text = str(argument.value).lower() if isinstance(argument.value, bool) else str(argument.value)
        return quote_identifier(text) if quote and isinstance(argument.value, str) else text
    if isinstance(argument, FloatText):
        return argument.text
    if isinstance(argument, bool):
        return "on" if argument else "off"
    text = str(argument)
    return quote_identifier(text) if quote and isinstance(argument, str) else text


def _interval_text(session: Session, cast: TypeCast) -> str:
    """SET TIME ZONE INTERVAL '…' HOUR TO MINUTE: the interval in its normal form."""
    assert isinstance(cast.arg, AConst)
    typoid, typmod = type_of_name(session, cast.type_name)
    style = TextStyle(intervalstyle=session.settings.get("intervalstyle"))
    value = read_text(str(cast.arg.value), typoid, typmod, style)
    return f"INTERVAL '{write_text(value, typoid, style)}'"


def execute_show(stmt: VariableShowStmt, session: Session) -> Result:
    """SHOW name, SHOW ALL (GetPGVariable)."""
    settings = session.settings
    if stmt.name.lower() == "all":
        columns = (ResultColumn("name", TEXT), ResultColumn("setting", TEXT), ResultColumn("description", TEXT))
        shown = [p for p in parameters.all_parameters() if settings.may_examine(p.name)]
        return Result("SHOW", columns, [(p.name, settings.get(p.name), p.short_desc) for p in shown])
    name = settings.canonical_name(stmt.name)
    settings.check_may_examine(name)
    return Result("SHOW", (ResultColumn(name, TEXT),), [(settings.get(name),)])


def execute_discard(stmt: DiscardStmt, session: Session) -> Result:
    """PLANS does nothing, as no plans are kept; ALL resets the session (DiscardAll)."""
    target = stmt.target.upper()
    if target == "ALL":
        require_no_block(session, "DISCARD ALL")
        close_all(session)
        session.settings.set("session_authorization", None)
        session.settings.reset_all()
        session.prepared.clear()
        if session.transaction.notifications is not None:
            session.transaction.notifications.unlisten(None)
        session.transaction.locks.release_session_locks()
    if target in ("ALL", "TEMP", "TEMPORARY"):
        from pgrepl.statements.deletion import discard_temporary

        discard_temporary(session)
    if target in ("ALL", "SEQUENCES"):
        from pgrepl.catalog.facts.sequences import discard

        discard(session)
    return Result(f"DISCARD {'TEMP' if target == 'TEMPORARY' else target}")


# --- role settings ----------------------------------------------------------------------------------------------------


def alter_role_set(stmt: AlterRoleSetStmt, session: Session) -> Result:
    """ALTER ROLE … SET and RESET (AlterRoleSet)."""
    role = 0
    if stmt.role is not None:
        check_not_reserved(stmt.role)
        role = resolve_role(session, stmt.role)
        _check_may_alter(session, role)
    database = 0
    if stmt.database is not None:
        row = database_by_name(session, stmt.database)
        database = row.oid
        if stmt.role is None:
            check_owner(session, "database", stmt.database, row.datdba)
    if not role and not database and not is_superuser(session):
        raise PgError(
            "42501",
            "permission denied to alter setting",
            detail="Only roles with the SUPERUSER attribute may alter settings globally.",
        )
    alter_setting(session, database, role, stmt.setting)
    return Result("ALTER ROLE")


def _check_may_alter(session: Session, role: int) -> None:
    row = role_row(session, role)
    assert row is not None
    if row.rolsuper:
        if not is_superuser(session):
            raise PgError(
                "42501",
                "permission denied to alter role",
                detail="Only roles with the SUPERUSER attribute may alter roles with the SUPERUSER attribute.",
            )
    elif role != session.role and not (
        has_attribute(session, session.role, "rolcreaterole") and is_admin_of_role(session, session.role, role)
    ):
        raise PgError(
            "42501",
            "permission denied to alter role",
            detail=f'Only roles with the CREATEROLE attribute and the ADMIN option on role "{row.rolname}" '
            "may alter this role.",
        )


def alter_setting(session: Session, database: int, role: int, stmt: VariableSetStmt) -> None:
    """As AlterSetting: one row for a database and role, a list of name=value."""
    text = setting_text(session, stmt)
    where = {"setdatabase": database, "setrole": role}
    row = one(session, tables.pg_db_role_setting, **where)
    before: list[str] = [] if row is None else list(row.setconfig)
    if stmt.kind is VariableSetKind.RESET_ALL:
        after = [item for item in before if not may_reset(session, item.partition("=")[0])]
    elif row is None and text is None:
        return
    else:
        assert stmt.name is not None
        name = checked_name(session, stmt.name, text)
        after = with_item(before, name, text)
    if row is None:
        if after:
            insert(session, tables.pg_db_role_setting, **where, setconfig=after)
    elif after:
        update(session, tables.pg_db_role_setting, where, setconfig=after)
    else:
        delete(session, tables.pg_db_role_setting, **where)


def with_item(items: list[str], name: str, text: str | None) -> list[str]:
    """The list with the item in its old place, or at the end if it is new; without the item if `text` is None."""
    if text is None:
        return [item for item in items if not item.startswith(f"{name}=")]
    fresh = f"{name}={text}"
    if any(item.startswith(f"{name}=") for item in items):
        return [fresh if item.startswith(f"{name}=") else item for item in items]
    return [*items, fresh]


def checked_name(session: Session, name: str, text: str | None) -> str:
    """The canonical name, if the current role may set it and the value is valid (validate_option_array_item)."""
    settings = session.settings
    parameter = parameters.find(name)
    if parameter is None:
        check_custom_name(name)
        if not is_superuser(session):
            raise PgError("42501", f'permission denied to set parameter "{name}"')
        return name
    settings.check_may_set(name)
    if text is not None:
        settings.check_value(name, text)
    elif parameter.key in parameters.NO_RESET:
        raise PgError("0A000", f'parameter "{name}" cannot be reset')
    return parameter.name


def may_reset(session: Session, name: str) -> bool:
    """Whether RESET ALL by the current role removes this setting. A superuser's removes all."""
    if is_superuser(session):
        return True
    parameter = parameters.find(name)
    return parameter is not None and parameter.context == "user"


# --- system settings --------------------------------------------------------------------------------------------------


# the places of the server's files are given by its start command
_NOT_IN_FILE = frozenset({"config_file", "data_directory", "hba_file", "ident_file"})


def alter_system(stmt: AlterSystemStmt, session: Session) -> Result:
    require_no_block(session, "ALTER SYSTEM")
    setting = stmt.setting
    if setting.kind is VariableSetKind.RESET_ALL:
        if not is_superuser(session):
            raise PgError("42501", "permission denied to perform ALTER SYSTEM RESET ALL")
        delete(session, tables.pgrepl_setting)
        return Result("ALTER SYSTEM")
    assert setting.name is not None
    name = setting.name
    if not is_superuser(session):
        raise PgError("42501", f'permission denied to set parameter "{name}"')
    text = setting_text(session, setting)
    key = _checked(session, name, text)
    delete(session, tables.pgrepl_setting, name=key)
    if text is not None:
        insert(session, tables.pgrepl_setting, name=key, value=text)
    return Result("ALTER SYSTEM")


def _checked(session: Session, name: str, text: str | None) -> str:
    """The canonical name, if ALTER SYSTEM may set it and the value is valid."""
    parameter = parameters.find(name)
    if parameter is None:
        check_custom_name(name)
        return name
    if parameter.context == "internal" or parameter.key in _NOT_IN_FILE | parameters.NO_RESET_ALL:
        raise PgError("55P02", f'parameter "{name}" cannot be changed')
    if text is not None:
        session.settings.check_text(name, text)
        if "\n" in text:
            raise PgError("22023", "parameter value for ALTER SYSTEM must not contain a newline")
    return parameter.name
