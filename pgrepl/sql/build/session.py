"""LOCK TABLE, REINDEX."""

from __future__ import annotations

from pgrepl.sql.build import build
from pgrepl.sql.nodes import DefElem, LockStmt, RangeVar, ReindexStmt

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


@build
def lock_table(location: int, _: None, relations: list[RangeVar], mode: int, nowait: bool) -> LockStmt:
    return LockStmt(tuple(relations), mode, nowait)


@build
def reindex_concurrently(location: int) -> DefElem:
    return DefElem("concurrently", None, location)


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
