"""The settings of a server, the state that its processes share, huge pages for it, and messages to systemd (sd_notify).

To fork is then to copy an entry for each 2 MB; a child that writes still copies no more than 4 kB.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session import login, parameters
from pgrepl.catalog.session.parameters import parse
from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@dataclass(frozen=True)
class ServerSettings:
    """The settings that a server begins with. Relative paths begin in the catalog's folder."""

    folder: Path
    given: Mapping[str, str]  # of the command line: they win in each session
    port: int
    addresses: tuple[str, ...]
    socket_folders: tuple[Path, ...]
    socket_permissions: int
    max_connections: int
    superuser_reserved: int
    reserved: int
    authentication_seconds: int
    hba_file: Path
    ident_file: Path
    certificate: Path | None  # None: no TLS
    key: Path
    authority: Path | None
    metrics: tuple[str, int] | None  # address and port of /metrics; None: there is none
    iceberg: tuple[str, int] | None  # of the catalog for readers of Iceberg


def server_settings(session: Session, folder: Path, given: Mapping[str, str]) -> ServerSettings:
    with reading(session):
        stored = {name.lower(): text for name, text in login.stored(session)}

    def value(name: str) -> Any:
        text = given.get(name, stored.get(name))
        parameter = parameters.find(name)
        assert parameter is not None
        return parameter.default if text is None else parse(parameter, text)

    def path(text: str) -> Path:
        return folder / text

    folders = [path(name) for name in _words(str(value("unix_socket_directories")))]
    return ServerSettings(
        folder,
        given,
        int(value("port")),
        tuple(_words(str(value("listen_addresses")))),
        tuple(folders or [folder]),
        int(value("unix_socket_permissions")),
        int(value("max_connections")),
        int(value("superuser_reserved_connections")),
        int(value("reserved_connections")),
        int(value("authentication_timeout")),
        path(str(value("hba_file")) or "pg_hba.conf"),
        path(str(value("ident_file")) or "pg_ident.conf"),
        path(str(value("ssl_cert_file"))) if value("ssl") else None,
        path(str(value("ssl_key_file"))),
        path(str(value("ssl_ca_file"))) if value("ssl_ca_file") else None,
        *(address_and_port(name, str(value(name))) for name in ("pgrepl.metrics_listen", "pgrepl.iceberg_listen")),
    )


def address_and_port(name: str, text: str) -> tuple[str, int] | None:
    """`[ADDRESS:]PORT`, by default of 127.0.0.1; None: nothing is given."""
    if not text.strip():
        return None
    address, _, port = text.strip().rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65536:
        said = f'invalid value for parameter "{name}": "{text}"'
        raise PgError("22023", said, hint="Give a port, or an address and a port such as 127.0.0.1:9187.")
    return address.strip("[]") or "127.0.0.1", int(port)


def _words(text: str) -> list[str]:
    return [word.strip().strip('"') for word in text.split(",") if word.strip()]


_HBA = """\
# Who may connect to this catalog, and how they prove who they are. The first line that fits decides.
# Changes count for the next connection.
#
# TYPE  DATABASE        USER            ADDRESS                 METHOD
local   all             all                                     peer map=owner
local   replication     all                                     peer map=owner
#host   all             all             127.0.0.1/32            scram-sha-256
"""
_IDENT = """\
# Which role a user of this machine may be. Who owns the catalog may be any role; others that of their own name.
#
# MAPNAME       SYSTEM-USERNAME         DATABASE-USERNAME
owner           "{owner}"              all
owner           /^(.*)$                 \\1
"""


def make_access_files(settings: ServerSettings, owner: str) -> None:
    """Write pg_hba.conf and pg_ident.conf beside a catalog that has none, as initdb does."""
    files = ((settings.hba_file, _HBA), (settings.ident_file, _IDENT.replace("{owner}", owner)))
    for path, text in files:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


STARTING, RUNNING, STOPPING = "starting", "running", "stopping"
_STATES = (STARTING, RUNNING, STOPPING)


class ServerState:
    """Whether the server takes connections; made before the first process is forked."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self, state: str) -> None:
        self._memory[0] = _STATES.index(state)

    def get(self) -> str:
        return _STATES[self._memory[0]]


def notify(state: str) -> None:
    """Tell the service manager, if there is one; a name that begins with @ is in the abstract namespace."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect("\0" + path[1:] if path[0] == "@" else path)
        sender.sendall(state.encode())


# --- huge pages -------------------------------------------------------------------------------------------------------


_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1
_HUGE = 2 << 20
_FULL = 0.5  # the share of a mapping that is in memory: the rest will be, too


def use() -> None:
    """Have the process's memory be of huge pages, where the system can."""
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in list(_own_memory()):
        for address in range(-(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE, _HUGE):
            madvise(address, _HUGE, _COLLAPSE)


def _own_memory() -> Iterator[tuple[int, int]]:
    """The addresses of the memory that is no file's, and is mostly in use."""
    begin = end = 0
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        if not words[0].endswith(":"):
            is_own = words[1] == "rw-p" and words[5:] in ([], ["[heap]"])
            begin, end = (int(address, 16) for address in words[0].split("-")) if is_own else (0, 0)
        elif words[0] == "Rss:" and int(words[1]) << 10 > (end - begin) * _FULL:
            yield begin, end
