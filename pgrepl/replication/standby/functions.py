"""The SQL functions of a standby: pg_sync_replication_slots (slotsync.c) and pg_promote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family
from pgrepl.replication.publisher.slots import check_slot_permissions
from pgrepl.replication.standby.slot_sync import synchronize_slots
from pgrepl.replication.standby.synchronize import promote

if TYPE_CHECKING:
    from pgrepl.expr.context import Call

implements = Family()

VOID = ""


@implements("pg_sync_replication_slots", context=True)
def sync_replication_slots(call: Call) -> str:
    check_slot_permissions(call.session)
    synchronize_slots(call.session)
    return VOID


@implements("pg_promote", context=True)
def pg_promote(call: Call, wait: bool, wait_seconds: int) -> bool:
    """The promotion is done at once, so that `wait` has no effect."""
    if wait_seconds <= 0:
        raise PgError("22003", '"wait_seconds" must not be negative or zero')
    promote(call.session)
    return True
