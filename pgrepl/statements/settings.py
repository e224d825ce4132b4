"""SET, RESET, SHOW and DISCARD (guc_funcs.c)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog import parameters
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError
from pgrepl.query.portal import close_all
from pgrepl.query.result import Result, ResultColumn
from pgrepl.sql.nodes import (
    AConst,
    DefElem,
    DiscardStmt,
    FloatText,
    TypeCast,
    VariableSetKind,
    VariableSetStmt,
    VariableShowStmt,
)
from pgrepl.sql.quote import quote_identifier

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

TEXT = 25


def execute_set(stmt: VariableSetStmt, session: Session) -> Result:
    """As ExecSetVariableStmt."""
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
    """As ImportSnapshot."""
    if session.transaction.snapshot_taken or session.transaction.savepoints:
        raise PgError("25001", "SET TRANSACTION SNAPSHOT must be called before any query")
    if session.settings.get("transaction_isolation") not in ("repeatable read", "serializable"):
        raise PgError(
            "0A000", "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
        )
    if identifier.strip("0123456789ABCDEF-"):
        raise PgError("22023", f'invalid snapshot identifier: "{identifier}"')
    from pgrepl.catalog.exported_snapshots import import_snapshot

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
    from pgrepl.expr.typenames import type_of_name
    from pgrepl.types.style import TextStyle
    from pgrepl.types.text import read_text, write_text

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
        from pgrepl.statements.temporary import discard_temporary

        discard_temporary(session)
    if target in ("ALL", "SEQUENCES"):
        from pgrepl.catalog.sequence_positions import discard

        discard(session)
    return Result(f"DISCARD {'TEMP' if target == 'TEMPORARY' else target}")
