"""The session settings that input and output functions depend on.

Values whose text depends on the catalog (`regclass` …) ask `lookup`; 'now' and 'today' ask `now`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.types.record import RowType


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

    def at(self, now: int) -> TextStyle:
        """The same in a transaction that began then."""
        return TextStyle(
            self.datestyle, self.timezone, self.intervalstyle, self.extra_float_digits, self.bytea_output, now,
            self.lookup, self.check_domain, self.check_domains, self.stored, self.encoding,
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
