"""The text form in which values cross the wire, and whether this session reads it as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_GREENWICH = ("GMT", "UTC", "Etc/UTC")

# how values are written on the wire, whatever the session says (set_config_option calls of walsender and apply worker)
WIRE_STYLE = TextStyle(datestyle="ISO, MDY", timezone="GMT", intervalstyle="postgres", extra_float_digits=3)


def reads_as_written(session: Session) -> bool:
    """Whether this worker's settings let a text mean what it meant to who wrote it. Its subscription's owner, or its
    database, may have others: a time zone, an order of day and month."""
    ours = session.text_style
    return (ours.datestyle, ours.intervalstyle) == (WIRE_STYLE.datestyle, WIRE_STYLE.intervalstyle) and (
        ours.timezone in _GREENWICH
    )
