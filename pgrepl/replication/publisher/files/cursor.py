"""Goes through the records of files from an LSN on, each with its number; sorted by a column (`order=`) in portions;
rejects.

Rejects are kept in a temporary file until what was read with them is committed. The file of rejects is written and
synced before that commit, which remembers its size, so that nothing is written twice.
"""

from __future__ import annotations

import heapq
import json
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any, BinaryIO, Protocol

from pgrepl.catalog.store.files import sync
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.formats.event import BadRecord, ChangeEvent, EventBlock, Events, Reader, RecordPlace
from pgrepl.replication.publisher.files.memory import NumberedFile, ReadFile, file_of
from pgrepl.replication.publisher.files.source import OpenedFile, OpenSource

PORTION = 50_000
_CHUNK = 500  # records that are written together
_Key = tuple[int, int]


class Ordered(Iterator["tuple[int, ChangeEvent]"]):
    """The events with their ranks from 1. BadRecord is raised by the first calls, in the order of the file."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._portion: list[tuple[_Key, ChangeEvent]] = []
        self._files: list[IO[bytes]] = []
        self._merged: Iterator[tuple[_Key, ChangeEvent]] | None = None
        self._rank = 0

    def __next__(self) -> tuple[int, ChangeEvent]:
        if self._merged is None:
            self._read_all()
        assert self._merged is not None
        _, event = next(self._merged)
        self._rank += 1
        return self._rank, event

    def _read_all(self) -> None:
        for event in self._events:  # a BadRecord is raised here; the next call goes on
            if event.lsn is None:
                raise BadRecord("22004", "it has no value in the column that says the order", event.place)
            self._portion.append(((event.lsn, event.place.number), event))
            if len(self._portion) >= PORTION:
                self._files.append(_written(self._sorted()))
        self._merged = heapq.merge(*[_read(file) for file in self._files], self._sorted(), key=_key)

    def _sorted(self) -> list[tuple[_Key, ChangeEvent]]:
        portion, self._portion = self._portion, []
        portion.sort(key=_key)
        return portion


def _key(item: tuple[_Key, ChangeEvent]) -> _Key:
    return item[0]


def _written(portion: list[tuple[_Key, ChangeEvent]]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115
    for at in range(0, len(portion), _CHUNK):
        pickle.dump(portion[at : at + _CHUNK], file, pickle.HIGHEST_PROTOCOL)
    return file


def _read(file: IO[bytes]) -> Iterator[tuple[_Key, ChangeEvent]]:
    file.seek(0)
    with file:
        while True:
            try:
                portion = pickle.load(file)
            except EOFError:
                return
            yield from portion


# --- rejects ----------------------------------------------------------------------------------------------------------


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
            if not line.endswith(b"\n") and any(waiting.startswith(line) for waiting in left):
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
    reject: dict[str, Any] = {
        "file": error.place.file,
        "record": error.place.number,
        "sqlstate": error.sqlstate,
        "reason": error.reason,
    }
    if error.record is not None:
        reject["text"] = error.record.decode("utf-8", "replace")
    elif event is not None:
        reject["operation"] = event.kind
        if event.table is not None:
            reject["table"] = event.table if event.schema is None else f"{event.schema}.{event.table}"
        reject |= {name: dict(row) for name, row in (("old", event.old), ("new", event.new)) if row is not None}
        if event.xid is not None:
            reject["xid"] = event.xid
    return reject


# --- cursor -----------------------------------------------------------------------------------------------------------


_CHECKED = 1000  # records between two checks whether to go on


@frozen
class Located:
    """A record, or a block of them. `before`: the number of lines before those that the reader has numbered; `record`:
    the number of a single record; of a block, that from which on its records count."""

    file: NumberedFile
    before: int
    record: int
    item: ChangeEvent | EventBlock

    @property
    def lsn(self) -> int:
        return self.file.lsn(self.record)


@frozen
class EndOfFile:
    """`is_last`: no file follows. `is_cut`: it is the last one and ends within a line: somebody is writing it."""

    file: NumberedFile
    is_last: bool
    is_cut: bool


class Cursor:
    """`check` raises what ends the work. `is_closed`: nothing is ever written to the last file any more. `by_columns`:
    blocks, as far as the format has them. `may_skip`: the reader may begin in the middle of a file, at a line."""

    def __init__(
        self,
        files: Sequence[NumberedFile],
        reader: Reader,
        rejects: TakesRejects,
        start: int,
        check: Callable[[], None],
        *,
        is_closed: bool = False,
        by_columns: bool = False,
        is_sorted: bool = False,
        may_skip: bool = False,
        opened: Callable[[NumberedFile], OpenedFile] = OpenSource,
    ) -> None:
        self._files = [file for file in files if file.number >= file_of(start)]
        self._reader = reader
        self._rejects = rejects
        self._start = start
        self._check = check
        self.is_closed = is_closed
        self._by_columns = by_columns and not is_sorted
        self._is_sorted = is_sorted
        self._may_skip = may_skip and not is_sorted
        self._opened = opened
        self._open: OpenedFile | None = None
        self._done: dict[int, ReadFile] = {}

    def what_was_read(self) -> dict[int, ReadFile]:
        """The files that were read since the last call, by number."""
        files, self._done = self._done, {}
        if self._open is not None:
            read = self._open.what_was_read()
            files[read.number] = read
        return files

    def close(self) -> None:
        source, self._open = self._open, None
        if source is not None:
            source.close()

    def items(self) -> Iterator[Located | EndOfFile]:
        for number, file in enumerate(self._files):
            is_last = number == len(self._files) - 1
            source = self._open = self._opened(file)
            yield from self._of_file(file, source, is_last=is_last)
            self._done[file.number] = source.what_was_read()
            self.close()

    def _of_file(self, file: NumberedFile, source: OpenedFile, *, is_last: bool) -> Iterator[Located | EndOfFile]:
        first = self._start - file.lsn(0) if file.number == file_of(self._start) else 0  # the first record
        before = source.skip_lines(first - 1) if self._may_skip and first > 1 else 0
        is_open = is_last and not self.is_closed
        refused: BadRecord | None = None
        items = self._items(source.content, file)
        count = 0
        while True:
            count += 1
            if not count % _CHECKED:
                self._check()
            try:
                item = next(items, None)
            except BadRecord as bad:
                if refused is not None:
                    self._refuse(refused, file)
                refused = _moved(bad, before)
                continue
            if refused is not None and item is not None:
                self._refuse(refused, file)
                refused = None
            if item is None:
                break
            if isinstance(item, EventBlock):
                self._check()
                if before + int(item.number[-1]) >= first:
                    yield Located(file, before, max(first, 0), item)
                continue
            record, event = item
            if before:
                record += before
                event = replace(event, place=RecordPlace(event.place.file, event.place.number + before))
            if record >= first:
                yield Located(file, before, record, event)
        is_cut = is_open and source.ends_within_line
        if refused is not None and not is_cut:
            self._refuse(refused, file)
        yield EndOfFile(file, is_last, is_cut)

    def _refuse(self, bad: BadRecord, file: NumberedFile) -> None:
        lsn = file.lsn(bad.place.number)
        if lsn >= self._start:
            self._rejects.take(bad, lsn)

    def _items(self, content: BinaryIO, file: NumberedFile) -> Iterator[tuple[int, ChangeEvent] | EventBlock]:
        if self._is_sorted:
            return Ordered(self._reader.read(content, file.file.shown))
        if not self._by_columns:
            return _Numbered(self._reader.read(content, file.file.shown))
        return _Numbered(self._reader.blocks(content, file.file.shown))


class _Numbered(Iterator["tuple[int, ChangeEvent] | EventBlock"]):
    def __init__(self, items: Iterator[ChangeEvent | EventBlock] | Iterator[ChangeEvent]) -> None:
        self._items = items

    def __next__(self) -> tuple[int, ChangeEvent] | EventBlock:
        item = next(self._items)
        return item if isinstance(item, EventBlock) else (item.place.number, item)


def _moved(bad: BadRecord, before: int) -> BadRecord:
    """The error with the record's number in the whole file."""
    if not before:
        return bad
    place = RecordPlace(bad.place.file, bad.place.number + before)
    return BadRecord(bad.sqlstate, bad.reason, place, record=bad.record)
