"""JSON as values of other types: json_populate_record, json_to_record and their sets, and what RETURNING casts
(populate_record_field in jsonfuncs.c)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from pgrepl.expr.functions.documents.json_making import fields_of
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import base_type_and_typmod, element_type, type_by_oid
from pgrepl.types.json import Jsonb, JsonNode, escape_json, jsonb_tree, parse_json, to_jsonb
from pgrepl.types.numeric import write_numeric
from pgrepl.types.style import Record, TextStyle
from pgrepl.types.text import check_domain, reader

implements = Family()


class JsValue:
    """A jsonb value to be converted (JsValue)."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    @property
    def kind(self) -> str:
        if isinstance(self.tree, dict):
            return "object"
        if isinstance(self.tree, list):
            return "array"
        return "null" if self.tree is None else "string" if isinstance(self.tree, str) else "scalar"

    def members(self) -> dict[str, JsValue]:
        return {key: JsValue(value) for key, value in self.tree.items()}

    def elements(self) -> list[JsValue]:
        return [JsValue(value) for value in self.tree]

    def text(self, typoid: int, omit_quotes: bool) -> str:
        """The text that a type's input function reads (populate_scalar)."""
        if isinstance(self.tree, str):
            return self.tree if omit_quotes or typoid not in (oids.JSON, oids.JSONB) else escape_json(self.tree)
        if isinstance(self.tree, Decimal) and typoid != oids.JSON:
            return write_numeric(self.tree)
        return str(to_jsonb(self.tree))


class GivenText(JsValue):
    """A json value to be converted: a piece of its text."""

    def __init__(self, source: str, node: JsonNode) -> None:
        self.source = source
        self.node = node

    @property
    def kind(self) -> str:
        kind = self.node.kind
        return kind if kind in ("object", "array", "null", "string") else "scalar"

    def members(self) -> dict[str, JsValue]:
        return {key: GivenText(self.source, value) for key, value in self.node.value}

    def elements(self) -> list[JsValue]:
        return [GivenText(self.source, value) for value in self.node.value]

    def text(self, typoid: int, omit_quotes: bool) -> str:
        if self.node.kind == "string":
            text: str = self.node.value
            return text if omit_quotes or typoid not in (oids.JSON, oids.JSONB) else escape_json(text)
        return self.source[self.node.start : self.node.end]


class Whole(JsValue):
    """A jsonb value as a function of SQL/JSON returns it: with a scalar's quotes, and its null is no NULL."""

    @property
    def kind(self) -> str:
        kind = super().kind
        return kind if kind in ("object", "array") else "scalar"

    def text(self, typoid: int, omit_quotes: bool) -> str:
        return str(to_jsonb(self.tree))


def given(value: str) -> JsValue:
    if isinstance(value, Jsonb):
        return JsValue(jsonb_tree(value))
    return GivenText(value, parse_json(value, decode=True))


_NOTHING = JsValue(None)


class Field(NamedTuple):
    name: str
    type: int
    typmod: int = -1


def row_fields(typoid: int, style: TextStyle) -> tuple[Field, ...] | None:
    """The fields of a named row type; None: the type is none."""
    known = type_by_oid(typoid)
    if known is not None and known.typtype == "d":
        return row_fields(known.basetype, style)
    if (known is not None and known.typtype != "c") or style.lookup is None:
        return None
    row = style.lookup.row_type(typoid)
    return None if row is None else tuple(Field(f.name, f.type, f.typmod) for f in row.fields)


def populate(
    source: JsValue,
    typoid: int,
    typmod: int,
    style: TextStyle,
    column: str = "",
    *,
    default: Record | None = None,
    omit_quotes: bool = False,
) -> Any:
    """The value as one of a type (populate_record_field). A row has what it lacks from the default."""
    known = type_by_oid(typoid)
    if known is not None and known.typtype == "d":
        base, of_base = base_type_and_typmod(typoid, typmod)
        value = populate(source, base, of_base, style, column, default=default, omit_quotes=omit_quotes)
        check_domain(typoid, value, style)
        return value
    kind = source.kind
    if kind == "null":
        return None
    if kind != "string":
        element = element_type(typoid)
        if element:
            return _array(source, element, typmod, style, column)
        fields = row_fields(typoid, style)
        if fields is not None:
            return populate_row(source, fields, style, default)
    return reader(typoid)(source.text(typoid, omit_quotes), typmod, style)


def populate_type(tree: Any, typoid: int, typmod: int, style: TextStyle, *, omit_quotes: bool) -> Any:
    """A jsonb value as one of a type (json_populate_type)."""
    if not omit_quotes:
        return populate(Whole(tree), typoid, typmod, style)
    text = tree if isinstance(tree, str) else str(to_jsonb(tree))
    return populate(JsValue(text), typoid, typmod, style, omit_quotes=True)


def populate_row(
    source: JsValue, fields: Sequence[Field], style: TextStyle, default: Sequence[Any] | None = None
) -> Record | None:
    """A row of the members of an object; what the object lacks is as in the default, or else NULL, which a domain may
    refuse (populate_record)."""
    if source.kind != "object":
        what = "an array" if source.kind == "array" else "a scalar"
        raise PgError("22023", f"cannot call populate_composite on {what}")
    members = source.members()
    values: list[Any] = []
    for number, field in enumerate(fields):
        member, known = members.get(field.name), None if default is None else default[number]
        if member is None and default is not None:
            values.append(known)
        else:
            within = known if isinstance(known, Record) else None
            values.append(populate(member or _NOTHING, field.type, field.typmod, style, field.name, default=within))
    return Record(values, [field.type for field in fields], [field.name for field in fields])


# --- arrays -------------------------------------------------------------------------------------------------------


def _array(source: JsValue, element: int, typmod: int, style: TextStyle, column: str) -> PgArray:
    """As populate_array does: how deep the arrays are nested decides the number of dimensions."""
    if source.kind != "array":
        raise _expected_array(column, ())
    dims = _dimensions(source)
    items: list[Any] = []
    _collect(source, dims, (), items, (element, typmod, style, column))
    if not items:
        return PgArray(element, (), (), ())
    return PgArray(element, tuple(dims), (1,) * len(dims), tuple(items))


def _dimensions(source: JsValue) -> list[int]:
    """The lengths of the first array of each depth."""
    dims: list[int] = []
    while source.kind == "array":
        elements = source.elements()
        dims.append(len(elements))
        if not elements:
            break
        source = elements[0]
    return dims


def _collect(source: JsValue, dims: list[int], place: tuple[int, ...], items: list[Any], target: Any) -> None:
    elements = source.elements()
    depth = len(place)
    if len(elements) != dims[depth]:
        raise _malformed()
    for number, member in enumerate(elements):
        if depth + 1 < len(dims):
            if member.kind != "array":
                raise _expected_array(target[3], (*place, number))
            _collect(member, dims, (*place, number), items, target)
        else:
            element, typmod, style, _ = target
            items.append(populate(member, element, typmod, style))


def _malformed() -> PgError:
    detail = "Multidimensional arrays must have sub-arrays with matching dimensions."
    return PgError("22P02", "malformed JSON array", detail=detail)


def _expected_array(column: str, place: tuple[int, ...]) -> PgError:
    """The error for a value that is no array of the expected depth (populate_array_report_expected_array)."""
    indices = "".join(f"[{number}]" for number in place)
    hint: str | None = None
    if column:
        hint = f'See the array element {indices} of key "{column}".' if indices else f'See the value of key "{column}".'
    elif indices:
        hint = f"See the array element {indices}."
    return PgError("22P02", "expected JSON array", hint=hint)


# --- functions ----------------------------------------------------------------------------------------------------


def _target(call: Call, name: str, base: Any) -> tuple[Field, ...]:
    """The columns of the result: those of the first argument's type, or of the query's column definition list."""
    typoid = call.argtypes[0]
    fields = row_fields(typoid, call.style)
    if fields is not None:
        return fields
    if typoid != oids.RECORD:
        raise PgError("42804", f"first argument of {name} must be a row type")
    if base is not None:
        return tuple(Field(column, kind) for column, _, kind in fields_of(base))
    return _defined(call, name)


def _defined(call: Call, name: str) -> tuple[Field, ...]:
    if call.columns:
        return tuple(Field(column.name, column.type, column.typmod) for column in call.columns)
    message = f"could not determine row type for result of {name}"
    hint = "Provide a non-null record argument, or call the function in the FROM clause using a column definition list."
    raise PgError("0A000", message, hint=hint)


@implements("json_populate_record", context=True)
def json_populate_record(call: Call, base: Any, value: str | None, as_text: bool = False) -> Any:
    return _populated(call, "json_populate_record", base, value)


@implements("jsonb_populate_record", context=True)
def jsonb_populate_record(call: Call, base: Any, value: Jsonb | None) -> Any:
    return _populated(call, "jsonb_populate_record", base, value)


@implements("jsonb_populate_record_valid", context=True)
def jsonb_populate_record_valid(call: Call, base: Any, value: Jsonb | None) -> bool | None:
    fields = _target(call, "jsonb_populate_record", base)
    if value is None:
        return None if base is None else True
    try:
        _row(call, given(value), fields, base)
    except PgError as error:
        if not error.is_soft:
            raise
        return False
    return True


def _populated(call: Call, name: str, base: Any, value: str | None) -> Any:
    fields = _target(call, name, base)
    return base if value is None else _row(call, given(value), fields, base)


def _row(call: Call, source: JsValue, fields: Sequence[Field], base: Any) -> Record | None:
    """A row of the type of the first argument, which may be a domain."""
    row = populate_row(source, fields, call.style, base)
    check_domain(call.argtypes[0], row, call.style)
    return row


@implements("json_to_record", "jsonb_to_record", context=True)
def json_to_record(call: Call, value: str) -> Any:
    name = "jsonb_to_record" if isinstance(value, Jsonb) else "json_to_record"
    return populate_row(given(value), _defined(call, name), call.style)


@implements("json_populate_recordset", context=True)
def json_populate_recordset(call: Call, base: Any, value: str | None, as_text: bool = False) -> Iterator[Any]:
    return _rows(call, "json_populate_recordset", _target(call, "json_populate_recordset", base), value, base)


@implements("jsonb_populate_recordset", context=True)
def jsonb_populate_recordset(call: Call, base: Any, value: Jsonb | None) -> Iterator[Any]:
    return _rows(call, "jsonb_populate_recordset", _target(call, "jsonb_populate_recordset", base), value, base)


@implements("json_to_recordset", "jsonb_to_recordset", context=True)
def json_to_recordset(call: Call, value: str | None) -> Iterator[Any]:
    name = "jsonb_to_recordset" if isinstance(value, Jsonb) else "json_to_recordset"
    fields = _defined(call, name)
    return iter([populate_row(row, fields, call.style) for row in _elements(name, value)])


def _rows(call: Call, name: str, fields: Sequence[Field], value: str | None, base: Any) -> Iterator[Any]:
    return iter([_row(call, row, fields, base) for row in _elements(name, value)])


def _elements(name: str, value: str | None) -> list[JsValue]:
    """The objects of an array."""
    if value is None:
        return []
    source = given(value)
    if source.kind != "array":
        what = "a non-array"
        if not isinstance(value, Jsonb):
            what = "an object" if source.kind == "object" else "a scalar"
        raise PgError("22023", f"cannot call {name} on {what}")
    members = source.elements()
    if any(member.kind != "object" for member in members):
        raise PgError("22023", f"argument of {name} must be an array of objects")
    return members
