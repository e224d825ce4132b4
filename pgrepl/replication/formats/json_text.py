"""JSON as files of changes have it, compressed or not: records, and values as text for input functions.

Numbers are kept as they are written: `Number` is a text that has no quotes in JSON.

    >>> value_text(read_json('{"a": [1.10, null, "b c"]}')["a"])
    '{1.10,NULL,"b c"}'
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa
from pgrepl.replication.formats.event import BadRecord, ChangeEvent, RecordPlace
from pgrepl.types import oids
from pgrepl.types.arrays import array_of, write_array
from pgrepl.types.builtin import element_type
from pgrepl.types.input_checks import invalid_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LONGEST = 6
_READ_AHEAD = 1 << 20
MAX_RECORD = 1 << 28  # bytes of one record; more is no record but a file of another kind


def decompressed(file: BinaryIO, name: str) -> BinaryIO:
    """The content of a file: gzip, zstd, bzip2, xz and lz4 are decompressed, all else is as it is. A file that is not
    compressed can be sought in if `file` can."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_Raw(file), _READ_AHEAD)
    try:
        start = buffered.peek(_LONGEST)[:_LONGEST]
    except OSError as problem:
        raise unreadable(name, problem) from None
    for magic, opened in _KINDS.items():
        if start.startswith(magic):
            return _in_utf8(io.BufferedReader(_Decompressed(opened(buffered), name), _READ_AHEAD), name)
    return _in_utf8(buffered, name)


def _in_utf8(file: io.BufferedReader, name: str) -> io.BufferedReader:
    """The file behind its byte order mark, if it has one."""
    start = file.peek(len(codecs.BOM_UTF8))
    if start.startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    elif start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise PgError("22021", f'file "{name}" is encoded in UTF-16 or UTF-32', hint="Convert it to UTF-8.")
    return file


def unreadable(name: str, problem: OSError) -> PgError:
    return PgError("58P01", f'could not open file "{name}" for reading: {problem.strerror or problem}')


def lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers from 1, without their ends; a line is never larger than MAX_RECORD."""
    number = 0
    while True:
        line = read_line(file, name, number + 1)
        if not line:
            return
        number += 1
        yield number, line.rstrip(b"\r\n")


def read_line(file: BinaryIO, name: str, number: int) -> bytes:
    """The next line with its end; nothing at the end of the file."""
    line = file.readline(MAX_RECORD + 1)
    check_size(line, name, number)
    return line


def check_size(record: bytes | str, name: str, number: int) -> None:
    if len(record) > MAX_RECORD:
        raise PgError("54000", f"could not read {name}, record {number}: it is larger than {MAX_RECORD >> 20} MB")


# --- decompression ----------------------------------------------------------------------------------------------------


_KINDS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"),
    b"\x04\x22\x4d\x18": lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "lz4"),
}


class _Raw(io.RawIOBase):
    """Any object with `read` as a raw stream, such as standard input or a file of an object store."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        seekable = getattr(self._file, "seekable", None)
        return bool(seekable is not None and seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, into: Buffer) -> int:
        view = memoryview(into).cast("B")
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Decompressed(_Raw):
    """A decompressed stream whose errors name the file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__(file)
        self._name = name

    def seekable(self) -> bool:
        return False

    def readinto(self, into: Buffer) -> int:
        try:
            return super().readinto(into)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as problem:
            raise PgError("58030", f'could not decompress file "{self._name}": {problem}') from None


# --- json text --------------------------------------------------------------------------------------------------------


MAX_DEPTH = 300  # of nested arrays and objects
INVALID_BYTES = "22021"
INVALID = "22P02"  # the SQLSTATE of a record that is not what its format says

encode_string: Callable[[str], str] = encode_basestring


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class JsonProblem(ValueError):
    """JSON that has no single meaning, or no meaning as text; the text is the reason."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are different."""
    record = dict(pairs)
    if len(record) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonProblem(f"duplicate JSON object key {json.dumps(twice)}")
    return record


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=_object
)  # fmt: skip
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str) -> Any:
    """The value of a text; ValueError, RecursionError."""
    value = _DECODER.decode(text)
    _check(value, text, 0, len(text))
    return value


def raw_json(text: str, at: int) -> tuple[Any, int]:
    """The value at an offset of a text, and the offset behind it."""
    value, end = _DECODER.raw_decode(text, at)
    _check(value, text, at, end)
    return value, end


def _check(checked: Any, text: str, start: int, end: int) -> None:
    """Refuse what is nested too deeply, and half a surrogate pair, which is no character."""
    if text.count("[", start, end) + text.count("{", start, end) > MAX_DEPTH:
        values = [checked]
        for _ in range(MAX_DEPTH):
            values = [
                item
                for value in values
                if isinstance(value, (list, dict))
                for item in (value.values() if isinstance(value, dict) else value)
            ]
        if any(isinstance(value, (list, dict)) for value in values):
            raise RecursionError
    if _SURROGATE.search(text, start, end) is not None:
        try:
            json.dumps(checked, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise JsonProblem("Unicode low surrogate must follow a high surrogate") from None


def objects(file: BinaryIO, name: str) -> Iterator[tuple[RecordPlace, dict[str, Any] | None, bytes] | BadRecord]:
    """The JSON objects of a file, one on each line; None is the line `null`. Empty lines are skipped."""
    for number, line in lines(file, name):
        if not line or line.isspace():
            continue
        place = RecordPlace(name, number)
        try:
            value = read_json(line.decode())
        except (ValueError, RecursionError) as problem:
            yield bad_json(problem, place, line)
            continue
        if value is not None and not isinstance(value, dict):
            yield BadRecord(INVALID, "it is no JSON object", place, record=line)
            continue
        yield place, value, line


def events(
    file: BinaryIO,
    name: str,
    read: Callable[[dict[str, Any], RecordPlace], ChangeEvent | None],
    unfit: type[Exception] | tuple[type[Exception], ...],
) -> Iterator[tuple[ChangeEvent, dict[str, Any]] | BadRecord]:
    """The events that `read` makes of the objects, each with its object. `unfit`: what it raises, with the reason,
    where an object is no event."""
    for json_object in objects(file, name):
        if isinstance(json_object, BadRecord):
            yield json_object
            continue
        place, record, line = json_object
        try:
            event = None if record is None else read(record, place)
        except unfit as problem:
            yield BadRecord(INVALID, str(problem), place, record=line)
            continue
        if event is not None and record is not None:
            yield event, record


def bad_json(problem: Exception, place: RecordPlace, line: bytes) -> BadRecord:
    """The error for a line that `read_json` or decoding cannot read."""
    sqlstate = INVALID_BYTES if isinstance(problem, UnicodeDecodeError) else INVALID
    return BadRecord(sqlstate, json_problem(problem), place, record=line)


def json_problem(problem: Exception) -> str:
    if isinstance(problem, json.JSONDecodeError):
        return f"invalid JSON: {problem.msg.removesuffix(' at')} at column {problem.colno}"
    if isinstance(problem, UnicodeDecodeError):
        return invalid_bytes(problem.object, problem.start).message
    return (
        "invalid JSON: it is nested too deeply" if isinstance(problem, RecursionError) else f"invalid JSON: {problem}"
    )


def value_text(value: Any, typoid: int = 0) -> str | None:
    """The text of a JSON value for the input function of a type, if that is known. A list is an array, unless it has
    objects in it or goes into a json column; an object is JSON."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):  # a Number, which is to be a plain str
        return str.__str__(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, list) and typoid not in (oids.JSON, oids.JSONB) and (element_type(typoid) or _is_plain(value)):
        return array_text(value)
    return json_text(value)


def array_text(items: list[Any]) -> str:
    """A list as an array's text; nested lists are further dimensions."""
    if items and all(isinstance(item, list) for item in items):
        return "{" + ",".join([array_text(item) for item in items]) + "}"
    return write_array(array_of(oids.TEXT, [value_text(item) for item in items]), str)


def json_text(value: Any) -> str:
    """A value as JSON, with its numbers as they were written."""
    if isinstance(value, Number):
        return str.__str__(value)
    if isinstance(value, str):
        return encode_string(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{encode_string(key)}: {json_text(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([json_text(item) for item in value]) + "]"
    return "null" if value is None else "true" if value else "false"


def _is_plain(items: list[Any]) -> bool:
    """Whether a list has neither objects in it nor lists of objects."""
    return not any(isinstance(item, dict) or (isinstance(item, list) and not _is_plain(item)) for item in items)
