"""The ends of COPY's data: files, programs and the client, and the roles that may use them (BeginCopyFrom,
BeginCopyTo).

"The server" is this process: its working folder is where a relative name of COPY FROM begins.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, cast

from pgrepl.catalog.facts.roles import has_privs_of_role, role_by_name
from pgrepl.ground.errors import PgError
from pgrepl.types.lake.arrays import content

if TYPE_CHECKING:
    from io import BufferedReader

    from pgrepl.catalog.session.context import CopyClient, CopySink
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import CopyStmt


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


PIECE = 1 << 20  # bytes read at a time
_IN_MEMORY = 16 << 20  # of what a client or program sends; more goes to a temporary file

_ROLES = {"read": "pg_read_server_files", "write": "pg_write_server_files", "program": "pg_execute_server_program"}
_USE_PSQL = "You may want a client-side facility such as psql's \\copy."
_HINT = "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."


def check_place(session: Session, stmt: CopyStmt) -> None:
    """Files and programs of the server are for roles that may use them."""
    if stmt.filename is None:
        return
    kind = "program" if stmt.program else "read" if stmt.is_from else "write"
    if _may(session, _ROLES[kind]):
        return
    what, action = {
        "program": ("to or from an external program", "COPY to or from an external program"),
        "read": ("from a file", "COPY from a file"),
        "write": ("to a file", "COPY to a file"),
    }[kind]
    raise PgError(
        "42501",
        f"permission denied to COPY {what}",
        detail=f'Only roles with privileges of the "{_ROLES[kind]}" role may {action}.',
        hint=_HINT,
    )


def _may(session: Session, role: str) -> bool:
    return has_privs_of_role(session, session.role, int(role_by_name(session, role).oid))


def client(session: Session, direction: str) -> CopyClient:
    if session.client is None:
        raise PgError("0A000", f"COPY {direction} needs a client to speak with")
    return session.client


def file_error(action: str, error: OSError, *, hint: str | None = None) -> PgError:
    """An error with the SQLSTATE that errcode_for_file_access gives."""
    sqlstates = {
        errno.EPERM: "42501", errno.EACCES: "42501", errno.EROFS: "42501", errno.ENOENT: "58P01",
        errno.EEXIST: "58P02", errno.ENOTDIR: "42809", errno.EISDIR: "42809", errno.ENOTEMPTY: "42809",
        errno.ENOSPC: "53100", errno.ENOMEM: "53200", errno.ENFILE: "53000", errno.EMFILE: "53000", errno.EIO: "58030",
        errno.ENAMETOOLONG: "42602",
    }  # fmt: skip
    shown = hint if error.errno in (errno.ENOENT, errno.EACCES) else None
    return PgError(sqlstates.get(error.errno or 0, "XX000"), f"{action}: {error.strerror}", hint=shown)


# --- reading ----------------------------------------------------------------------------------------------------------


class Incoming:
    """The data of COPY FROM. They can be read more than once, and as a file that has a name."""

    def __init__(
        self, file: IO[bytes], path: str | None = None, broken: PgError | None = None, end: PgError | None = None
    ) -> None:
        self._file = file
        self._path = path
        self._broken = broken  # the error that ended the data
        self._end = end  # an error to raise once all data have been used

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces()
        if self._broken is not None:
            raise self._broken

    def pieces(self) -> Iterator[bytes]:
        """The data from their beginning. Several readers can alternate."""
        at = 0
        while True:
            try:
                self._file.seek(at)
                piece = self._file.read(PIECE)
            except OSError as error:
                raise file_error("could not read from COPY file", error) from error
            if not piece:
                return
            at += len(piece)
            yield piece

    def as_file(self) -> str:
        """The name of a file with these data."""
        if self._broken is not None:
            raise self._broken
        if self._path is None:
            named = _named_file()
            self._file.seek(0)
            shutil.copyfileobj(self._file, named, PIECE)
            named.flush()
            self._file.close()
            self._file, self._path = named, named.name
        return self._path

    def finish(self) -> None:
        """Called when all rows are loaded: raises the error of a program that failed."""
        if self._end is not None:
            raise self._end

    def close(self) -> None:
        self._file.close()


@contextmanager
def incoming(session: Session, stmt: CopyStmt, *, binary: bool, columns: int) -> Iterator[Incoming]:
    """Open what COPY FROM reads."""
    if stmt.filename is None:
        source = _from_client(session, binary=binary, columns=columns)
    elif stmt.program:
        source = _from_program(stmt.filename)
    else:
        source = _from_file(stmt.filename)
    try:
        yield source
    finally:
        source.close()


def not_readable(name: str, error: OSError) -> PgError:
    hint = f"COPY FROM instructs the PostgreSQL server process to read a file. {_USE_PSQL}"
    return file_error(f'could not open file "{name}" for reading', error, hint=hint)


def _from_file(name: str) -> Incoming:
    try:
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise not_readable(name, error) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise PgError("42809", f'"{name}" is a directory')
    file = os.fdopen(descriptor, "rb")
    if stat.S_ISREG(mode):
        return Incoming(file, os.path.abspath(name))
    with file:  # a pipe or a device can be read once only
        return Incoming(*_spooled(iter(lambda: file.read1(PIECE), b"")))


def _from_client(session: Session, *, binary: bool, columns: int) -> Incoming:
    data = client(session, "FROM STDIN").copy_in(binary=binary, columns=columns)
    path = data.path
    if path is not None:
        return Incoming(open(path, "rb"), path)
    return Incoming(*_spooled(iter(data)))


def _from_program(command: str) -> Incoming:
    # popen(3): /bin/sh runs it
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE) as process:
        output = cast("BufferedReader", process.stdout)
        file, path, broken = _spooled(iter(lambda: output.read1(PIECE), b""))
    failed = program_failed(command, process.returncode) if process.returncode else None
    return Incoming(file, path, broken, failed)


def _spooled(pieces: Iterator[bytes]) -> tuple[IO[bytes], str | None, PgError | None]:
    """Keep all pieces, up to the end or to the error that broke them off."""
    spool: IO[bytes] = BytesIO()
    path = None
    try:
        for piece in pieces:
            spool.write(piece)
            if path is None and spool.tell() > _IN_MEMORY:
                named = _named_file()
                named.write(cast(BytesIO, spool).getbuffer())
                spool, path = named, named.name
        spool.flush()
    except PgError as error:
        return spool, path, error
    except BaseException:
        spool.close()
        raise
    return spool, path, None


def _named_file() -> IO[bytes]:
    """A temporary file with a name. It is removed when it is closed."""
    return cast("IO[bytes]", tempfile.NamedTemporaryFile(prefix="pgrepl-copy-"))


# --- writing ----------------------------------------------------------------------------------------------------------


class Outgoing:
    """A file that COPY TO writes."""

    def __init__(self, name: str) -> None:
        if not os.path.isabs(name):
            raise PgError("42602", "relative path not allowed for COPY to file")
        hint = f"COPY TO instructs the PostgreSQL server process to write a file. {_USE_PSQL}"
        self._name = name
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
            self._file = os.fdopen(os.open(name, flags, 0o644), "wb")
        except OSError as error:
            raise file_error(f'could not open file "{name}" for writing', error, hint=hint) from error

    def begin(self) -> None:
        """The query has been planned: an error is now one of its rows, behind those before it."""

    def write_rows(self, rows: Sequence[bytes]) -> None:
        self.write(b"".join(rows))

    def write_lines(self, lines: Any) -> None:
        """Write rows that are an Arrow array of large strings."""
        self.write(bytes(content(lines)))

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise file_error("could not write to COPY file", error) from error

    def finish(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise file_error(f'could not close file "{self._name}"', error) from error

    def abandon(self) -> None:
        """The statement has failed."""
        with suppress(OSError):
            self._file.close()


class OutgoingProgram(Outgoing):
    """The standard input of a command."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE)
        self._input = cast("IO[bytes]", self._process.stdin)

    def write(self, data: bytes) -> None:
        try:
            self._input.write(data)
            self._input.flush()
        except OSError as error:
            self._wait()  # the program's exit status says more than the broken pipe
            raise file_error("could not write to COPY program", error) from error

    def _wait(self) -> None:
        self.abandon()
        if self._process.returncode:
            raise program_failed(self._command, self._process.returncode)

    def finish(self) -> None:
        self._wait()

    def abandon(self) -> None:
        with suppress(OSError):
            self._input.close()
        self._process.wait()


class OutgoingClient(Outgoing):
    """The client of COPY TO STDOUT. The copy is announced when rows are computed (BeginCopyTo)."""

    def __init__(self, session: Session, *, binary: bool, columns: int) -> None:
        self._client = client(session, "TO STDOUT")
        self._binary, self._columns = binary, columns
        self._sink: CopySink | None = None

    def _opened(self) -> CopySink:
        if self._sink is None:
            self._sink = self._client.copy_out(binary=self._binary, columns=self._columns)
        return self._sink

    def begin(self) -> None:
        self._opened()

    def write(self, data: bytes) -> None:
        self._opened().write(data)

    def write_rows(self, rows: Sequence[bytes]) -> None:
        self._opened().write_rows(rows)

    def write_lines(self, lines: Any) -> None:
        self._opened().write_lines(lines)

    def finish(self) -> None:
        self._opened()

    def abandon(self) -> None:
        pass


@contextmanager
def outgoing(session: Session, stmt: CopyStmt, *, binary: bool, columns: int) -> Iterator[Outgoing]:
    """Open what COPY TO writes."""
    if stmt.filename is None:
        place: Outgoing = OutgoingClient(session, binary=binary, columns=columns)
    elif stmt.program:
        place = OutgoingProgram(stmt.filename)
    else:
        place = Outgoing(stmt.filename)
    try:
        yield place
    except BaseException:
        place.abandon()
        raise
    place.finish()
