"""Log sequence numbers: the text `0/16B3748` and its 64-bit number."""

from __future__ import annotations

import re

from pgrepl.types.errors import invalid_text

_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})\Z")


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    found = _LSN.match(text)
    if found is None:
        raise invalid_text("pg_lsn", text)
    return int(found[1], 16) << 32 | int(found[2], 16)
