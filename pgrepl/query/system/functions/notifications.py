"""pg_notify() and the functions about channels (async.c)."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.notifications import notifications
from pgrepl.catalog.recovery import refuse_in_recovery
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family

implements = Family()


@implements("pg_notify", context=True)
def pg_notify(call: Call, channel: str | None, payload: str | None) -> str:
    refuse_in_recovery(call.session, "NOTIFY")
    notifications(call.session).notify(channel or "", payload or "")
    return ""


@implements("pg_listening_channels", context=True)
def pg_listening_channels(call: Call) -> Iterator[str]:
    found = call.session.transaction.notifications
    return iter([] if found is None else list(found.channels))


@implements("pg_notification_queue_usage", context=True)
def pg_notification_queue_usage(call: Call) -> float:
    return notifications(call.session).queue_usage()
