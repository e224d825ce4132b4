"""What a value must satisfy beyond its type: check hooks as in PostgreSQL's variable.c.

Each returns the value to keep and an extra (of a role its OID).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import tables
from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.catalog.parameters import Value, invalid_value
from pgrepl.catalog.store import one
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Check = Callable[["Session", str, Value], tuple[Value, Any]]

_STYLES = {"iso": "ISO", "sql": "SQL", "german": "German"}
_ORDERS = {"ymd": "YMD", "dmy": "DMY", "mdy": "MDY", "us": "MDY"}


def _date_word(word: str) -> tuple[str | None, str | None] | None:
    """The style or the order a key word stands for."""
    word = word.lower()
    if word in _STYLES:
        return _STYLES[word], None
    if word.startswith("postgres"):
        return "Postgres", None
    if word in _ORDERS:
        return None, _ORDERS[word]
    if word.startswith("euro"):
        return None, "DMY"
    if word.startswith("noneuro"):
        return None, "MDY"
    return None


def check_datestyle(session: Session, name: str, value: Value) -> tuple[Value, Any]:
    """`ISO, MDY`: a style, an order, or both; what is not said stays."""
    text = str(value)
    words = split_identifiers(text)
    if words is None:
        raise invalid_value(name, text, detail="List syntax is invalid.")
    style: str | None = None
    order: str | None = None
    conflict = False
    defaults: tuple[str, str] | None = None
    implied: str | None = None
    for word in words:
        if word.lower() == "default":
            reset = str(session.settings.reset_value("datestyle")).split(", ")
            defaults = (reset[0], reset[1])
            continue
        found = _date_word(word)
        if found is None:
            raise invalid_value(name, text, detail=f'Unrecognized key word: "{word}".')
        if found[0] is not None:
            conflict |= style is not None and style != found[0]
            style = found[0]
            if style == "German" and order is None:
                implied = "DMY"
        else:
            conflict |= order is not None and order != found[1]
            order = found[1]
    if conflict:
        raise invalid_value(name, text, detail='Conflicting "datestyle" specifications.')
    current = session.settings.get("datestyle").split(", ")
    base = defaults or (current[0], current[1])
    return f"{style or base[0]}, {order or implied or base[1]}", None


def check_role(session: Session, name: str, value: Value) -> tuple[Value, Any]:
    """SET ROLE: the role must exist and the session user be able to become it (check_role)."""
    from pgrepl.catalog.roles import member_can_set_role

    text = str(value)
    if text == "none":
        return text, 0
    row = one(session, tables.pg_authid, rolname=text)
    if row is None:
        raise PgError("22023", f'role "{text}" does not exist')
    if not member_can_set_role(session, session.user, row.oid):
        raise PgError("42501", f'permission denied to set role "{text}"')
    return text, int(row.oid)


def check_session_authorization(session: Session, name: str, value: Value) -> tuple[Value, Any]:
    """Only a session that began as superuser may become another user (check_session_authorization)."""
    from pgrepl.catalog.roles import is_superuser

    text = str(value)
    row = one(session, tables.pg_authid, rolname=text)
    if row is None:
        raise PgError("22023", f'role "{text}" does not exist')
    if row.oid != session.authenticated_user and not is_superuser(session, session.authenticated_user):
        raise PgError("42501", f'permission denied to set session authorization "{text}"')
    return text, int(row.oid)


CHECKS: dict[str, Check] = {
    "datestyle": check_datestyle,
    "role": check_role,
    "session_authorization": check_session_authorization,
}
