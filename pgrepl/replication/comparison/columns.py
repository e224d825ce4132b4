"""How the columns of a table are hashed: by a server in SQL, and here as arrays, so that equal values have one hash.

The hash is of the value as it ought to be here. Where only the input function of the column's type here can tell that,
a server cannot hash it: its rows are read then, and hashed as the column has them.

NULL is hashed as a random value, another one at each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np
from pgrepl.replication.comparison.hashes import PADDING, RowHashes
from pgrepl.types import oids
from pgrepl.types.builtin import base_type_and_typmod
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.lake.nested_words import bytes_of
from pgrepl.types.user_types import is_enum

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgrepl.catalog.facts.relation import Attribute
    from pgrepl.replication.wire.messages import SentColumn
    from pgrepl.types.lake.arrays import Form
    from pgrepl.types.style import TextStyle

_INT4, _INT8, _BOOL, _FLOAT, _TEXT = "int4", "int8", "bool", "float", "text"
_TEXTS = (oids.TEXT, oids.VARCHAR)
_SENT = {oids.FLOAT4: "float4send", oids.FLOAT8: "float8send"}
_NAN = b"NaN"
_UNKNOWN = 2  # neither false nor true
_random = SystemRandom()


@frozen
class HashedColumn:
    """A column with its type here. `null`: the value that NULL is hashed as."""

    name: str
    typoid: int
    kind: str
    null: Any

    def sql(self, name: str, sent: int, seed: str) -> str:
        """The hash of a server's column as an expression. `name`: quoted; `sent`: its type there; `seed`: the
        expression of the seed."""
        if self.kind == _BOOL:
            return f"hashint4extended(coalesce({name}::int4, {self.null}), {seed})"
        if self.kind == _INT4:
            return f"hashint4extended(coalesce({name}::int4, {_number(self.null)}), {seed})"
        if self.kind == _INT8:
            value = f"coalesce({name}::int8, {_number(self.null)}::int8)"
            return f"hashint4extended(({value} >> 32)::int4, hashint8extended({value}, {seed}))"
        if self.kind == _FLOAT:
            digits = f"coalesce(encode({_SENT[sent]}({name}), 'hex'), '{self.null}')"
            return f"hashtextextended(CASE WHEN {name} = 'NaN' THEN 'NaN' ELSE {digits} END COLLATE \"C\", {seed})"
        text = name if sent in _TEXTS else f"CASE WHEN {name} IS NOT NULL THEN concat({name}) END"
        return f"hashtextextended(coalesce({text}, '{self.null}') COLLATE \"C\", {seed})"

    def add(self, hashes: RowHashes, array: Any, form: Form, style: TextStyle) -> None:
        """Hash an array of the column as the lake keeps it."""
        if self.kind == _TEXT:
            self._add_texts(hashes, column_text(array, self.typoid, form, style))
            return
        missing = array.is_null() if array.null_count else None
        if self.kind == _FLOAT:
            self._add_floats(hashes, array, missing)
            return
        filled = array if missing is None else array.fill_null(False if self.kind == _BOOL else 0)
        values = filled.to_numpy(zero_copy_only=False)
        if missing is not None:
            values = np.where(missing.to_numpy(zero_copy_only=False), self.null, values.astype(np.int64))
        if self.kind == _INT8:
            hashes.add_int8(values)
        else:
            hashes.add_int4(values)

    def _add_texts(self, hashes: RowHashes, texts: Any) -> None:
        data, ends = bytes_of(texts.fill_null(self.null) if texts.null_count else texts)
        hashes.add_bytes(np.concatenate([data, np.zeros(PADDING, np.uint8)]), ends[:-1], np.diff(ends))

    def _add_floats(self, hashes: RowHashes, array: Any, missing: Any) -> None:
        values = (array if missing is None else array.fill_null(0)).to_numpy(zero_copy_only=False)
        width = 2 * values.itemsize
        pairs = values.astype(values.dtype.newbyteorder(">")).view(">u2")
        words = _hexadecimal()[pairs].reshape(len(values), width // 4)
        if missing is None and not np.isnan(values).any():
            hashes.add_words(words)
            return
        digits = words.view(np.uint8).ravel()
        starts = np.arange(len(values), dtype=np.int64) * width
        lengths = np.full(len(values), width, np.int64)
        null = self.null.encode()
        for chosen, at, length in (
            (np.isnan(values), len(digits), len(_NAN)),
            (None if missing is None else missing.to_numpy(zero_copy_only=False), len(digits) + len(_NAN), len(null)),
        ):
            if chosen is not None:
                starts[chosen], lengths[chosen] = at, length
        rest = np.frombuffer(_NAN + null + bytes(PADDING), np.uint8)
        hashes.add_bytes(np.concatenate([digits, rest]), starts, lengths)


@cache
def _hexadecimal() -> Any:
    """The digits of each two bytes, as a word."""
    return np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), "<u4")


def hashed(attribute: Attribute) -> HashedColumn:
    """How a column is hashed by its type here."""
    typoid, _ = base_type_and_typmod(attribute.type, attribute.typmod)
    if typoid in (oids.INT2, oids.INT4):
        return _column(attribute.name, typoid, _INT4)
    kind = {oids.INT8: _INT8, oids.BOOL: _BOOL, oids.FLOAT4: _FLOAT, oids.FLOAT8: _FLOAT}.get(typoid, _TEXT)
    return _column(attribute.name, typoid, kind)


def hashed_as(sent: SentColumn, attribute: Attribute) -> HashedColumn | None:
    """How a server and this side hash a column alike. None: the server cannot know its value here."""
    typoid, typmod = base_type_and_typmod(attribute.type, attribute.typmod)
    theirs, their_typmod = sent.sent_as, sent.sent_typmod
    if theirs in oids.INTEGERS and typoid in oids.INTEGERS:
        return _column(attribute.name, typoid, _INT8 if oids.INT8 in (theirs, typoid) else _INT4)
    if typoid in (oids.TEXT, oids.JSON) or is_enum(typoid):
        return _column(attribute.name, typoid, _TEXT)  # it has what was sent
    if typoid == oids.VARCHAR:
        fits = typmod < 0 or (theirs in _TEXTS and 0 <= their_typmod <= typmod)
        return _column(attribute.name, typoid, _TEXT) if fits else None
    if theirs != typoid or typoid == oids.XML or typoid >= oids.FIRST_USER_OID:
        return None
    return hashed(attribute) if typmod in (-1, their_typmod) else None


def _column(name: str, typoid: int, kind: str) -> HashedColumn:
    null: Any = f"{_random.getrandbits(128):032x}"
    if kind == _BOOL:
        null = _UNKNOWN
    elif kind in (_INT4, _INT8):
        bits = 32 if kind == _INT4 else 64
        null = _random.getrandbits(bits) - (1 << (bits - 1))
    return HashedColumn(name, typoid, kind, null)


def _number(value: int) -> str:
    return f"'{value}'"


def new_seed() -> int:
    """The seed of a row's first column."""
    return _random.getrandbits(62) + 1


def row_hash_sql(
    columns: Sequence[HashedColumn], sent: Sequence[SentColumn], seed: int, identifier: Callable[[str], str]
) -> str:
    """The hash of a server's row."""
    found = f"{seed}::int8"
    for column, there in zip(columns, sent, strict=True):
        found = column.sql(identifier(there.name), there.sent_as, found)
    return found


def row_hashes(
    columns: Sequence[HashedColumn], arrays: Sequence[Any], forms: Sequence[Form], seed: int, count: int,
    style: TextStyle,
) -> Any:  # fmt: skip
    """The hashes of so many rows."""
    hashes = RowHashes(count, seed)
    for column, array, form in zip(columns, arrays, forms, strict=True):
        column.add(hashes, array, form, style)
    return hashes.hashes
