"""PostgreSQL's own trigger functions."""

from __future__ import annotations

from pgrepl.errors import PgError, unsupported
from pgrepl.rows.changes import Row
from pgrepl.rows.trigger_data import TriggerData, TriggerEvent, TriggerLevel, TriggerWhen
from pgrepl.types.values import same_image

_SUPPRESS = "suppress_redundant_updates_trigger"


def call_builtin(source: str, data: TriggerData) -> Row | None:
    """Call the function with this pg_proc.prosrc."""
    if source == _SUPPRESS:
        return _suppress_redundant_updates(data)
    raise unsupported(f"function {source}()")


def _suppress_redundant_updates(data: TriggerData) -> Row | None:
    """No row, if its new version is the same to the byte (suppress_redundant_updates_trigger). Generated columns have
    not been computed yet."""
    for is_so, how in (
        (data.event is TriggerEvent.UPDATE, "on update"),
        (data.when is TriggerWhen.BEFORE, "before update"),
        (data.level is TriggerLevel.ROW, "for each row"),
    ):
        if not is_so:
            raise PgError("39P01", f"{_SUPPRESS}: must be called {how}")
    assert data.old is not None and data.new is not None
    for column in data.relation.columns:
        if not column.generated and not same_image(data.old[column.num - 1], data.new[column.num - 1]):
            return data.new
    return None
