"""Views of activity: settings, copies, locks, prepared transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pgrepl.catalog import activity as sessions
from pgrepl.catalog import copies, parameters, system_settings
from pgrepl.catalog.classes import ROLE_READ_ALL_SETTINGS
from pgrepl.catalog.databases import database_name
from pgrepl.catalog.parameters import Parameter, Value
from pgrepl.catalog.roles import has_privs_of_role, role_display
from pgrepl.catalog.session import Session
from pgrepl.query.system.forms import Provider, Values
from pgrepl.query.system.locks import locks
from pgrepl.types import oids
from pgrepl.types.arrays import array_of

_STATS = 3375  # pg_read_all_stats


def _settings(session: Session) -> Iterator[Values]:
    lines: dict[str, Values] = {}
    if has_privs_of_role(session, session.role, ROLE_READ_ALL_SETTINGS):
        lines = {
            each.name: {"sourcefile": session.catalog.name, "sourceline": each.line}
            for each in system_settings.file_settings(session)
            if session.settings.source(each.name) == "configuration file"
        }
    for parameter in parameters.all_parameters():
        if not session.settings.may_examine(parameter.name):
            continue
        value = session.settings.value(parameter.name)
        reset = session.settings.reset_value(parameter.name)
        yield {
            "name": parameter.name, "setting": parameters.raw(parameter, value), "unit": parameter.unit,
            "category": parameter.category, "short_desc": parameter.short_desc,
            "context": parameter.context, "vartype": parameter.vartype,
            "source": session.settings.source(parameter.name), "min_val": _limit(parameter, parameter.minimum),
            "max_val": _limit(parameter, parameter.maximum),
            "enumvals": None if parameter.options is None else list(parameter.options),
            "boot_val": parameter.boot, "reset_val": parameters.raw(parameter, reset),
            "pending_restart": parameter.key in session.settings.pending_restart, **lines.get(parameter.name, {}),
        }  # fmt: skip


def _file_settings(session: Session) -> Iterator[Values]:
    for each in system_settings.file_settings(session):
        yield {
            "sourcefile": session.catalog.name, "sourceline": each.line, "seqno": each.number, "name": each.name,
            "setting": each.text, "applied": each.error is None, "error": each.error,
        }  # fmt: skip


def _limit(parameter: Parameter, value: Value | None) -> str | None:
    return None if value is None else parameters.raw(parameter, value)


def _copies(session: Session) -> Iterator[Values]:
    """The copies of subscriptions' tables and those of users."""
    for row in copies.under_way(session):
        yield {**row._asdict(), "datname": database_name(session, row.datid)}


def _copies_in_pieces(session: Session) -> Iterator[Values]:
    """Those of large tables, whose interrupted copies go on."""
    for row in _copies(session):
        if row["pieces_total"]:
            yield row


def _sessions(session: Session) -> Iterator[Values]:
    """The sessions of the server; without one, this session only."""
    table = sessions.table()
    if table is None:
        yield _shown(session, sessions.shown(sessions.entry_of(session)))
        return
    waited = {lock["pid"]: lock["locktype"] for lock in locks(session) if not lock["granted"]}
    for each in table.entries():
        yield _shown(session, {**each, **_wait(each, waited)})


def _wait(entry: Mapping[str, Any], waited: Mapping[int, str]) -> Values:
    """What a session waits for: its client, or a lock."""
    if entry.get("state", "").startswith("idle"):
        return {"wait_event_type": "Client", "wait_event": "ClientRead"}
    kind = waited.get(entry["pid"])
    return {} if kind is None else {"wait_event_type": "Lock", "wait_event": kind}


def _shown(session: Session, entry: Mapping[str, Any]) -> Values:
    """An entry as its row. What a session runs is for its role and those that may read all statistics."""
    role, database = entry.get("usesysid"), entry.get("datid")
    names = {
        "usename": None if role is None else role_display(session, role),
        "datname": None if database is None else database_name(session, database),
    }
    if (
        role is None
        or has_privs_of_role(session, session.role, role)
        or has_privs_of_role(session, session.role, _STATS)
    ):
        return {**entry, **names}
    known = {name: entry.get(name) for name in ("pid", "datid", "usesysid")}
    return {**known, **names, "query": "<insufficient privilege>"}


def _prepared(session: Session) -> Iterator[Values]:
    from pgrepl.lake import prepared

    for each in prepared.every(session):
        yield {
            "transaction": each.xid, "gid": each.gid, "prepared": each.prepared_at,
            "owner": role_display(session, each.owner), "database": database_name(session, each.database),
        }  # fmt: skip


def _prepared_statements(session: Session) -> Iterator[Values]:
    for each in session.prepared.values():
        generic, custom = each.plans
        columns = (
            None if each.columns is None else array_of(oids.REGTYPE, [int(column.type) for column in each.columns])
        )
        yield {
            "name": each.name, "statement": each.text, "prepare_time": each.prepared_at,
            "parameter_types": array_of(oids.REGTYPE, list(each.types)),
            "result_types": columns, "from_sql": each.from_sql, "generic_plans": generic, "custom_plans": custom,
        }  # fmt: skip


def _cursors(session: Session) -> Iterator[Values]:
    for each in session.transaction.portals.values():
        said = each.declared
        yield {
            "name": each.name, "statement": said.text, "is_holdable": said.holds, "is_binary": said.binary,
            "is_scrollable": each.scrolls, "creation_time": each.created_at,
        }  # fmt: skip


def _nothing(session: Session) -> Iterable[Values]:
    """No rows: pgrepl has nothing of the kind."""
    return ()


PROVIDERS: dict[str, Provider] = {
    "pg_settings": _settings,
    "pg_file_settings": _file_settings,
    "pg_stat_progress_copy": _copies,
    "pgrepl_stat_progress_copy": _copies_in_pieces,
    "pg_locks": locks,
    "pg_stat_activity": _sessions,
    "pg_prepared_xacts": _prepared,
    "pg_prepared_statements": _prepared_statements,
    "pg_cursors": _cursors,
    **dict.fromkeys(
        (
            "pg_policies", "pg_rules",
            "pg_seclabels", "pg_stats", "pg_stats_ext", "pg_stats_ext_exprs",
            "pg_stat_progress_analyze", "pg_stat_progress_vacuum", "pg_stat_progress_cluster",
            "pg_stat_progress_create_index", "pg_stat_progress_basebackup", "pg_stat_wal_receiver",
            "pg_stat_ssl", "pg_stat_gssapi", "pg_available_extensions", "pg_available_extension_versions",
            "pg_hba_file_rules", "pg_ident_file_mappings", "pg_stat_user_functions",
        ),
        _nothing,
    ),
}  # fmt: skip
