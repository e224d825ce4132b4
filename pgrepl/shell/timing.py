r"""`\timing`: how long a query took."""

from __future__ import annotations

import math

from pgrepl.shell.shell import Shell


def print_timing(shell: Shell, milliseconds: float) -> None:
    """Print `Time: 1.234 ms`, from a second on in larger units, too (PrintTiming)."""
    shell.stdout.write(f"Time: {milliseconds:.3f} ms{_broken_down(milliseconds)}\n")


def _broken_down(milliseconds: float) -> str:
    if milliseconds < 1000.0:
        return ""
    seconds = milliseconds / 1000.0
    minutes = math.floor(seconds / 60.0)
    seconds -= 60.0 * minutes
    if minutes < 60:
        return f" ({minutes:02d}:{seconds:06.3f})"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f" ({hours:02d}:{minutes:02d}:{seconds:06.3f})"
    days, hours = divmod(hours, 24)
    return f" ({days} d {hours:02d}:{minutes:02d}:{seconds:06.3f})"
