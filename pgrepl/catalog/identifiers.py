"""Lists of identifiers in the values of settings and options: `"$user", public` (SplitIdentifierString).

The rule for names of slots stands here, too, as a setting lists slots.
"""

from __future__ import annotations

from functools import lru_cache

from pgrepl.errors import PgError
from pgrepl.sql.names import fold, truncate

_SPACE = " \t\n\r\f\v"


def split_identifiers(text: str, separator: str = ",") -> list[str] | None:
    """The names of a list, unquoted ones in lower case; None if the list is not well formed."""
    names = _split(text, separator)
    return None if names is None else [*names]


@lru_cache(1024)
def _split(text: str, separator: str) -> list[str] | None:
    names: list[str] = []
    position = _skip(text, 0)
    if position == len(text):
        return names
    while True:
        if position < len(text) and text[position] == '"':
            name, position = _quoted(text, position + 1)
            if name is None:
                return None
        else:
            start = position
            while position < len(text) and text[position] not in _SPACE and text[position] != separator:
                position += 1
            if position == start:
                return None
            name = fold(text[start:position])
        names.append(truncate(name))
        position = _skip(text, position)
        if position == len(text):
            return names
        if text[position] != separator:
            return None
        position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _quoted(text: str, position: int) -> tuple[str | None, int]:
    out = ""
    while True:
        end = text.find('"', position)
        if end < 0:
            return None, position
        out += text[position:end]
        position = end + 1
        if position < len(text) and text[position] == '"':
            out += '"'
            position += 1
            continue
        return out, position


_SLOT_NAME_LENGTH = 64
_OF_SLOT_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")


def check_slot_name(name: str) -> None:
    """As ReplicationSlotValidateName."""
    if not name:
        raise PgError("42602", f'replication slot name "{name}" is too short')
    if len(name.encode()) >= _SLOT_NAME_LENGTH:
        raise PgError("42622", f'replication slot name "{name}" is too long')
    if not _OF_SLOT_NAMES.issuperset(name):
        raise PgError(
            "42602",
            f'replication slot name "{name}" contains invalid character',
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
        )
