"""Programs that COPY and the shell run: the reason for a failure."""

from __future__ import annotations

import signal

from pgrepl.errors import PgError


def exit_reason(status: int) -> str:
    """As wait_result_to_str: why a shell command did not end with 0; a signal is negative."""
    if status == 126:
        return "command not executable"
    if status == 127:
        return "command not found"
    if status > 0:
        return f"child process exited with exit code {status}"
    return f"child process was terminated by signal {-status}: {signal.strsignal(-status)}"


def program_failed(command: str, status: int) -> PgError:
    return PgError("38000", f'program "{command}" failed', detail=exit_reason(status))
