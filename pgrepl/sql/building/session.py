"""Prepared statements, cursors, LOCK TABLE, LISTEN and NOTIFY, REINDEX; operators and collations."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Names, relation_of
from pgrepl.sql.nodes import (
    AlterCollationStmt,
    AlterObjectSchemaStmt,
    AlterOperatorStmt,
    AlterOwnerStmt,
    ClosePortalStmt,
    CommentStmt,
    DeallocateStmt,
    DeclareCursorStmt,
    DefElem,
    DefineStmt,
    DropOperatorStmt,
    ExecuteStmt,
    Expr,
    FetchStmt,
    ListenStmt,
    LockStmt,
    NotifyStmt,
    ObjectType,
    OperatorName,
    PrepareStmt,
    RangeVar,
    ReindexStmt,
    RenameStmt,
    RoleSpec,
    SelectStmt,
    Statement,
    TypeName,
    UnlistenStmt,
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


# ------------------------------------------------------------------------------------------------ notifications


@build
def listen(location: int, channel: str) -> ListenStmt:
    return ListenStmt(channel)


@build
def unlisten(location: int, channel: str) -> UnlistenStmt:
    return UnlistenStmt(channel)


@build
def unlisten_all(location: int) -> UnlistenStmt:
    return UnlistenStmt(None)


@build
def notify_channel(location: int, channel: str, payload: str = "") -> NotifyStmt:
    return NotifyStmt(channel, payload)


# ------------------------------------------------------------------------------------------------ prepared statements


@build
def prepare(location: int, name: str, types: list[TypeName] | None, query: Statement) -> PrepareStmt:
    return PrepareStmt(name, tuple(types or ()), query)


@build
def execute(location: int, name: str, args: list[Expr] | None) -> ExecuteStmt:
    return ExecuteStmt(name, tuple(args or ()))


@build
def deallocate(location: int, name: str) -> DeallocateStmt:
    return DeallocateStmt(name)


@build
def deallocate_all(location: int) -> DeallocateStmt:
    return DeallocateStmt(None)


# ------------------------------------------------------------------------------------------------ cursors

_Direction = tuple[str, "int | None"]


def _option(word: str) -> None:
    def option(location: int, words: list[str]) -> list[str]:
        return [*words, word]

    build(f"cursor_{word}")(option)


for _word in ("no_scroll", "scroll", "binary", "asensitive", "insensitive"):
    _option(_word)


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


def _direction(alias: str, word: str, count: int | None) -> None:
    build(alias)(lambda location: (word, count))


_direction("fetch_forward", "forward", 1)
_direction("fetch_backward", "backward", 1)
_direction("fetch_first", "absolute", 1)
_direction("fetch_last", "absolute", -1)
_direction("fetch_all", "forward", None)
_direction("fetch_backward_all", "backward", None)


@build
def fetch_absolute(location: int, count: int) -> _Direction:
    return "absolute", count


@build
def fetch_relative(location: int, count: int) -> _Direction:
    return "relative", count


@build
def fetch_count(location: int, count: int) -> _Direction:
    return "forward", count


@build
def fetch_backward_count(location: int, count: int) -> _Direction:
    return "backward", count


@build
def fetch_next(location: int, name: str) -> tuple[_Direction, str]:
    return ("forward", 1), name


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


@build
def close_cursor(location: int, name: str) -> ClosePortalStmt:
    return ClosePortalStmt(name)


@build
def close_all(location: int) -> ClosePortalStmt:
    return ClosePortalStmt(None)


# --- define -----------------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------ operators


@build(at=4)
def missing_operator_argument(location: int, name: Names, type_name: TypeName) -> NoReturn:
    raise PgError(
        "42601",
        "missing argument",
        hint="Use NONE to denote the missing argument of a unary operator.",
        location=location,
    )


@build
def operator_of_two(location: int, name: Names, left: TypeName, right: TypeName) -> OperatorName:
    return OperatorName(name, left, right)


@build
def operator_of_right(location: int, name: Names, right: TypeName) -> OperatorName:
    return OperatorName(name, None, right)


@build
def operator_of_left(location: int, name: Names, left: TypeName) -> OperatorName:
    return OperatorName(name, left, None)


@build
def create_operator(location: int, name: Names, options: list[DefElem]) -> DefineStmt:
    return DefineStmt(ObjectType.OPERATOR, name, tuple(options), location=location)


@build
def alter_operator(location: int, operator: OperatorName, options: list[DefElem]) -> AlterOperatorStmt:
    return AlterOperatorStmt(operator, tuple(options))


@build
def owner_of_operator(location: int, operator: OperatorName, owner: RoleSpec) -> AlterOperatorStmt:
    return AlterOperatorStmt(operator, new_owner=owner)


@build
def schema_of_operator(location: int, operator: OperatorName, schema: str) -> AlterOperatorStmt:
    return AlterOperatorStmt(operator, new_schema=schema)


@build
def drop_operator(location: int, operators: list[OperatorName], cascade: bool) -> DropOperatorStmt:
    return DropOperatorStmt(tuple(operators), False, cascade)


@build
def drop_operator_if_exists(location: int, operators: list[OperatorName], cascade: bool) -> DropOperatorStmt:
    return DropOperatorStmt(tuple(operators), True, cascade)


@build
def comment_on_operator(location: int, operator: OperatorName, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.OPERATOR, operator.name, text, location, operator)


# ------------------------------------------------------------------------------------------------ collations


@build
def create_collation(location: int, name: Names, options: list[DefElem]) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, tuple(options), location=location)


@build
def create_collation_if_not_exists(location: int, name: Names, options: list[DefElem]) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, tuple(options), if_not_exists=True, location=location)


@build
def copy_collation(location: int, name: Names, source: Names) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, source=source, location=location)


@build
def copy_collation_if_not_exists(location: int, name: Names, source: Names) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, source=source, if_not_exists=True, location=location)


@build
def refresh_collation(location: int, name: Names) -> AlterCollationStmt:
    return AlterCollationStmt(name)


@build
def rename_collation(location: int, name: Names, new_name: str) -> RenameStmt:
    return RenameStmt(ObjectType.COLLATION, new_name, relation_of(name, -1))


@build
def owner_of_collation(location: int, name: Names, owner: RoleSpec) -> AlterOwnerStmt:
    return AlterOwnerStmt(ObjectType.COLLATION, name, owner)


@build
def schema_of_collation(location: int, name: Names, schema: str) -> AlterObjectSchemaStmt:
    return AlterObjectSchemaStmt(ObjectType.COLLATION, relation_of(name, -1), schema)
