"""Files of changes divided into parts for tasks, and how far the parts have come in each file.

A file whose records are lines is divided into ranges of bytes. Which numbers the lines of a range have is known when
all ranges before it have been read.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.ground.frozen import frozen
from pgrepl.lake import storage
from pgrepl.replication.publisher.files.file_part import FilePart, ReadPart
from pgrepl.replication.publisher.files.memory import NumberedFile, ReadFile, file_of
from pgrepl.replication.publisher.files.source import combined

if TYPE_CHECKING:
    from pgrepl.replication.formats.event import Reader

SIZE = 32 << 20  # bytes of a part
_LOOK = 4096
_PIECE = 1 << 20
SEQ_BITS = 32  # of a sequence number: the record in its part


@frozen
class _Reached:
    """The place of a file behind `lines` lines; `checksum`: of the bytes before it."""

    offset: int
    lines: int
    checksum: int


class DividedFiles:
    def __init__(self, files: Sequence[NumberedFile], reader: Reader, *, is_closed: bool, is_sorted: bool) -> None:
        self.files = files
        self._reader = reader
        self._is_closed = is_closed  # nothing is written behind the last one
        self._is_sorted = is_sorted
        self._reached: dict[int, list[_Reached]] = {}  # by the file's number, ascending
        self._divisible: dict[int, bool] = {}
        self._read: dict[int, ReadFile] = {}

    def parts(self, start: int, check: Callable[[], None]) -> Iterator[FilePart]:
        """The parts of the files from the record at an LSN on."""
        count = 0
        for file in self.files:
            if file.number < file_of(start):
                continue
            first = start - file.lsn(0) if file.number == file_of(start) else 0
            for part in self._of_file(file, max(first, 0), count, check):
                yield part
                count += 1

    def is_last(self, part: FilePart) -> bool:
        return part.number == self.files[-1].number and self.ends_file(part)

    @staticmethod
    def ends_file(part: FilePart) -> bool:
        return part.end is None or part.end >= part.file.size

    def _of_file(self, file: NumberedFile, first: int, count: int, check: Callable[[], None]) -> Iterator[FilePart]:
        is_open = file.number == self.files[-1].number and not self._is_closed
        size = file.file.size
        if not self._is_divided(file):
            yield FilePart(file.file, file.number, 0, None, first, is_open, _first_seq(count))
            return
        begin = self._before(file, first, check)
        start, first = begin.offset, max(first - begin.lines, 0)
        while start < size:
            end = min(start + SIZE, size)
            yield FilePart(file.file, file.number, start, end, first, is_open, _first_seq(count))
            start, first, count = end, 0, count + 1

    def _is_divided(self, file: NumberedFile) -> bool:
        if self._is_sorted or file.file.size <= SIZE:
            return False
        if file.number not in self._divisible:
            with storage.reading(file.file.path), storage.open_input(file.file.path) as raw:
                self._divisible[file.number] = self._reader.is_divisible(bytes(raw.read(_LOOK)))
        return self._divisible[file.number]

    def _before(self, file: NumberedFile, record: int, check: Callable[[], None]) -> _Reached:
        """The last known place in front of a record."""
        reached = self._reached.setdefault(file.number, [_Reached(0, 0, 0)])
        if record > 1 and len(reached) == 1:
            reached.append(_searched(file, record - 1, check))
        return reached[max(bisect_left(reached, record, key=lambda each: each.lines) - 1, 0)]

    # --- what was read ------------------------------------------------------------------------------------------------

    def lines_before(self, part: FilePart) -> int:
        """The number of lines before a part that follows those that were read."""
        return 0 if part.end is None else self._at(part).lines

    def _at(self, part: FilePart) -> _Reached:
        return next(each for each in self._reached[part.number] if each.offset == part.start)

    def note(self, part: FilePart, found: ReadPart) -> None:
        """The part has been read, as all before it."""
        size, checksum = found.checked, found.checksum
        if part.end is not None:
            before, reached = self._at(part), self._reached[part.number]
            size += before.offset
            checksum = combined(before.checksum, checksum, found.checked)
            if part.end > reached[-1].offset:
                reached.append(_Reached(part.end, before.lines + found.lines, checksum))
        file = part.file
        known = self._read.get(part.number)
        if known is None or known.checked < size:
            self._read[part.number] = ReadFile(part.number, file.name, file.size, file.modified, size, checksum)

    def what_was_read(self) -> dict[int, ReadFile]:
        found, self._read = self._read, {}
        return found


def _first_seq(part: int) -> int:
    return (part << SEQ_BITS) + 1


def _searched(file: NumberedFile, lines: int, check: Callable[[], None]) -> _Reached:
    """The place behind so many lines, or the end of the file."""
    offset = found = checksum = 0
    with storage.reading(file.file.path), storage.open_input(file.file.path) as raw:
        while found < lines and offset < file.file.size:
            check()
            data = bytes(raw.read(min(_PIECE, file.file.size - offset)))
            ends = data.count(b"\n")
            if found + ends >= lines:
                at = -1
                for _ in range(lines - found):
                    at = data.index(b"\n", at + 1)
                data, ends = data[: at + 1], lines - found
            elif not data:
                break
            found += ends
            offset += len(data)
            checksum = zlib.crc32(data, checksum)
    return _Reached(offset, found, checksum)
