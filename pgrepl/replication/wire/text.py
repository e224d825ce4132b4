"""The text form in which values cross the wire, and whether this session reads it as it was written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_GREENWICH = ("GMT", "UTC", "Etc/UTC")

# the style of values on the wire, whatever the session's settings (walsender and apply worker call set_config_option)
WIRE_STYLE = TextStyle(datestyle="ISO, MDY", timezone="GMT", intervalstyle="postgres", extra_float_digits=3)


def wire_style(session: Session) -> TextStyle:
    """WIRE_STYLE with the names of the session's catalog."""
    return replace(WIRE_STYLE, lookup=session.text_style.lookup)


def checking_style(session: Session) -> TextStyle:
    """The same, and the session checks the values of domains."""
    ours = session.text_style
    return replace(wire_style(session), check_domain=ours.check_domain, check_domains=ours.check_domains)


def reads_as_written(session: Session) -> bool:
    """Whether this session's settings read a text as the publisher wrote it. The subscription's owner, or its database,
    may have another time zone, or another order of day and month."""
    ours = session.text_style
    return (ours.datestyle, ours.intervalstyle) == (WIRE_STYLE.datestyle, WIRE_STYLE.intervalstyle) and (
        ours.timezone in _GREENWICH
    )
