"""Whether a process that says in a catalog that it is at work is still there.

A process of this machine is looked for; its start tells it from another that got the same number later. Of a process
on another machine, or in another container, only its last sign of life is known. Within a process each worker has a
token of its own, which is retired when it has finished, however that came about; the token names the process.

What users see as a worker's PID is the number that the kernel gave its thread: a worker that begins anew has a new one.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import cache

SILENCE = 60.0  # seconds after which a process elsewhere counts as gone
SIGN_OF_LIFE = 10.0  # seconds between two of ours
_STUCK = 600.0  # and one here that lives, but has not given back what it should have
_LONGEST = 86400.0  # what one on another machine holds without a sign of life

_at_work: set[str] = set()  # the tokens of this process


def machine() -> str:
    return socket.gethostname()


def now() -> float:
    return time.time()


def worker_pid() -> int:
    """Of the running thread, where the kernel numbers threads as processes; that of the first is the process's."""
    return threading.get_native_id() if sys.platform == "linux" else os.getpid()


@cache
def boot() -> str:
    """By which one start of the machine differs from another; empty where nobody says."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def new_token() -> str:
    """For a worker of this process, from now until it is retired."""
    token = f"{_started(os.getpid())}.{secrets.token_hex(8)}.{os.getpid()}"
    _at_work.add(token)
    return token


def retire(token: str) -> None:
    _at_work.discard(token)


def is_alive(pid: int) -> bool:
    """Is there a process with this number on this machine?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def is_at_work(pid: int, host: str, token: str, beat: float) -> bool:
    """Is the worker alive that left these with the catalog?"""
    silent = now() - beat
    if host != machine():
        return silent < SILENCE
    started, _, rest = token.partition(".")
    _, _, named = rest.partition(".")
    process = int(named) if named else pid
    if process == os.getpid():
        return token in _at_work
    return is_alive(process) and _started(process) == started and silent < _STUCK


def holds(pid: int, host: str, token: str, since: float) -> bool:
    """The same of who gives no sign of life while nothing happens, such as an open transaction."""
    if host != machine():
        return now() - since < _LONGEST
    if pid == os.getpid():
        return token in _at_work
    return is_alive(pid) and _started(pid) == token.partition(".")[0]


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty where nobody says."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()
    return ""
