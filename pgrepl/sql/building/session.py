"""Prepared statements, cursors, LOCK TABLE, LISTEN and NOTIFY, REINDEX; operators and collations."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    CommentStmt,
    DeclareCursorStmt,
    DefElem,
    FetchStmt,
    NotifyStmt,
    ObjectType,
    OperatorName,
    RangeVar,
    ReindexStmt,
    SelectStmt,
    TypeName,
)

_MODES = (
    "access share", "row share", "row exclusive", "share update exclusive", "share", "share row exclusive",
    "exclusive", "access exclusive",
)  # fmt: skip


@build
def lock_mode(location: int, words: str) -> int:
    return _MODES.index(words) + 1


@build
def lock_mode_default(location: int) -> int:
    return len(_MODES)


def _options(options: list[DefElem] | None, concurrently: DefElem | None) -> tuple[DefElem, ...]:
    return (*(options or ()), *(() if concurrently is None else (concurrently,)))


@build
def reindex_relation(
    location: int, options: list[DefElem] | None, kind: str, concurrently: DefElem | None, relation: RangeVar
) -> ReindexStmt:
    return ReindexStmt(kind.upper(), relation, options=_options(options, concurrently))


@build
def reindex_all(
    location: int, options: list[DefElem] | None, kind: str, concurrently: DefElem | None, name: str | None
) -> ReindexStmt:
    return ReindexStmt(kind.upper(), name=name, options=_options(options, concurrently))


# ------------------------------------------------------------------------------------------------ notifications


@build
def notify_channel(location: int, channel: str, payload: str = "") -> NotifyStmt:
    return NotifyStmt(channel, payload)


# ------------------------------------------------------------------------------------------------ cursors

_Direction = tuple[str, "int | None"]


@build
def cursor_option(location: int, words: list[str], word: str) -> list[str]:
    return [*words, word]


@build
def declare_cursor(location: int, name: str, words: list[str], holds: bool, query: SelectStmt) -> DeclareCursorStmt:
    scroll = True if "scroll" in words else False if "no_scroll" in words else None
    return DeclareCursorStmt(
        name,
        query,
        scroll,
        scroll_and_not="scroll" in words and "no_scroll" in words,
        binary="binary" in words,
        asensitive="asensitive" in words,
        insensitive="insensitive" in words,
        holds=holds,
    )


@build
def fetch_next_from(location: int, _: None, name: str) -> tuple[_Direction, str]:
    return ("forward", 1), name


@build
def fetch_from(location: int, direction: _Direction, _: None, name: str) -> tuple[_Direction, str]:
    return direction, name


@build
def fetch_cursor(location: int, args: tuple[_Direction, str]) -> FetchStmt:
    (word, count), name = args
    return FetchStmt(name, word, count)


@build
def move_cursor(location: int, args: tuple[_Direction, str]) -> FetchStmt:
    (word, count), name = args
    return FetchStmt(name, word, count, moves=True)


# --- define -----------------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------ operators


@build
def missing_operator_argument(location: int, name: Names, type_name: TypeName) -> NoReturn:
    raise PgError(
        "42601",
        "missing argument",
        hint="Use NONE to denote the missing argument of a unary operator.",
        location=location,
    )


@build
def comment_on_operator(location: int, operator: OperatorName, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.OPERATOR, operator.name, text, location, operator)
