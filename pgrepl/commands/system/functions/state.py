"""The state of session and instance: version, settings, LSNs, sizes, sequences."""

from __future__ import annotations

from decimal import Decimal

from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_sequence, pgrepl_instance
from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions import implements
from pgrepl.replication.slots import current_lsn
from pgrepl.types.datetime_input import current_usecs


@implements("pgsql_version", context=True)
def version(call: Call) -> str:
    from pgrepl import __version__

    return f"PostgreSQL {call.session.settings.get('server_version')} (pgrepl {__version__})"


@implements("pg_backend_pid", context=True)
def pg_backend_pid(call: Call) -> int:
    return call.session.pid


@implements("current_query", context=True)
def current_query(call: Call) -> str:
    return call.session.query


@implements("show_config_by_name", context=True)
def current_setting(call: Call, name: str) -> str:
    call.session.settings.check_may_examine(name)
    return call.session.settings.get(name)


@implements("show_config_by_name_missing_ok", context=True)
def current_setting_missing_ok(call: Call, name: str, missing_ok: bool) -> str | None:
    try:
        return current_setting(call, name)
    except PgError as error:
        if missing_ok and error.sqlstate == "42704":
            return None
        raise


@implements("set_config_by_name", context=True)
def set_config(call: Call, name: str | None, value: str | None, is_local: bool | None) -> str:
    if name is None:
        raise PgError("22004", "SET requires parameter name")
    call.session.settings.set(name, value, local=bool(is_local))
    return call.session.settings.get(name)


@implements("pg_is_in_recovery")
def pg_is_in_recovery() -> bool:
    return False


@implements("pg_postmaster_start_time", "pg_conf_load_time", context=True)
def pg_postmaster_start_time(call: Call) -> int:
    return current_usecs(call.style)


@implements(
    "pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn", "pg_switch_wal", context=True
)
def pg_current_wal_lsn(call: Call) -> int:
    return current_lsn(call.session)


@implements("pg_wal_lsn_diff")
def pg_wal_lsn_diff(one_lsn: int, other: int) -> Decimal:
    return Decimal(one_lsn - other)


@implements("pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn")
def no_lsn() -> None:
    """Only a standby has one."""


@implements("pg_control_system", context=True)
def pg_control_system(call: Call) -> list[tuple[object, ...]]:
    row = one(call.session, pgrepl_instance)
    assert row is not None
    return [(1300, 202307071, row.system_identifier, current_usecs(call.style))]


# --- sizes: what pgrepl keeps of tables has no pages ----------------------------------------------------------------


@implements(
    "pg_table_size", "pg_total_relation_size", "pg_indexes_size", "pg_database_size_oid", "pg_database_size_name",
    "pg_tablespace_size_oid", "pg_tablespace_size_name",
)  # fmt: skip
def no_size(oid: object) -> int:
    return 0


@implements("pg_relation_size")
def pg_relation_size(oid: int, fork: str = "main") -> int:
    return 0


# --- sequences ------------------------------------------------------------------------------------------------------


@implements("pg_sequence_last_value", context=True)
def pg_sequence_last_value(call: Call, oid: int) -> int | None:
    row = one(call.session, pg_sequence, seqrelid=oid)
    return row.last_value if row is not None and row.is_called else None
