"""Typed trees as JSON, as the catalog stores them, without default values and locations.

A node is an object whose `is` names its class; a constant's value is plain JSON where it can be, else the type's text
in one fixed style.

    {"is": "OpExpr", "type": 16, "op": 521,
     "args": [{"is": "Var", "type": 23, "attnum": 1}, {"is": "Const", "type": 23, "value": 5}]}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, get_args, get_type_hints

from pgrepl.expr import dml_tree, tree
from pgrepl.expr.tree import Const, Expr, Query
from pgrepl.ground.errors import unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.style import Record, TextStyle
from pgrepl.types.text import read_text, write_text
from pgrepl.types.user_types import RowArray, UserType, composite_type, described

if TYPE_CHECKING:
    from pgrepl.expr.dml_tree import Modify

# labels of enums have their first names, which stay when a label is renamed
_STYLE = TextStyle(datestyle="ISO, MDY", timezone="GMT", intervalstyle="postgres", extra_float_digits=1, stored=True)

_ARRAY = "array"

# types whose Python value is what JSON has
_PLAIN = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.XID, oids.CID, oids.TEXT, oids.VARCHAR, oids.BPCHAR,
        oids.NAME, oids.UNKNOWN, oids.CSTRING, oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR,
        oids.REGCLASS, oids.REGTYPE, oids.REGROLE, oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG,
        oids.REGDICTIONARY,
    }
)  # fmt: skip


# the fields of nodes that name a type
_TYPES = frozenset({"type", "element_type", "mark_type"})


class Types(Protocol):
    """A source of descriptions of user's types: a session, or `UserTypes`."""

    def type_of(self, oid: int) -> int: ...


@frozen
class _Shape:
    """The fields of a node class with their defaults, and which of them are enumerations."""

    make: Callable[..., Any]
    fields: tuple[tuple[str, Any], ...]
    enums: dict[str, type[Enum]]


def _home(name: str) -> ModuleType:
    """The module of a node class."""
    if hasattr(tree, name):
        return tree
    return dml_tree


@cache
def _shape(kind: type) -> _Shape:
    hints = get_type_hints(kind, vars(_home(kind.__name__)))
    plain = [f for f in fields(kind) if f.name != "location"]
    enums = {}
    for f in plain:
        for part in (hints[f.name], *get_args(hints[f.name])):
            if isinstance(part, type) and issubclass(part, Enum):
                enums[f.name] = part
    return _Shape(kind, tuple((f.name, f.default if f.default is not MISSING else MISSING) for f in plain), enums)


def to_json(node: Expr | Query | Modify) -> Any:
    """The tree as dictionaries, lists and scalars."""
    return _encoded(node)


def from_json(data: Any, types: Types) -> Any:
    """The tree of a JSON value that to_json made: an Expr or a Query."""
    return _decoded(data, types)


def _encoded(value: Any) -> Any:
    if isinstance(value, (UserType, RowArray)):
        return int(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (tuple, frozenset)):
        return [_encoded(item) for item in (value if isinstance(value, tuple) else sorted(value))]
    if isinstance(value, Enum):
        return value.value
    kind: Any = type(value)
    if hasattr(kind, "unstored"):
        raise unsupported(kind.unstored)
    data: dict[str, Any] = {"is": kind.__name__}
    for name, default in _shape(kind).fields:
        part = getattr(value, name)
        if default is not MISSING and part == default and type(part) is type(default):
            continue
        data[name] = _constant(part, value.type) if name == "value" and isinstance(value, Const) else _encoded(part)
    return data


def _constant(value: Any, typoid: int) -> Any:
    """A constant's value as JSON; of a row the type, name and value of each field, with those that were dropped, since
    fields may be added, dropped and renamed; of an enum the label's OID, which stays when the label is renamed; of an
    array over types of users its form and elements."""
    typoid = base_type(typoid)
    if value is None or typoid in _PLAIN:
        return value
    known = described(typoid)
    if known is not None and known.labels:
        return next(label.oid for label in known.labels if label.name == value)
    if isinstance(value, Record):
        parts = zip(value.types, value.names, value, strict=True)
        fields = [[int(of), name, _constant(item, of)] for of, name, item in parts]
        row = composite_type(typoid)
        if row is None or len(row.fields) != len(fields):
            return fields
        placed = {field.place: stored for field, stored in zip(row.fields, fields, strict=True)}
        return [placed.get(place, [0, "", None]) for place in range(row.width)]
    element = element_type(typoid)
    if element >= oids.FIRST_USER_OID:
        items = [_constant(item, element) for item in value.items]
        return [_ARRAY, list(value.dims), list(value.lbounds), items]
    return write_text(value, typoid, _STYLE)


def _decoded(data: Any, types: Types) -> Any:
    if isinstance(data, list):
        return tuple(_decoded(item, types) for item in data)
    if not isinstance(data, dict):
        return data
    shape = _shape(getattr(_home(data["is"]), data["is"]))
    sets = {name for name, default in shape.fields if isinstance(default, frozenset)}
    parts: dict[str, Any] = {}
    for name, part in data.items():
        if name == "is":
            continue
        enum = shape.enums.get(name)
        if name in _TYPES:
            parts[name] = types.type_of(part)
        elif enum is not None and part is not None:
            parts[name] = enum(part)
        elif name in sets:
            parts[name] = frozenset(part)
        else:
            parts[name] = _decoded(part, types)
    if "value" in parts and shape.make is Const:
        parts["value"] = _constant_value(parts["type"], parts["value"], types)
    return shape.make(**parts)


def _constant_value(typoid: int, value: Any, types: Types) -> Any:
    typoid = base_type(typoid)
    if value is None or typoid in _PLAIN:
        return value
    if isinstance(value, tuple) and value[:1] == (_ARRAY,):
        _, dims, lbounds, items = value
        element = element_type(typoid)
        return PgArray(element, dims, lbounds, tuple([_constant_value(element, item, types) for item in items]))
    if isinstance(value, tuple):
        of, names, values = zip(*value, strict=True) if value else ((), (), ())
        of = tuple(map(types.type_of, of))
        items = [_constant_value(one, item, types) for one, item in zip(of, values, strict=True)]
        row = composite_type(typoid)
        if row is None:
            return Record(items, of, names)
        placed = dict(enumerate(items))
        return Record([placed.get(field.place) for field in row.fields], row.types, row.names)
    known = described(typoid)
    if known is not None and known.labels and isinstance(value, int):
        return next(label.name for label in known.labels if label.oid == value)
    return read_text(value, typoid, -1, _STYLE)
