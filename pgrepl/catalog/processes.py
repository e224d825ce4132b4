"""Are the workers and transactions that a catalog lists still alive?

A process of this machine is looked up by its PID and its start time, as another may get the same PID later. Of a
process on another machine, or in another container, only its last heartbeat is known. Within a process each worker has
a token of its own, which is retired when the worker ends; the token names the process.

The PID that users see of a worker is its thread's number in the kernel: a worker that begins anew has a new one. The
PID of a server's session is that of its connection's process (server/connection_process.py); the session's own come
and go.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from functools import cache

SILENCE = 60.0  # seconds after which a process elsewhere counts as gone
SIGN_OF_LIFE = 10.0  # seconds between two heartbeats
_STUCK = 600.0  # seconds without a heartbeat after which a worker of a living process here counts as gone
_LONGEST = 86400.0  # seconds that a transaction on another machine keeps its locks

STARTED = time.time()  # when this process began, about: this module is among the first

_at_work: set[str] = set()  # the tokens of this process
_known_as = 0  # the PID of the process that this one works for; 0: it works for none


def machine() -> str:
    return os.uname().nodename


def now() -> float:
    return time.time()


def work_for(pid: int) -> None:
    """Note that this process works for another one, by whose PID it is known."""
    global _known_as
    _known_as = pid


def session_pid() -> int:
    """The PID by which users know the sessions of this process."""
    return _known_as or os.getpid()


def worker_pid() -> int:
    """The running thread's number in the kernel (of the first thread the process's), on other systems the process's."""
    number = threading.get_native_id() if sys.platform == "linux" else os.getpid()
    return session_pid() if number == os.getpid() else number


@cache
def boot() -> str:
    """The id of the machine's last start; empty: the system has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def new_token() -> str:
    """A token for a worker of this process, valid until it is retired."""
    token = f"{_started(os.getpid())}.{os.urandom(8).hex()}.{os.getpid()}"
    _at_work.add(token)
    return token


def retire(token: str) -> None:
    _at_work.discard(token)


def is_alive(pid: int) -> bool:
    """Is there a process with this PID on this machine?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def is_at_work(pid: int, host: str, token: str, beat: float) -> bool:
    """Is the worker alive whose row in the catalog has these values? `beat` is its last heartbeat."""
    silent = now() - beat
    if host != machine():
        return silent < SILENCE
    return _has_token(pid, token) and (silent < _STUCK or token in _at_work)


def holds(pid: int, host: str, token: str, since: float) -> bool:
    """Is the transaction's process alive? A transaction has no heartbeat; `since` is its start."""
    if host != machine():
        return now() - since < _LONGEST
    return _has_token(pid, token)


def _has_token(pid: int, token: str) -> bool:
    """Is the process alive that has made the token? It is the one with this PID unless the token names another."""
    started, _, rest = token.partition(".")
    _, _, named = rest.partition(".")
    process = int(named) if named else pid
    if process == os.getpid():
        return token in _at_work
    return is_alive(process) and _started(process) == started


def _started(pid: int) -> str:
    """The start of a process, in the kernel's ticks; empty: not known."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()
    return ""
