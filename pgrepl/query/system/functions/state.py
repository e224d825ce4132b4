"""The state of session and instance: version, settings, LSNs, sizes, sequences."""

from __future__ import annotations

import signal
import time
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

from pgrepl import __version__
from pgrepl.catalog.facts import activity
from pgrepl.catalog.facts.relation import relation_or_none
from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.locks.lock_file import STARTED
from pgrepl.catalog.session import login
from pgrepl.catalog.session.context import control_functions_refused, in_recovery, require_recovery
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.tables import pg_database, pg_sequence, pgrepl_instance
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.lake.changes.history import snapshots
from pgrepl.query.system.functions import relations
from pgrepl.types.times.dates import UNIX_EPOCH_USECS, USECS_PER_SEC
from pgrepl.types.times.datetime_decoding import current_usecs

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

implements = Family()

_SIGNAL_BACKEND = 4200  # the role pg_signal_backend
_VERBS = {"cancel query": "cancel queries", "terminate process": "terminate processes"}

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


@implements("pgsql_version", context=True)
def version(call: Call) -> str:
    return f"PostgreSQL {call.session.settings.get('server_version')} (pgrepl {__version__})"


@implements("pg_backend_pid", context=True)
def pg_backend_pid(call: Call) -> int:
    return call.session.pid


@implements("pg_cancel_backend", context=True)
def pg_cancel_backend(call: Call, pid: int) -> bool:
    return _signalled(call.session, pid, signal.SIGINT, "cancel query")


@implements("pg_terminate_backend", context=True)
def pg_terminate_backend(call: Call, pid: int, timeout: int) -> bool:
    """With a timeout in milliseconds: wait so long for the process to end."""
    if timeout < 0:
        raise PgError("22003", '"timeout" must not be negative')
    if not _signalled(call.session, pid, signal.SIGTERM, "terminate process"):
        return False
    until = time.monotonic() + timeout / 1000
    while timeout and activity.found(pid) is not None:
        if time.monotonic() >= until:
            call.session.notice("WARNING", f"backend with PID {pid} did not terminate within {timeout} milliseconds")
            return False
        interrupts.pause(0.02)
    return True


def _signalled(session: Session, pid: int, number: signal.Signals, what: str) -> bool:
    """Send a signal to another session of this server (pg_signal_backend)."""
    backend = activity.found(pid)
    if backend is None:
        session.notice("WARNING", f"PID {pid} is not a PostgreSQL backend process")
        return False
    role = backend.get("usesysid")
    if not is_superuser(session, session.role):
        if role is None or is_superuser(session, role):
            raise PgError(
                "42501",
                f"permission denied to {what}",
                detail=f"Only roles with the SUPERUSER attribute may {_VERBS[what]} of roles with the SUPERUSER "
                "attribute.",
            )
        if not has_privs_of_role(session, session.role, role) and not has_privs_of_role(
            session, session.role, _SIGNAL_BACKEND
        ):
            raise PgError(
                "42501",
                f"permission denied to {what}",
                detail="Only roles with privileges of the role whose process is being terminated or with privileges of "
                'the "pg_signal_backend" role may terminate this process.'
                if number is signal.SIGTERM
                else "Only roles with privileges of the role whose query is being canceled or with privileges of the "
                '"pg_signal_backend" role may cancel this query.',
            )
    try:
        activity.send_signal(backend, number)
    except OSError as problem:
        session.notice("WARNING", f"could not send signal to process {pid}: {problem.strerror}")
        return False
    return True


@implements("suppress_redundant_updates_trigger")
def suppress_redundant_updates_trigger() -> None:
    raise PgError("39P01", "suppress_redundant_updates_trigger: must be called as trigger")


@implements("pg_trigger_depth", context=True)
def pg_trigger_depth(call: Call) -> int:
    return call.session.trigger_depth


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


@implements("pg_is_in_recovery", context=True)
def pg_is_in_recovery(call: Call) -> bool:
    return in_recovery(call.session)


@implements("pg_postmaster_start_time")
def pg_postmaster_start_time() -> int:
    """The start of this process, as there is no server."""
    return int(STARTED * USECS_PER_SEC) + UNIX_EPOCH_USECS


@implements("pg_conf_load_time", context=True)
def pg_conf_load_time(call: Call) -> int:
    loaded = call.session.settings.loaded_at
    return current_usecs(call.style) if loaded is None else (loaded - _EPOCH) // timedelta(microseconds=1)


@implements("pg_reload_conf", context=True)
def pg_reload_conf(call: Call) -> bool:
    login.reload(call.session)
    if call.session.reload_others is not None:
        call.session.reload_others()
    return True


@implements(
    "pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn", "pg_switch_wal", context=True
)
def pg_current_wal_lsn(call: Call) -> int:
    if in_recovery(call.session):
        raise control_functions_refused()
    return current_lsn(call.session)


@implements("pg_log_standby_snapshot", context=True)
def pg_log_standby_snapshot(call: Call) -> int:
    """Writes nothing: a standby's copy of a lake has no running transactions."""
    if in_recovery(call.session):
        raise PgError(
            "55000", "recovery is in progress", hint="pg_log_standby_snapshot() cannot be executed during recovery."
        )
    return current_lsn(call.session)


@implements("pg_wal_lsn_diff")
def pg_wal_lsn_diff(one_lsn: int, other: int) -> Decimal:
    return Decimal(one_lsn - other)


@implements("pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn", context=True)
def last_wal_replay_lsn(call: Call) -> int | None:
    """The present LSN of a standby; NULL on a primary."""
    return current_lsn(call.session) if in_recovery(call.session) else None


@implements("pg_last_xact_replay_timestamp", context=True)
def last_xact_replay_timestamp(call: Call) -> int | None:
    """The time when the standby's last transaction was committed on the primary."""
    if not in_recovery(call.session):
        return None
    last = call.session.transaction.numbering.last_snapshot()
    return snapshots(call.session, last - 1, last)[0].time


@implements("pg_is_wal_replay_paused", context=True)
def is_wal_replay_paused(call: Call) -> bool:
    require_recovery(call.session)
    return False


@implements("pg_get_wal_replay_pause_state", context=True)
def wal_replay_pause_state(call: Call) -> str:
    require_recovery(call.session)
    return "not paused"


@implements("pg_control_system", context=True)
def pg_control_system(call: Call) -> tuple[object, ...]:
    row = one(call.session, pgrepl_instance)
    assert row is not None
    return 1700, 202406281, row.system_identifier, current_usecs(call.style)


# --- sizes ----------------------------------------------------------------------------------------------------------


@implements("pg_table_size", context=True)
def pg_table_size(call: Call, oid: int) -> int | None:
    rel = relation_or_none(call.session, oid)
    return None if rel is None else relations.table_size(call.session, rel)


@implements("pg_indexes_size", context=True)
def pg_indexes_size(call: Call, oid: int) -> int | None:
    rel = relation_or_none(call.session, oid)
    return None if rel is None else relations.indexes_size(call.session, rel)


@implements("pg_total_relation_size", context=True)
def pg_total_relation_size(call: Call, oid: int) -> int | None:
    rel = relation_or_none(call.session, oid)
    return None if rel is None else relations.total_size(call.session, rel)


@implements("pg_relation_size", "pg_relation_size(regclass)", context=True)
def pg_relation_size(call: Call, oid: int, fork: str = "main") -> int | None:
    """The main fork is what a table's rows take. Indexes and sequences begin with a page."""
    rel = relation_or_none(call.session, oid)
    if rel is None:
        return None
    return relations.relation_size(call.session, rel) if fork == "main" else 0


@implements("pg_database_size_oid", context=True)
def pg_database_size_oid(call: Call, oid: int) -> int:
    return relations.database_size(call.session, oid)


@implements("pg_database_size_name", context=True)
def pg_database_size_name(call: Call, name: str) -> int:
    row = one(call.session, pg_database, datname=name)
    if row is None:
        raise PgError("3D000", f'database "{name}" does not exist')
    return relations.database_size(call.session, row.oid)


@implements("pg_tablespace_size_oid", "pg_tablespace_size_name")
def pg_tablespace_size(tablespace: object) -> int:
    """0: pgrepl has no tablespaces."""
    return 0


@implements("pg_sequence_last_value", context=True)
def pg_sequence_last_value(call: Call, oid: int) -> int | None:
    row = one(call.session, pg_sequence, seqrelid=oid)
    return row.last_value if row is not None and row.is_called else None
