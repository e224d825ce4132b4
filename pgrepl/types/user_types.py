"""The types that users have created: enums, domains, composite types, ranges, and the arrays over them and over rows of
relations.

A `UserType` is the OID of such a type that knows the type's description. Columns and expressions carry it, into tasks
of Spark too, so that whatever asks for a property of a type by its OID needs no catalog. A row type of a table stays
a plain integer; the OID before it is that of its array type.

    >>> row = PgType(20000, "mood", "public", 4, True, "e", "E", False, ",", 0, 0, 20001, *["-"] * 8, "i", "p",
    ...     False, 0, -1, 0, 0)
    >>> types = UserTypes((TypeData(row, labels=(Label("sad", 1, "sad"), Label("happy", 2, "happy"))),))
    >>> mood = types.type_of(20000)
    >>> mood == 20000, type_by_oid(mood).name, order_of_labels(mood)
    (True, 'mood', {'sad': 0, 'happy': 1})
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from pgrepl.types.builtin import PgType, Range, array_type, type_by_oid
from pgrepl.types.oids import ANYARRAY, FIRST_USER_OID
from pgrepl.types.ranges import Continuous
from pgrepl.types.style import RowField, RowType


class Field(NamedTuple):
    """A column of a composite type that is not dropped."""

    place: int  # index among all columns that the type ever had, from 0
    name: str
    type: int
    typmod: int


class Label(NamedTuple):
    """A label of an enum: its OID in pg_enum, and its text in the lake, which stays when the label is renamed."""

    name: str
    oid: int
    stored: str


class TypeData(NamedTuple):
    """The description of a type beyond its row of pg_type. The row's OIDs are plain integers."""

    row: PgType
    labels: tuple[Label, ...] = ()  # of an enum, in its order
    checks: tuple[tuple[str, str], ...] = ()  # of a domain: name and stored expression, in the order of their names
    fields: tuple[Field, ...] = ()  # of a composite type
    width: int = 0  # the number of columns it ever had
    unsafe: tuple[str, ...] = ()  # new labels of an enum that must be committed before they are used
    range: tuple[int, ...] = ()  # of a range or multirange type: its row of pg_range


class UserTypes:
    """The user's types of a database, as of one moment."""

    def __init__(self, data: tuple[TypeData, ...]) -> None:
        self.data = {type_data.row.oid: type_data for type_data in data}
        self._types = {oid: UserType(oid, self) for oid in self.data}
        self._rows: dict[int, PgType] = {}
        self._row_types: dict[int, RowType] = {}
        self._closures: dict[int, tuple[TypeData, ...]] = {}

    def type_of(self, oid: int) -> int:
        """The type with its description; any other OID itself."""
        return self._types.get(oid, oid)

    def row_of(self, oid: int) -> PgType:
        """The type's row of pg_type, which names other types with their descriptions."""
        row = self._rows.get(oid)
        if row is None:
            row = self.data[oid].row
            row = row._replace(
                elem=self.type_of(row.elem), array=self.type_of(row.array), basetype=self.type_of(row.basetype)
            )
            self._rows[oid] = row
        return row

    def row_type(self, oid: int) -> RowType | None:
        """The columns of a composite type; None: the type is no such."""
        known = self.data.get(oid)
        if known is None or known.row.typtype != "c":
            return None
        columns = self._row_types.get(known.row.oid)
        if columns is None:
            fields = [
                RowField(f.place, f.name, self.type_of(f.type), f.typmod, self.row_type(f.type)) for f in known.fields
            ]
            columns = self._row_types[known.row.oid] = RowType(tuple(fields), known.width)
        return columns

    def in_row(self, row: RowType) -> RowType:
        """A row type whose columns have these descriptions of their types."""
        fields = [
            replace(f, type=self.type_of(f.type), row=None if f.row is None else self.in_row(f.row)) for f in row.fields
        ]
        return RowType(tuple(fields), row.width)

    def range_of(self, oid: int) -> Range | None:
        """What a range or multirange type is made of; None: the type is no such."""
        known = self.data[oid].range
        if not known:
            return None
        own = Range(*known)
        subtype = self.type_of(own.subtype) if own.subtype >= FIRST_USER_OID else Continuous(own.subtype)
        return own._replace(oid=self.type_of(own.oid), multirange=self.type_of(own.multirange), subtype=subtype)

    def closure(self, oid: int) -> tuple[TypeData, ...]:
        """The type and all types that it is made of."""
        known = self._closures.get(oid)
        if known is None:
            parts: dict[int, TypeData] = {}
            waiting = [int(oid)]
            while waiting:
                part = self.data.get(waiting.pop())
                if part is not None and part.row.oid not in parts:
                    parts[part.row.oid] = part
                    waiting += [part.row.elem, part.row.basetype, *[field.type for field in part.fields]]
                    waiting += part.range[:3]
            known = self._closures[oid] = tuple(parts.values())
        return known

    def to_json(self) -> list[Any]:
        """The descriptions, for programs that executors of Spark get as JSON."""
        return [list(type_data) for type_data in self.data.values()]

    @staticmethod
    def from_json(data: list[Any]) -> UserTypes:
        return UserTypes(
            tuple(
                [
                    TypeData(
                        PgType(*row),
                        tuple([Label(*label) for label in labels]),
                        tuple([(name, check) for name, check in checks]),
                        tuple([Field(*field) for field in fields]),
                        width,
                        tuple(unsafe),
                        tuple(of_range),
                    )
                    for row, labels, checks, fields, width, unsafe, of_range in data
                ]
            )
        )

    def __reduce__(self) -> Any:
        return UserTypes, (tuple(self.data.values()),)


class UserType(int):
    """The OID of a user's type, with what it means. It equals the plain OID, but not a type of the same OID that means
    something else, so that it can be a key of a cache."""

    types: UserTypes

    def __new__(cls, oid: int, types: UserTypes) -> UserType:
        user_type = super().__new__(cls, oid)
        user_type.types = types
        return user_type

    @property
    def row(self) -> PgType:
        return self.types.row_of(self)

    @property
    def range(self) -> Range | None:
        return self.types.range_of(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int) or int(self) != int(other):
            return False
        if not isinstance(other, UserType) or other.types is self.types:
            return True
        return self.types.closure(self) == other.types.closure(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __reduce__(self) -> Any:
        return _revived, (self.types, int(self))


def _revived(types: UserTypes, oid: int) -> int:
    return types.type_of(oid)


def described(typoid: int) -> TypeData | None:
    """The description of a user's type; None: it is built in, or the row type of a table."""
    return typoid.types.data[typoid] if isinstance(typoid, UserType) else None


def composite_type(typoid: int) -> RowType | None:
    """The columns of a composite type that a user has created."""
    return typoid.types.row_type(typoid) if isinstance(typoid, UserType) else None


@cache
def order_of_labels(enum: int) -> dict[str, int]:
    """The place of each label in the order of an enum."""
    known = described(enum)
    return {} if known is None else {label.name: n for n, label in enumerate(known.labels)}


@cache
def stored_labels(enum: int) -> dict[str, str]:
    """The text in the lake of each label of an enum; empty: no label has been renamed."""
    known = described(enum)
    labels = () if known is None else known.labels
    return {label.name: label.stored for label in labels} if any(lb.name != lb.stored for lb in labels) else {}


@cache
def labels_of_stored(enum: int) -> dict[str, str]:
    """The label of each text in the lake; other writers know a renamed label's new name."""
    names = stored_labels(enum)
    return {name: name for name in names} | {stored: name for name, stored in names.items()}


@cache
def parts_of(typoid: int) -> tuple[int, ...]:
    """The type and all types that its values are made of: elements, attributes, what domains are over."""
    parts: dict[int, int] = {}
    waiting = [typoid]
    while waiting:
        part = waiting.pop()
        if not part or part in parts:
            continue
        parts[part] = part
        row, fields = type_by_oid(part), composite_type(part)
        waiting += [] if row is None else [row.elem, row.basetype]
        waiting += [] if fields is None else list(fields.types)
    return tuple(parts)


def is_enum(typoid: int) -> bool:
    row = type_by_oid(typoid)
    return row is not None and row.typtype == "e"


def tests_null(typoid: int) -> bool:
    """Is it a domain with constraints, so that NULL must be tested, too?"""
    row = type_by_oid(typoid)
    return row is not None and row.typtype == "d" and constrained(typoid)


def constrained(typoid: int) -> bool:
    """Is it a domain with constraints, its own or those of a domain below it; or an array of such?"""
    row = type_by_oid(typoid)
    while row is not None:
        if row.typtype == "d":
            known = described(typoid)
            if row.notnull or (known is not None and known.checks):
                return True
        typoid = row.basetype or row.elem
        row = type_by_oid(typoid)
    return False


# --- row arrays -------------------------------------------------------------------------------------------------------


class RowArray(int):
    """The OID of such an array type, which knows its row of pg_type, but for name and schema: those are the table's."""

    @property
    def row(self) -> PgType:
        like = type_by_oid(ANYARRAY)
        assert like is not None
        return like._replace(
            oid=int(self), name="", schema="", typtype="b", category="A", elem=int(self) + 1, receive="array_recv",
            send="array_send", input="array_in", output="array_out", analyze="array_typanalyze",
            subscript="array_subscript_handler", align="d", storage="x", array=0,
        )  # fmt: skip

    def __reduce__(self) -> tuple[type[RowArray], tuple[int]]:
        return RowArray, (int(self),)


def is_row_of_table(typoid: int) -> bool:
    return typoid >= FIRST_USER_OID and type_by_oid(typoid) is None


def array_over(typoid: int) -> int:
    """The array type over a type; 0: it has none."""
    return RowArray(typoid - 1) if is_row_of_table(typoid) else array_type(typoid)
