"""DROP, COMMENT ON, RENAME TO and OWNER TO, for objects of any kind."""

from __future__ import annotations

from pgrepl.sql.build import build
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import (
    AlterOwnerStmt,
    CommentStmt,
    DropStmt,
    ObjectType,
    RenameStmt,
    RoleSpec,
    UnsupportedStmt,
)

Kind = ObjectType | str
"""A kind of object of the dialect; or, for one outside it, the words of its name."""

# ------------------------------------------------------------------------------------------------ kinds


def _kind(alias: str, kind: Kind) -> None:
    build(alias)(lambda location: kind)


for _inside in (
    ObjectType.TABLE, ObjectType.SEQUENCE, ObjectType.VIEW, ObjectType.INDEX, ObjectType.PUBLICATION, ObjectType.SCHEMA,
    ObjectType.DATABASE, ObjectType.ROLE, ObjectType.SUBSCRIPTION, ObjectType.MATVIEW,
    ObjectType.TRIGGER, ObjectType.COLLATION,
):  # fmt: skip
    _kind(f"kind_{_inside.value.replace(' ', '_')}", _inside)
for _outside in (
    "FOREIGN TABLE", "CONVERSION", "STATISTICS", "TEXT SEARCH PARSER",
    "TEXT SEARCH DICTIONARY", "TEXT SEARCH TEMPLATE", "TEXT SEARCH CONFIGURATION", "ACCESS METHOD", "EVENT TRIGGER",
    "EXTENSION", "FOREIGN DATA WRAPPER", "LANGUAGE", "SERVER", "TABLESPACE", "POLICY", "RULE",
):  # fmt: skip
    _kind(f"kind_{_outside.lower().replace(' ', '_')}", _outside)


# ------------------------------------------------------------------------------------------------ DROP


def _drop(
    location: int,
    kind: Kind,
    names: list[Names],
    cascade: bool,
    *,
    missing_ok: bool = False,
    concurrently: bool = False,
) -> DropStmt | UnsupportedStmt:
    if isinstance(kind, str):
        return UnsupportedStmt(f"DROP {kind}", location)
    return DropStmt(kind, tuple(names), missing_ok, cascade, concurrently)


@build
def drop(location: int, kind: Kind, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, names, cascade)


@build
def drop_if_exists(location: int, kind: Kind, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, names, cascade, missing_ok=True)


@build
def drop_named(location: int, kind: Kind, names: list[str], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(name,) for name in names], cascade)


@build
def drop_named_if_exists(location: int, kind: Kind, names: list[str], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(name,) for name in names], cascade, missing_ok=True)


@build
def drop_index_concurrently(location: int, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, ObjectType.INDEX, names, cascade, concurrently=True)


@build
def drop_index_concurrently_if_exists(location: int, names: list[Names], cascade: bool) -> DropStmt | UnsupportedStmt:
    return _drop(location, ObjectType.INDEX, names, cascade, missing_ok=True, concurrently=True)


@build
def drop_on_relation(
    location: int, kind: Kind, name: str, relation: Names, cascade: bool
) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(*relation, name)], cascade)


@build
def drop_on_relation_if_exists(
    location: int, kind: Kind, name: str, relation: Names, cascade: bool
) -> DropStmt | UnsupportedStmt:
    return _drop(location, kind, [(*relation, name)], cascade, missing_ok=True)


# ------------------------------------------------------------------------------------------------ COMMENT


@build
def comment(location: int, kind: Kind, name: Names, text: str | None) -> CommentStmt | UnsupportedStmt:
    if isinstance(kind, str):
        return UnsupportedStmt(f"COMMENT ON {kind}", location)
    return CommentStmt(kind, name, text, location)


@build
def comment_on_named(location: int, kind: Kind, name: str, text: str | None) -> CommentStmt | UnsupportedStmt:
    return comment(location, kind, (name,), text)


@build
def comment_on_column(location: int, name: Names, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.COLUMN, name, text, location)


@build
def comment_on_constraint(location: int, name: str, relation: Names, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.TABCONSTRAINT, (*relation, name), text, location)


@build
def comment_on_relation_part(
    location: int, kind: Kind, name: str, relation: Names, text: str | None
) -> CommentStmt | UnsupportedStmt:
    return comment(location, kind, (*relation, name), text)


# ------------------------------------------------------------------------------------------------ RENAME, OWNER


def _rename(alias: str, kind: ObjectType) -> None:
    def rename(location: int, name: str, new_name: str) -> RenameStmt:
        return RenameStmt(kind, new_name, name=name)

    build(alias)(rename)


def _owner(alias: str, kind: ObjectType) -> None:
    def owner(location: int, name: str, new_owner: RoleSpec) -> AlterOwnerStmt:
        return AlterOwnerStmt(kind, (name,), new_owner)

    build(alias)(owner)


for _named in (ObjectType.PUBLICATION, ObjectType.SUBSCRIPTION, ObjectType.SCHEMA, ObjectType.DATABASE):
    _rename(f"rename_{_named.value}", _named)
    _owner(f"owner_of_{_named.value}", _named)
_rename("rename_role", ObjectType.ROLE)
