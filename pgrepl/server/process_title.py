"""What `ps` shows of the server's processes, if the package setproctitle is there (ps_status.c)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


@cache
def setter() -> Callable[[str], None] | None:
    """The package's function; None: it is not there. It is looked for before the first process is forked."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return None
    found: Callable[[str], None] = setproctitle
    return found


def show(title: str) -> None:
    """Have `ps` show it instead of the command line (set_ps_display)."""
    found = setter()
    if found is not None:
        found(f"pgrepl: {title}")


def of_session(about: Mapping[str, Any], database: str) -> str:
    """What stays the same in a session's title: who is connected to what, and from where (init_ps_display)."""
    kind = "walsender " if about.get("backend_type") == "walsender" else ""
    place = f"{about['client_addr']}({about['client_port']})" if "client_addr" in about else "[local]"
    return f"{kind}{about['usename']} {database} {place}"
