"""JSON as files of changes have it: records, and values as text for PostgreSQL's input functions.

Numbers are kept as they are written, digit by digit: `Number` is a text that has no quotes in JSON.

>>> value_text(read_json('{"a": [1.10, null, "b c"]}')["a"])
'{1.10,NULL,"b c"}'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import Any, BinaryIO

from pgrepl.replication.formats.event import BadRecord, ChangeEvent, RecordPlace
from pgrepl.replication.formats.opening import lines
from pgrepl.types import oids
from pgrepl.types.arrays import array_of, write_array
from pgrepl.types.builtin import element_type
from pgrepl.types.encoding import invalid_bytes

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
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonProblem(f"duplicate JSON object key {json.dumps(twice)}")
    return found


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=_object
)  # fmt: skip
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str) -> Any:
    """The value of a text; ValueError, RecursionError."""
    found = _DECODER.decode(text)
    _check(found, text, 0, len(text))
    return found


def raw_json(text: str, at: int) -> tuple[Any, int]:
    """The value at an offset of a text, and the offset behind it."""
    found, end = _DECODER.raw_decode(text, at)
    _check(found, text, at, end)
    return found, end


def _check(found: Any, text: str, start: int, end: int) -> None:
    """Refuse what is nested too deeply, and half a surrogate pair, which is no character."""
    if text.count("[", start, end) + text.count("{", start, end) > MAX_DEPTH:
        values = [found]
        for _ in range(MAX_DEPTH):
            values = [
                each
                for value in values
                if isinstance(value, (list, dict))
                for each in (value.values() if isinstance(value, dict) else value)
            ]
        if any(isinstance(value, (list, dict)) for value in values):
            raise RecursionError
    if _SURROGATE.search(text, start, end) is not None:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise JsonProblem("Unicode low surrogate must follow a high surrogate") from None


def objects(file: BinaryIO, name: str) -> Iterator[tuple[RecordPlace, dict[str, Any] | None, bytes] | BadRecord]:
    """The JSON objects of a file, one on each line; None is the line `null`. Empty lines are skipped."""
    for number, line in lines(file, name):
        if not line or line.isspace():
            continue
        place = RecordPlace(name, number)
        try:
            found = read_json(line.decode())
        except (ValueError, RecursionError) as problem:
            yield bad_json(problem, place, line)
            continue
        if found is not None and not isinstance(found, dict):
            yield BadRecord(INVALID, "it is no JSON object", place, record=line)
            continue
        yield place, found, line


def events(
    file: BinaryIO,
    name: str,
    read: Callable[[dict[str, Any], RecordPlace], ChangeEvent | None],
    unfit: type[Exception] | tuple[type[Exception], ...],
) -> Iterator[tuple[ChangeEvent, dict[str, Any]] | BadRecord]:
    """The events that `read` makes of the objects, each with its object. `unfit`: what it raises, with the reason,
    where an object is no event."""
    for found in objects(file, name):
        if isinstance(found, BadRecord):
            yield found
            continue
        place, record, line = found
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
        return "{" + ", ".join([f"{encode_string(key)}: {json_text(each)}" for key, each in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([json_text(each) for each in value]) + "]"
    return "null" if value is None else "true" if value else "false"


def _is_plain(items: list[Any]) -> bool:
    """Whether a list has neither objects in it nor lists of objects."""
    return not any(isinstance(item, dict) or (isinstance(item, list) and not _is_plain(item)) for item in items)
