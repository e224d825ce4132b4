"""Goes through the records of files, from an LSN on: file after file, each record with its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from pgrepl.frozen import frozen
from pgrepl.replication.formats.event import BadRecord, ChangeEvent, EventBlock, Reader, RecordPlace
from pgrepl.replication.publisher.files.memory import NumberedFile, ReadFile, file_of
from pgrepl.replication.publisher.files.ordered import Ordered
from pgrepl.replication.publisher.files.rejects import TakesRejects
from pgrepl.replication.publisher.files.source import OpenedFile, OpenSource

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
        found, self._done = self._done, {}
        if self._open is not None:
            read = self._open.what_was_read()
            found[read.number] = read
        return found

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
    def __init__(self, found: Iterator[ChangeEvent | EventBlock] | Iterator[ChangeEvent]) -> None:
        self._found = found

    def __next__(self) -> tuple[int, ChangeEvent] | EventBlock:
        item = next(self._found)
        return item if isinstance(item, EventBlock) else (item.place.number, item)


def _moved(bad: BadRecord, before: int) -> BadRecord:
    """The error with the record's number in the whole file."""
    if not before:
        return bad
    place = RecordPlace(bad.place.file, bad.place.number + before)
    return BadRecord(bad.sqlstate, bad.reason, place, record=bad.record)
