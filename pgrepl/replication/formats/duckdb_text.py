"""DuckDB's text of lists and blobs, as it stands in CSV and JSON, → the text that PostgreSQL's input functions read.

>>> list_text("[1, NULL, 'it\\\\'s, here', a b]", False)
'{1,NULL,"it\\'s, here","a b"}'
>>> blob_text("\\\\x00ab\\\\xFF")
'\\\\x006162ff'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.replication.formats.json_text import array_text
from pgrepl.types import oids
from pgrepl.types.arrays import read_array, write_array
from pgrepl.types.builtin import element_type

if TYPE_CHECKING:
    from pgrepl.replication.formats.rows import RowBatch

_WORD = re.compile(r"[^,\[\]]*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BYTE = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_Convert = Callable[[str], str]


class _Unfit(ValueError):
    """The text is no list."""


def converted(batch: RowBatch, kind: str, types: Mapping[str, tuple[int, int]]) -> RowBatch:
    """The batch of a file of this kind, its lists and blobs in PostgreSQL's text. What is none is left for the type's
    input function, which says so."""
    import pyarrow as pa

    made = {}
    for name, array in batch.columns.items():
        convert = _of_type(kind, types.get(name, (0, -1))[0])
        if convert is not None:
            texts = [None if text is None else _or_as_it_is(convert, text) for text in array.to_pylist()]
            made[name] = pa.array(texts, pa.string())
    return replace(batch, columns={**batch.columns, **made}) if made else batch


def _of_type(kind: str, typoid: int) -> _Convert | None:
    if typoid == oids.BYTEA:
        return blob_text
    element = element_type(typoid)
    has_blobs = element == oids.BYTEA
    if kind == "csv" and element:
        return lambda text: list_text(text, has_blobs)
    return _blobs_of_array if has_blobs else None  # JSON's lists are arrays already


def _or_as_it_is(convert: _Convert, text: str) -> str:
    try:
        return convert(text)
    except (_Unfit, PgError):
        return text


def blob_text(text: str) -> str:
    """Bytes that are no printable ASCII are `\\x` and two digits; all others stand for themselves."""
    return "\\x" + _BYTE.sub(lambda found: bytes([int(found[1], 16)]), text.encode()).hex()


def _blobs_of_array(text: str) -> str:
    return write_array(read_array(text, oids.TEXT, blob_text), str)


def list_text(text: str, has_blobs: bool) -> str:
    """A list as an array's text; a list in it is a further dimension."""
    items, end = _items(text, 0, blob_text if has_blobs else str)
    if end != len(text):
        raise _Unfit
    return array_text(items)


def _items(text: str, at: int, convert: _Convert) -> tuple[list[Any], int]:
    """The items of the list that begins here, and the offset behind it."""
    if text[at : at + 1] != "[":
        raise _Unfit
    at += 1
    items: list[Any] = []
    if text[at : at + 1] == "]":
        return items, at + 1
    while True:
        item, at = _item(text, at, convert)
        items.append(item)
        if text[at : at + 1] == "]":
            return items, at + 1
        if text[at : at + 2] != ", ":
            raise _Unfit
        at += 2


def _item(text: str, at: int, convert: _Convert) -> tuple[Any, int]:
    if text[at : at + 1] == "[":
        return _items(text, at, convert)
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return convert(_ESCAPED.sub(r"\1", quoted[1])), quoted.end()
    word = _WORD.match(text, at)
    if word is None or not word[0]:
        raise _Unfit
    return None if word[0] == "NULL" else convert(word[0]), word.end()
