"""Records that could not be read: each is an error that stops the subscription, or a line of JSON in a file of rejects.

Rejects are kept in a temporary file until what was read with them is committed. The file of rejects is written and
synced before the commit, which remembers its size: what a killed worker has written behind it is not written again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.disk import sync
from pgrepl.errors import PgError
from pgrepl.replication.formats.event import BadRecord, ChangeEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_MEMORY = 1 << 20  # bytes


class TakesRejects(Protocol):
    """Takes records that could not be read: an error, unless they `are_written`."""

    @property
    def are_written(self) -> bool: ...

    def take(self, error: BadRecord, lsn: int, event: ChangeEvent | None = None) -> None: ...


class Rejects:
    """`path`: the file of rejects; None: a bad record is an error."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._kept: IO[bytes] | None = None
        self.count = 0

    @property
    def are_written(self) -> bool:
        return self._path is not None

    def take(self, error: BadRecord, lsn: int, event: ChangeEvent | None = None) -> None:
        """Keep a record; or raise, if none is to be left out."""
        if self._path is None:
            raise error
        if self._kept is None:
            self._kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        try:
            line = json.dumps(_reject(error, event), ensure_ascii=False).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # half of a surrogate pair, which came as an escape
            line = json.dumps(_reject(error, event)).encode()
        self._kept.seek(0, os.SEEK_END)
        self._kept.write(b"%d %s\n" % (lsn, line))
        self.count += 1

    def forget_from(self, lsn: int) -> None:
        """Drop the records from this LSN on: they will be read again."""
        self._keep([line for line in self._lines() if _lsn(line) < lsn])

    def write(self, before: int, size: int) -> tuple[int, int]:
        """Append the records before an LSN to the file of rejects, which had `size` bytes at the last commit: their
        number, and its new size."""
        lines = list(self._lines())
        written = [line.partition(b" ")[2] for line in lines if _lsn(line) < before]
        if not written or self._path is None:
            return 0, size
        try:
            size = _append(self._path, written, size)
        except OSError as problem:
            text = f'could not write file "{self._path}": {problem.strerror}'
            raise PgError("58030", text, hint="Rejected records are written there, as on_error says.") from None
        return len(written), size

    def written(self, before: int) -> None:
        """Drop the records before an LSN: they are in the file, and that is committed."""
        self._keep([line for line in self._lines() if _lsn(line) >= before])

    def _lines(self) -> Iterator[bytes]:
        if self._kept is not None:
            self._kept.seek(0)
            yield from self._kept

    def _keep(self, lines: list[bytes]) -> None:
        self.count = len(lines)
        if self._kept is not None:
            self._kept.seek(0)
            self._kept.truncate()
            self._kept.writelines(lines)

    def close(self) -> None:
        if self._kept is not None:
            with suppress(OSError):
                self._kept.close()


def _lsn(line: bytes) -> int:
    return int(line.partition(b" ")[0])


def _append(path: str, lines: list[bytes], size: int) -> int:
    """Append the lines that a killed worker has not written already, behind the `size` bytes of the last commit. Others
    may write to the file, too."""
    is_new = not os.path.exists(path)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        left = dict.fromkeys(lines)
        file.seek(size if size <= os.fstat(file.fileno()).st_size else 0)
        end = file.tell()
        for line in file:
            left.pop(line, None)
            if not line.endswith(b"\n") and any(each.startswith(line) for each in left):
                break  # it was killed within a line
            end += len(line)
        file.seek(end)
        file.truncate()
        file.writelines(left)
        file.flush()
        os.fsync(file.fileno())
        if is_new:
            sync(os.path.dirname(os.path.abspath(path)))
        return file.tell()


def _reject(error: BadRecord, event: ChangeEvent | None) -> Mapping[str, Any]:
    made: dict[str, Any] = {
        "file": error.place.file,
        "record": error.place.number,
        "sqlstate": error.sqlstate,
        "reason": error.reason,
    }
    if error.record is not None:
        made["text"] = error.record.decode("utf-8", "replace")
    elif event is not None:
        made["operation"] = event.kind
        if event.table is not None:
            made["table"] = event.table if event.schema is None else f"{event.schema}.{event.table}"
        made |= {name: dict(row) for name, row in (("old", event.old), ("new", event.new)) if row is not None}
        if event.xid is not None:
            made["xid"] = event.xid
    return made
