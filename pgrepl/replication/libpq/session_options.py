"""The `options` of a connection string: settings of the publisher's session, `-c row_security=off`.

A subscription's connection always adds the settings that make values independent of the publisher's (libpqrcv_connect).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_ALWAYS = ["-c", "datestyle=ISO", "-c", "intervalstyle=postgres", "-c", "extra_float_digits=3"]


def apply_options(session: Session, options: str) -> None:
    """Set the parameters that the options name (process_postgres_switches); a FATAL error for any other switch."""
    for switch, setting in _switches([*_words(options), *_ALWAYS]):
        name, equals, value = setting.partition("=")
        if not equals:
            raise PgError("42601", f"{switch}{setting} requires a value", severity="FATAL")
        session.settings.set_default(name.replace("-", "_"), value, complain=True)


def _words(options: str) -> list[str]:
    """Words parted by blanks; a backslash takes the next character as it is (pg_split_opts)."""
    words: list[str] = []
    word: str | None = None
    escaped = False
    for character in options:
        if escaped or not (character.isspace() or character == "\\"):
            word = (word or "") + character
            escaped = False
        elif character == "\\":
            word, escaped = word or "", True
        elif word is not None:
            words.append(word)
            word = None
    return words if word is None else [*words, word]


def _switches(words: list[str]) -> Iterator[tuple[str, str]]:
    """The switches as (name in messages, name=value); other switches of `postgres` are errors."""
    left = iter(words)
    for word in left:
        if word == "--":
            word = next(left)
        elif word.startswith("--"):
            yield "--", word[2:]
            continue
        elif word.startswith("-c"):
            yield "-c ", word[2:] or next(left)
            continue
        raise PgError(
            "42601",
            f"invalid command-line argument for server process: {word}",
            hint='Try "postgres --help" for more information.',
            severity="FATAL",
        )
