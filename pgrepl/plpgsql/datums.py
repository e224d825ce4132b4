"""The variables of a function, numbered in the order of their declaration, and the names they have where."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from pgrepl.frozen import frozen

Column: TypeAlias = "tuple[str, int, int]"  # name, type, typmod


class Mode(Enum):
    """The kind of a piece of SQL; the value is its name in CONTEXT lines."""

    STATEMENT = "SQL statement"
    EXPRESSION = "SQL expression"
    ASSIGNMENT = "PL/pgSQL assignment"


@dataclass(eq=False, slots=True)
class SqlText:
    """A piece of SQL in the body, with the names that are known where it stands."""

    text: str
    mode: Mode
    names: NameItem | None
    target: int = -1  # of an assignment: the variable


@frozen
class DataType:
    """A type as a declaration names it."""

    oid: int
    typmod: int = -1
    collation: int = 0
    name: str = ""
    is_row: bool = False  # a composite type, or record
    is_gone: bool = False  # it has been dropped since the function was first compiled


@dataclass(eq=False, slots=True)
class Var:
    """A scalar variable. A cursor has a query that it is bound to, with parameters, or is free (refcursor)."""

    name: str
    number: int
    line: int
    type: DataType
    constant: bool = False
    not_null: bool = False
    default: SqlText | None = None
    query: SqlText | None = None
    parameters: Row | None = None
    scroll: bool | None = None
    is_bound: bool = False


@dataclass(eq=False, slots=True)
class Rec:
    """A variable for rows: of a composite type, or `record`, which takes the row type of what is assigned."""

    name: str
    number: int
    line: int
    type: DataType
    constant: bool = False
    not_null: bool = False
    default: SqlText | None = None


@dataclass(eq=False, slots=True)
class RecField:
    """A field of a record variable that is assigned to."""

    name: str
    number: int
    record: int
    line: int = 0


@dataclass(eq=False, slots=True)
class Row:
    """A list of targets: of INTO a, b; of FOR a, b IN; the parameters of a cursor, the results of a procedure."""

    name: str
    number: int
    line: int
    names: list[str] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)


Datum: TypeAlias = "Var | Rec | RecField | Row"
Variable: TypeAlias = "Var | Rec"


# --- names ----------------------------------------------------------------------------------------------------------


class ItemKind(Enum):
    LABEL = "label"
    VAR = "var"
    REC = "rec"


@dataclass(eq=False, slots=True)
class NameItem:
    """An entry of the chain of names: a variable, or the label of a block, a loop or the function, which ends a level
    (PLpgSQL_nsitem)."""

    kind: ItemKind
    number: int  # of the variable
    name: str
    before: NameItem | None
    is_loop: bool = False
    is_other: bool = False  # the level of a cursor's parameters


def find_name(top: NameItem | None, names: tuple[str, ...], *, local: bool = False) -> tuple[NameItem | None, int]:
    """The variable that the first of the names mean, and how many they are (plpgsql_ns_lookup)."""
    first, second = names[0], names[1] if len(names) > 1 else None
    level = top
    while level is not None:
        item = level
        while item.kind is not ItemKind.LABEL:
            if item.name == first and (second is None or item.kind is not ItemKind.VAR):
                return item, 1
            assert item.before is not None
            item = item.before
        if second is not None and item.name == first:
            inner = level
            while inner.kind is not ItemKind.LABEL:
                if inner.name == second and (len(names) == 2 or inner.kind is not ItemKind.VAR):
                    return inner, 2
                assert inner.before is not None
                inner = inner.before
        if local:
            break
        level = item.before
    return None, 0


def find_label(top: NameItem | None, name: str) -> NameItem | None:
    """The label with this name around the place (plpgsql_ns_lookup_label)."""
    while top is not None:
        if top.kind is ItemKind.LABEL and top.name == name:
            return top
        top = top.before
    return None


def nearest_loop(top: NameItem | None) -> NameItem | None:
    while top is not None:
        if top.kind is ItemKind.LABEL and top.is_loop:
            return top
        top = top.before
    return None
