"""pg_snapshot and txid_snapshot: `xmin:xmax:xip,…`, the transactions that a snapshot sees (xid8funcs.c)."""

from __future__ import annotations

import re
from typing import NamedTuple

from pgrepl.types.errors import invalid_text

_FORM = re.compile(r"(\d+):(\d+):(\d+(?:,\d+)*)?\Z")
_MOST = 2**64


class PgSnapshot(NamedTuple):
    """A snapshot: transactions before xmin have ended, those from xmax on have not begun; those in xip were running."""

    xmin: int
    xmax: int
    xip: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.xip))}"

    def sees(self, xid: int) -> bool:
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)


def parse_snapshot(text: str, type_name: str = "pg_snapshot") -> PgSnapshot:
    """A snapshot from its text, as parse_snapshot reads it: numbers in ascending order, repeated ones dropped."""
    found = _FORM.match(text)
    if found is None:
        raise invalid_text(type_name, text)
    xmin, xmax = int(found[1]), int(found[2])
    running = [int(number) for number in found[3].split(",")] if found[3] else []
    ordered = running == sorted(running)
    inside = all(xmin <= number < xmax for number in running)
    if not 0 < xmin <= xmax < _MOST or not ordered or not inside:
        raise invalid_text(type_name, text)
    return PgSnapshot(xmin, xmax, tuple(dict.fromkeys(running)))


def read_snapshot(text: str) -> str:
    """The canonical text of a snapshot, which is its value."""
    return str(parse_snapshot(text))
