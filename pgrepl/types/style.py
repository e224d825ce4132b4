"""The settings that input and output functions depend on, and composite values: a tuple that may know its fields, and
its text.

Values whose text depends on the catalog (`regclass` …) ask `lookup`; 'now' and 'today' ask `now`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Protocol

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids


class Record(tuple[Any, ...]):
    """A row as one value. A plain tuple is a record whose field types are known to its reader."""

    types: tuple[int, ...]
    names: tuple[str, ...]

    def __new__(cls, values: Sequence[Any], types: Sequence[int], names: Sequence[str] = ()) -> Record:
        record = super().__new__(cls, values)
        record.types = tuple(types)
        record.names = tuple(names) or tuple(f"f{n + 1}" for n in range(len(values)))
        return record

    def __reduce__(self) -> Any:
        return Record, (tuple(self), self.types, self.names)


@frozen
class RowField:
    """A column of a named row type that is not dropped."""

    place: int  # index among all columns that the type ever had, from 0
    name: str
    type: int
    typmod: int
    row: RowType | None = None  # if it is of a named row type itself, or of arrays of such


@frozen
class RowType:
    """The columns of a named row type. Dropped columns keep their place in stored values."""

    fields: tuple[RowField, ...]
    width: int

    @property
    def types(self) -> tuple[int, ...]:
        return tuple([field.type for field in self.fields])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([field.name for field in self.fields])

    def index(self, fieldnum: int) -> int | None:
        """The index in a Record of the column with this attnum; None: it has been dropped."""
        return next((n for n, field in enumerate(self.fields) if field.place == fieldnum - 1), None)


def guessed_type(value: Any) -> int:
    """The type that prints a Python value as its text."""
    return _GUESSES.get(type(value).__name__, oids.ANYARRAY if hasattr(value, "elemtype") else oids.TEXT)


_GUESSES = {
    "bool": oids.BOOL,
    "int": oids.INT8,
    "float": oids.FLOAT8,
    "Decimal": oids.NUMERIC,
    "Jsonb": oids.JSONB,
    "bytes": oids.BYTEA,
    "Interval": oids.INTERVAL,
    "TimeTz": oids.TIMETZ,
    "UUID": oids.UUID,
}


def fitted(value: Sequence[Any], row: RowType) -> Sequence[Any]:
    """The fields of a value that may have been made before another session has added some to its type, or dropped
    some."""
    if len(value) == len(row.fields):
        return value
    names = value.names if isinstance(value, Record) else ()
    known = dict(zip(names, value, strict=False))
    if row.names[: len(names)] == names or known.keys() >= set(row.names):
        return [known.get(name) for name in row.names]
    raise PgError("40001", "could not serialize access due to a concurrent change of a composite type")


_SPECIAL = re.compile(r'[\s"\\(),]', re.ASCII)


def write_record(value: Sequence[Any], write: Callable[[Any, int], str]) -> str:
    """The text of a record as record_out writes it. A plain tuple's fields are printed by their Python types."""
    types = value.types if isinstance(value, Record) else [guessed_type(item) for item in value]
    fields = zip(value, types, strict=True)
    return "(" + ",".join("" if item is None else quote_field(write(item, typoid)) for item, typoid in fields) + ")"


def quote_field(word: str, special: re.Pattern[str] = _SPECIAL) -> str:
    """A field, quoted as in records and ranges, if it has something `special`: quotes and backslashes are doubled."""
    if word and not special.search(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '""') + '"'


def split_record(text: str, count: int | None = None) -> Iterator[str | None]:
    """The text of each field as record_in finds it, None for NULL. count: the required number of fields; None: any. The
    text behind a field is looked at when the next one is asked for."""
    body = text.strip(" \t\n\r\v\f")

    def fail(detail: str) -> PgError:
        return PgError("22P02", f'malformed record literal: "{text}"', detail=detail)

    if not body.startswith("("):
        raise fail("Missing left parenthesis.")
    at = 1
    for n in itertools.count() if count is None else range(count):
        if n:
            if count is None and body[at : at + 1] == ")":
                break
            if body[at : at + 1] != ",":
                raise fail("Too few columns.")
            at += 1
        if body[at : at + 1] in (",", ")"):
            yield None
            continue
        word = []
        quoted = False
        while quoted or body[at : at + 1] not in (",", ")"):
            char = body[at : at + 1]
            at += 1
            if char == "\\":
                char = body[at : at + 1]
                at += 1
            elif char == '"':
                if not quoted:
                    quoted = True
                elif body[at : at + 1] == '"':
                    word.append('"')
                    at += 1
                else:
                    quoted = False
                continue
            if not char:
                raise fail("Unexpected end of input.")
            word.append(char)
        yield "".join(word)
    if body[at : at + 1] != ")":
        raise fail("Too many columns.")
    if body[at + 1 :]:
        raise fail("Junk after right parenthesis.")


# --- style ------------------------------------------------------------------------------------------------------------


class Lookup(Protocol):
    """The names of catalog objects, in both directions, for the reg* types, aclitem and row types."""

    def oid_of(self, typoid: int, text: str) -> int:
        """The OID that `'text'::regclass` means."""

    def text_of(self, typoid: int, oid: int) -> str:
        """The printed name of an object."""

    def row_type(self, typoid: int) -> RowType | None:
        """The columns of a row type; None: the type is no row type."""


@frozen
class TextStyle:
    datestyle: str = "ISO, MDY"
    timezone: str = "GMT"
    intervalstyle: str = "postgres"
    extra_float_digits: int = 1
    bytea_output: str = "hex"
    now: int | None = None  # start of the transaction, microseconds since 2000-01-01 UTC
    lookup: Lookup | None = field(default=None, compare=False)
    check_domain: Callable[[int, Any], None] | None = field(default=None, compare=False)  # raises for a wrong value
    check_domains: Callable[[int, Any], None] | None = field(default=None, compare=False)  # the same for a whole column
    stored: bool = False  # the text of values in the lake, where renamed labels of enums have their first names
    encoding: str = "UTF8"  # the client's, of the texts in binary values
    release: int = 17  # of PostgreSQL that is spoken

    def at(self, now: int) -> TextStyle:
        """The same in a transaction that began then."""
        return TextStyle(
            self.datestyle, self.timezone, self.intervalstyle, self.extra_float_digits, self.bytea_output, now,
            self.lookup, self.check_domain, self.check_domains, self.stored, self.encoding, self.release,
        )  # fmt: skip

    @property
    def date_format(self) -> str:
        """ISO, Postgres, SQL or German."""
        return _datestyle(self.datestyle)[0]

    @property
    def date_order(self) -> str:
        """MDY, DMY or YMD."""
        return _datestyle(self.datestyle)[1]


@lru_cache(maxsize=32)
def _datestyle(text: str) -> tuple[str, str]:
    formats = {"iso": "ISO", "postgres": "Postgres", "sql": "SQL", "german": "German"}
    words = text.lower().replace(",", " ").split()
    date_format = next((formats[word] for word in words if word in formats), "ISO")
    order = next((word.upper() for word in words if word in ("mdy", "dmy", "ymd")), "")
    return date_format, order or ("DMY" if date_format == "German" else "MDY")


DEFAULT_STYLE = TextStyle()
STORED_STYLE = TextStyle(stored=True)
