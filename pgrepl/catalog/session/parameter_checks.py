"""Check hooks of settings, for what a value must satisfy beyond its type (PostgreSQL's variable.c).

Each returns the value to keep and an extra (of a role its OID).
"""

from __future__ import annotations

import locale
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.roles import is_superuser, member_can_set_role
from pgrepl.catalog.session.context import in_recovery
from pgrepl.catalog.session.parameters import Value, check_slot_name, invalid_value, parse_standbys, split_identifiers
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql.keywords import truncate
from pgrepl.types.input_checks import encoding_name, has_codec
from pgrepl.types.numbers import parse_bool
from pgrepl.types.oids import INTERVAL
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

Check = Callable[["CatalogSession", str, Value], tuple[Value, Any]]

_STYLES = {"iso": "ISO", "sql": "SQL", "german": "German"}
_ORDERS = {"ymd": "YMD", "dmy": "DMY", "mdy": "MDY", "us": "MDY"}


def _date_word(word: str) -> tuple[str | None, str | None] | None:
    """The style or the order that a key word stands for."""
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


def check_datestyle(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """`ISO, MDY`: a style, an order, or both; the other stays as it is (check_datestyle)."""
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
        meaning = _date_word(word)
        if meaning is None:
            raise invalid_value(name, text, detail=f'Unrecognized key word: "{word}".')
        if meaning[0] is not None:
            conflict |= style is not None and style != meaning[0]
            style = meaning[0]
            if style == "German" and order is None:
                implied = "DMY"
        else:
            conflict |= order is not None and order != meaning[1]
            order = meaning[1]
    if conflict:
        raise invalid_value(name, text, detail='Conflicting "datestyle" specifications.')
    current = session.settings.get("datestyle").split(", ")
    base = defaults or (current[0], current[1])
    return f"{style or base[0]}, {order or implied or base[1]}", None


def check_role(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """SET ROLE: the role must exist and the session user be able to become it (check_role)."""
    text = str(value)
    if text == "none":
        return text, 0
    row = one(session, tables.pg_authid, rolname=text)
    if row is None:
        raise PgError("22023", f'role "{text}" does not exist')
    if not member_can_set_role(session, session.user, row.oid):
        raise PgError("42501", f'permission denied to set role "{text}"')
    return text, int(row.oid)


def check_session_authorization(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """Let only a session that began as superuser become another user (check_session_authorization)."""
    text = str(value)
    row = one(session, tables.pg_authid, rolname=text)
    if row is None:
        raise PgError("22023", f'role "{text}" does not exist')
    if row.oid != session.authenticated_user and not is_superuser(session, session.authenticated_user):
        raise PgError("42501", f'permission denied to set session authorization "{text}"')
    return text, int(row.oid)


def check_timezone(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """A zone's name, hours from UTC, or INTERVAL '…'; kept as SHOW prints it (check_timezone)."""
    from pgrepl.types.times.timezone import find_zone

    text = str(value)
    seconds = _offset_seconds(name, text)
    if seconds is None:
        zone = find_zone(text) if text else None
        if zone is None:
            raise invalid_value(name, text)
        return zone.name, None
    if abs(seconds) > _MOST_OFFSET:
        raise invalid_value(name, text, detail="UTC timezone offset is out of range.")
    return _offset_zone(seconds), None


_MOST_OFFSET = 167 * 3600  # SECS_PER_HOUR * MAX_TZDISP_HOUR


def _offset_seconds(name: str, text: str) -> int | None:
    """Seconds east of UTC where the value is a number or an interval."""
    if text[:8].lower() == "interval":
        quoted = text[8:].lstrip()
        if len(quoted) < 2 or quoted[0] != "'" or quoted.find("'", 1) != len(quoted) - 1:
            raise invalid_value(name, text)
        interval: Any = read_text(quoted[1:-1], INTERVAL, -1, TextStyle())
        if interval.months:
            raise invalid_value(name, text, detail="Cannot specify months in time zone interval.")
        if interval.days:
            raise invalid_value(name, text, detail="Cannot specify days in time zone interval.")
        return int(interval.usecs / 1_000_000)
    if re.match(_NUMBER, text):
        hours = max(min(float(text), 1000.0), -1000.0)  # a value out of range stays out of range
        return int(hours * 3600)
    return None


_NUMBER = r"[ \t\n\v\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z"


def _offset_zone(seconds: int) -> str:
    """A POSIX zone of that offset, `<+05:30>-05:30` (pg_tzset_offset)."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, odd = divmod(rest, 60)
    size = f"{hours:02}" + (f":{minutes:02}" if minutes or odd else "") + (f":{odd:02}" if odd else "")
    return f"<+{size}>-{size}" if seconds > 0 else f"<-{size}>+{size}"


def check_search_path(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    if split_identifiers(str(value)) is None:
        raise invalid_value(name, str(value), detail="List syntax is invalid.")
    return value, None


def check_client_encoding(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    text = str(value)
    encoding = encoding_name(text)
    if encoding is None or not text:
        raise invalid_value(name, text)
    if not has_codec(encoding):
        server = session.settings.get("server_encoding")
        raise invalid_value(
            name, text, detail=f"Conversion between {encoding} and {server} is not supported.", sqlstate="0A000"
        )
    return (text if text == "UNICODE" else encoding), None


def check_name(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """application_name: cut to an identifier's length, in printable ASCII (check_application_name)."""
    raw = truncate(str(value), session.report).encode()
    return "".join(chr(b) if 32 <= b <= 126 else f"\\x{b:02x}" for b in raw), None


def check_locale(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    text = str(value)
    if text and text not in ("C", "POSIX", "C.UTF-8", "C.utf8", "en_US.UTF-8", "en_US.utf8"):
        if text.replace("-", "").lower() not in {a.replace("-", "").lower() for a in locale.locale_alias.values()}:
            raise invalid_value(name, text)
    return value, None


def _words(name: str, text: str) -> list[str]:
    words = split_identifiers(text)
    if words is None:
        raise invalid_value(name, text, detail="List syntax is invalid.")
    return words


def _words_check(*allowed: str) -> Check:
    def check(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
        for word in _words(name, text := str(value)):
            if word.lower() not in allowed:
                raise invalid_value(name, text, detail=f'Unrecognized key word: "{word}".')
        return value, None

    return check


def check_tablespace(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    text = str(value)
    if text and text not in ("pg_default", "pg_global"):
        raise invalid_value(name, text, detail=f'Tablespace "{text}" does not exist.')
    return value, None


def check_temp_tablespaces(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    words = split_identifiers(str(value))
    if words is None:
        raise invalid_value(name, str(value), detail="List syntax is invalid.")
    for word in words:
        if word not in ("", "pg_default"):
            raise PgError("42704", f'tablespace "{word}" does not exist')
    return value, None


def check_access_method(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    text = str(value)
    if not text:
        raise invalid_value(name, text, detail=f'"{name}" cannot be empty.')
    if text != "heap":
        raise invalid_value(name, text, detail=f'Table access method "{text}" does not exist.')
    return value, None


def check_text_search(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    text = str(value)
    if text.removeprefix("pg_catalog.") not in _TEXT_SEARCH:
        raise invalid_value(name, text)
    return f"pg_catalog.{text.removeprefix('pg_catalog.')}", None


_TEXT_SEARCH = frozenset(
    """
    arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian irish
    italian lithuanian nepali norwegian portuguese romanian russian serbian simple spanish swedish tamil turkish yiddish
    """.split()
)


def check_default_with_oids(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    if value:
        raise PgError("0A000", "tables declared WITH OIDS are not supported")
    return value, None


def check_transaction_read_only(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """A read-only transaction does not become read-write once it has begun to work."""
    transaction = session.transaction
    if not value and session.settings.value(name) and transaction.in_statement:
        if transaction.savepoints:
            raise PgError("25001", "cannot set transaction read-write mode inside a read-only transaction")
        if transaction.snapshot_taken:
            raise PgError("25001", "transaction read-write mode must be set before any query")
        if in_recovery(session):
            raise PgError("0A000", "cannot set transaction read-write mode during recovery")
    return value, None


def check_transaction_isolation(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    transaction = session.transaction
    if value != session.settings.value(name) and transaction.in_statement:
        if transaction.snapshot_taken:
            raise PgError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
        if transaction.savepoints:
            raise PgError("25001", "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
    return value, None


def check_transaction_deferrable(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    transaction = session.transaction
    if transaction.savepoints:
        raise PgError("25001", "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
    if transaction.snapshot_taken:
        raise PgError("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query")
    return value, None


def check_max_stack_depth(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """Allow no more than the platform does, less a margin (check_max_stack_depth)."""
    import resource

    soft, _hard = resource.getrlimit(resource.RLIMIT_STACK)
    most = (soft - _STACK_MARGIN) // 1024
    if soft != resource.RLIM_INFINITY and isinstance(value, int) and value > most:
        raise PgError(
            "22023",
            f'invalid value for parameter "{name}": {value}',
            detail=f'"max_stack_depth" must not exceed {most}kB.',
            hint='Increase the platform\'s stack depth limit via "ulimit -s" or local equivalent.',
        )
    return value, None


_STACK_MARGIN = 512 * 1024


_MAY_COME = {
    "role": "role",
    "session_authorization": "role",
    "default_tablespace": "tablespace",
    "temp_tablespaces": "tablespace",
    "default_table_access_method": "table access method",
    "default_text_search_config": "text search configuration",
}


def notice_of_missing(key: str, text: str, problem: PgError) -> str | None:
    """The NOTICE about an object that a setting names, which may exist when a session begins with it (PGC_S_TEST);
    None: the value is an error."""
    what = _MAY_COME.get(key)
    if what is None:
        return None
    if problem.sqlstate == "42501":
        return problem.message.replace("permission denied", "permission will be denied")
    return f'{what} "{text}" does not exist'


def check_standby_slots(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """Names that slots may have (check_synchronized_standby_slots)."""
    for word in _words(name, text := str(value)):
        try:
            check_slot_name(word)
        except PgError as wrong:
            says = wrong.report
            raise invalid_value(name, text, detail=says.message, hint=says.hint, sqlstate=wrong.sqlstate) from None
    return value, None


def check_synchronous_standbys(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """A list of standbys, which may say how many of them (check_synchronous_standby_names)."""
    try:
        parse_standbys(text := str(value))
    except PgError as wrong:
        if wrong.report.detail is None:
            raise
        raise invalid_value(name, text, detail=wrong.report.detail, sqlstate=wrong.sqlstate) from None
    return value, None


def check_iceberg_export(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
    """`on`, `off`, or the names of subscriptions."""
    flag = parse_bool(str(value))
    if flag is None and not _words(name, str(value)):
        raise invalid_value(name, str(value), detail="It is on, off, or a list of subscriptions.")
    return value if flag is None else "on" if flag else "off", None


def _only(wanted: bool) -> Check:
    """A check of a setting with one supported value: the other would change what statements do in PostgreSQL."""

    def check(session: CatalogSession, name: str, value: Value) -> tuple[Value, Any]:
        if value is not wanted:
            raise unsupported(f"{name} = {'off' if wanted else 'on'}")
        return value, None

    return check


CHECKS: dict[str, Check] = {
    "allow_system_table_mods": _only(False),
    "application_name": check_name,
    "array_nulls": _only(True),
    "client_encoding": check_client_encoding,
    "createrole_self_grant": _words_check("set", "inherit"),
    "datestyle": check_datestyle,
    "default_table_access_method": check_access_method,
    "default_tablespace": check_tablespace,
    "default_text_search_config": check_text_search,
    "default_with_oids": check_default_with_oids,
    "lc_messages": check_locale,
    "lc_monetary": check_locale,
    "lc_numeric": check_locale,
    "lc_time": check_locale,
    "ignore_checksum_failure": _only(False),
    "max_stack_depth": check_max_stack_depth,
    "pgrepl.iceberg_export": check_iceberg_export,
    "quote_all_identifiers": _only(False),
    "restrict_nonsystem_relation_kind": _words_check("view", "foreign-table"),
    "role": check_role,
    "search_path": check_search_path,
    "session_authorization": check_session_authorization,
    "synchronized_standby_slots": check_standby_slots,
    "synchronous_standby_names": check_synchronous_standbys,
    "temp_tablespaces": check_temp_tablespaces,
    "timezone": check_timezone,
    "wal_consistency_checking": _words_check(
        "all", "xlog", "heap", "heap2", "btree", "hash", "gin", "gist", "sequence", "spgist", "brin", "generic"
    ),
    "zero_damaged_pages": _only(False),
    "transaction_deferrable": check_transaction_deferrable,
    "transaction_isolation": check_transaction_isolation,
    "transaction_read_only": check_transaction_read_only,
}
