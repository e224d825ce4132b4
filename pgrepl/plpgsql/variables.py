"""The variables of a frame as the analysis of SQL sees them (resolve_column_ref of pl_comp.c)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import lookup, typefacts
from pgrepl.expr.tree import Const, Expr, Variable
from pgrepl.plpgsql.data_types import RecordError, missing_type
from pgrepl.plpgsql.datums import ItemKind, NameItem, Rec, Var, find_name
from pgrepl.types import oids
from pgrepl.types.record import Record

if TYPE_CHECKING:
    from pgrepl.expr.variables import Conflict
    from pgrepl.plpgsql.frame import Frame


class FrameVariables:
    """`as_values`: names become constants, for statements that are analysed each time they run."""

    def __init__(self, frame: Frame, names: NameItem | None, *, as_values: bool) -> None:
        self.frame = frame
        self.names = names
        self.as_values = as_values
        self.records: set[int] = set()  # the record variables without a type of their own that were looked up
        self.places: dict[int, tuple[int, str | None]] = {}  # where which variable, or field of one, stands

    @property
    def conflict(self) -> Conflict:
        return self.frame.code.function.conflict

    def as_now(self) -> FrameVariables:
        """The variables with the values that they have now."""
        return FrameVariables(copy(self.frame), self.names, as_values=True)

    def named(self, names: tuple[str, ...], location: int, *, must_have_field: bool) -> Expr | None:
        if len(names) > 3:
            return None
        item, used = find_name(self.names, names)
        if item is None:
            return None
        if used == len(names):
            return self._variable(item.number, location)
        if item.kind is ItemKind.REC and used == len(names) - 1:
            return self._field(item.number, names[-1], location)
        return None

    def fields_at(self, places: Mapping[int, tuple[int, str | None]]) -> list[int] | None:
        """The types of the fields of records among the variables at places; None: there is a whole row, too."""
        found = []
        for number, field in places.values():
            datum = self.frame.code.function.datums[number]
            if isinstance(datum, Rec):
                if field is None:
                    return None
                found.append(int(field_of(self.frame, datum, field)[0]))
        return found

    def found_at(self, places: Mapping[int, tuple[int, str | None]]) -> None:
        """Note the variables at places as looked up."""
        self.places.update(places)
        datums = self.frame.code.function.datums
        for number, _ in places.values():
            datum = datums[number]
            if isinstance(datum, Rec) and datum.type.oid == oids.RECORD:
                self.records.add(number)

    def value(self, node: Variable) -> Const:
        """The value of a variable as a constant."""
        value = self.frame[node.number]
        if node.field is not None and value is not None:
            datum = self.frame.code.function.datums[node.number]
            assert isinstance(datum, Rec)
            value = value[field_of(self.frame, datum, node.field)[3]]
        return Const(node.type, typmod=node.typmod, collation=node.collation, location=node.location, value=value)

    def number_at(self, location: int) -> int:
        return self.places[location][0] + 1

    def starred(self, names: tuple[str, ...], location: int) -> Expr | None:
        if len(names) > 2:
            return None
        item, used = find_name(self.names, names)
        if item is None or item.kind is not ItemKind.REC or used != len(names):
            return None
        return self._variable(item.number, location)

    def numbered(self, number: int, location: int) -> Expr | None:
        item, _ = find_name(self.names, (f"${number}",))
        return None if item is None else self._variable(item.number, location)

    def _variable(self, number: int, location: int) -> Expr:
        datum = self.frame.code.function.datums[number]
        assert isinstance(datum, (Var, Rec))
        self.places[location] = number, None
        kind = datum.type
        if kind.oid == oids.RECORD:
            self.records.add(number)
        if self.as_values:
            value = self.frame[number]
            return Const(kind.oid, typmod=kind.typmod, collation=kind.collation, location=location, value=value)
        return Variable(kind.oid, typmod=kind.typmod, collation=kind.collation, location=location, number=number)

    def _field(self, number: int, name: str, location: int) -> Expr:
        datum = self.frame.code.function.datums[number]
        assert isinstance(datum, Rec)
        self.places[location] = number, name
        typoid, typmod, collation, place = field_of(self.frame, datum, name)
        if datum.type.oid == oids.RECORD:
            self.records.add(number)
        if self.as_values:
            record = self.frame[number]
            value = None if record is None else record[place]
            return Const(typoid, typmod=typmod, collation=collation, location=location, value=value)
        return Variable(typoid, typmod=typmod, collation=collation, location=location, number=number, field=name)


def field_of(frame: Frame, datum: Rec, name: str) -> tuple[int, int, int, int]:
    """Type, modifier, collation and place of a record's field."""
    if datum.type.oid == oids.RECORD:
        record: Record | None = frame[datum.number]
        if record is None:
            raise not_assigned(datum)
        if name not in record.names:
            raise no_field(datum, name)
        place = record.names.index(name)
        typoid = record.types[place]
        return typoid, -1, typefacts.collation(typoid), place
    if datum.type.is_gone:
        raise missing_type(datum.type)
    columns = [a for a in lookup.row_attributes(frame.session, typefacts.base(datum.type.oid)) if not a.dropped]
    for place, column in enumerate(columns):
        if column.name == name:
            return column.type, column.typmod, column.collation, place
    raise no_field(datum, name)


def not_assigned(datum: Rec) -> PgError:
    detail = "The tuple structure of a not-yet-assigned record is indeterminate."
    return RecordError("55000", f'record "{datum.name}" is not assigned yet', detail=detail)


def no_field(datum: Rec, name: str) -> PgError:
    return RecordError("42703", f'record "{datum.name}" has no field "{name}"')
