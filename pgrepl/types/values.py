"""Order and equality of values by type, as the default btree and hash operator classes define them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache, cmp_to_key
from typing import Any, TypeVar

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import element_type, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.ranges import PgMultirange, PgRange, compare_multiranges, compare_ranges, order_keys
from pgrepl.types.times.dates import USECS_PER_DAY, USECS_PER_SEC
from pgrepl.types.user_types import is_enum, order_of_labels

Compare = Callable[[Any, Any], int]
Key = Callable[[Any], Any]
Item = TypeVar("Item")


def float_key(value: float) -> tuple[bool, float]:
    """The sort key of a float; NaN is above all and equal to itself."""
    return (True, 0.0) if value != value else (False, value)


def numeric_key(value: Decimal) -> tuple[bool, Decimal]:
    return (True, Decimal(0)) if value.is_nan() else (False, value)


def interval_key(value: tuple[int, int, int]) -> int:
    """An interval's sort key; a month counts as 30 days, as in interval_cmp_value."""
    months, days, usecs = value
    return (months * 30 + days) * USECS_PER_DAY + usecs


def timetz_key(value: tuple[int, int]) -> tuple[int, int]:
    return value[0] + value[1] * USECS_PER_SEC, value[1]


def bpchar_key(value: str) -> str:
    return value.rstrip(" ")


def same_image(one: Any, other: Any) -> bool:
    """Whether two values are equal and look equal: 1.0 and 1.00 are not (datum_image_eq)."""
    return (one == other or one != one) and str(one) == str(other)


def _vector_key(value: PgArray) -> tuple[int, tuple[Any, ...]]:
    return len(value.items), value.items


def _jsonb_key(value: str) -> Any:
    from pgrepl.types.json import parse_tree

    return _json_order(parse_tree(value), True)


def _json_order(tree: Any, top: bool = False) -> tuple[Any, ...]:
    """object > array > boolean > number > string > null. Containers compare by number of members, then by members."""
    if tree is None:
        return (1,)
    if isinstance(tree, str):
        return 2, tree
    if isinstance(tree, bool):
        return 4, tree
    if isinstance(tree, Decimal):
        return 3, tree
    if isinstance(tree, list):
        if top and not tree:
            return (0,)  # in PostgreSQL, too, an empty top-level array is below everything
        return 5, len(tree), tuple(_json_order(item) for item in tree)
    return 6, len(tree), tuple((key, _json_order(item)) for key, item in tree.items())


def _network_key(value: str) -> Any:
    from pgrepl.types.network import network_key

    return network_key(value)


_KEYS: dict[int, Key] = {
    oids.FLOAT4: float_key,
    oids.FLOAT8: float_key,
    oids.NUMERIC: numeric_key,
    oids.INTERVAL: interval_key,
    oids.TIMETZ: timetz_key,
    oids.BPCHAR: bpchar_key,
    oids.OIDVECTOR: _vector_key,
    oids.INT2VECTOR: _vector_key,
    oids.JSONB: _jsonb_key,
    oids.INET: _network_key,
    oids.CIDR: _network_key,
}
_SORT_AS_THEY_ARE = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.NAME, oids.TEXT, oids.VARCHAR, oids.CHAR, oids.BYTEA,
        oids.DATE, oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.UUID, oids.PG_LSN, oids.XID, oids.XID8, oids.CID,
        oids.TID, oids.BIT, oids.VARBIT, oids.UNKNOWN, oids.MACADDR, oids.MACADDR8, oids.REGPROC, oids.REGPROCEDURE,
        oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE, oids.REGNAMESPACE, oids.CSTRING,
        oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.ACLITEM,
    }
)  # fmt: skip
_KIND_OF_ANY = {oids.ANYRANGE: "r", oids.ANYMULTIRANGE: "m"}  # the pg_type.typtype of what an operator is for


def order_key(typoid: int) -> Key | None:
    """The sort key function of a type. None: the values sort as they are."""
    key = _KEYS.get(typoid)
    if key is not None or typoid in _SORT_AS_THEY_ARE:
        return key
    if is_enum(typoid):
        return enum_key(typoid)
    compare = comparer(typoid)
    return cmp_to_key(compare)


@cache
def comparer(typoid: int) -> Compare:
    """The comparison function of a type: -1, 0 or 1 for two values that are not NULL."""
    key = _KEYS.get(typoid)
    if key is not None:
        return lambda a, b: _order(key(a), key(b))
    if typoid in _SORT_AS_THEY_ARE:
        return _order
    if element_type(typoid) or typoid in (oids.ANYARRAY, oids.RECORD_ARRAY):
        return compare_arrays
    row = type_by_oid(typoid)
    kind = _KIND_OF_ANY.get(typoid, "" if row is None else row.typtype)
    if row is None or typoid == oids.RECORD or kind == "c":
        return compare_records
    if kind == "d":
        return comparer(row.basetype)
    if kind == "e":
        place = enum_key(typoid)
        return lambda a, b: _order(place(a), place(b))
    if kind in ("r", "m"):
        return compare_ranges if kind == "r" else compare_multiranges
    raise PgError("42883", f"could not identify a comparison function for type {format_type(typoid)}")


def enum_key(typoid: int) -> Callable[[str], int]:
    """The place of a label in the order of an enum."""
    places = order_of_labels(typoid)

    def place(label: str) -> int:
        at = places.get(label)
        if at is None:
            raise PgError("22P02", f'invalid input value for enum {format_type(typoid)}: "{label}"')
        return at

    return place


def _order(a: Any, b: Any) -> int:
    return -1 if a < b else 1 if a > b else 0


def compare_nullable(compare: Compare, a: Any, b: Any) -> int:
    """Compare two values; NULL sorts last and equals NULL."""
    if a is None or b is None:
        return int(a is None) - int(b is None)
    return compare(a, b)


def compare_arrays(a: PgArray, b: PgArray) -> int:
    """As array_cmp does: elements first, then their number, then the shape."""
    if a.elemtype != b.elemtype:
        raise PgError("42804", "cannot compare arrays of different element types")
    compare = comparer(a.elemtype)
    for x, y in zip(a.items, b.items, strict=False):
        order = compare_nullable(compare, x, y)
        if order:
            return order
    return _order((len(a.items), len(a.dims), a.dims, a.lbounds), (len(b.items), len(b.dims), b.dims, b.lbounds))


def equal_arrays(a: PgArray, b: PgArray) -> bool:
    """As array_eq does: lower bounds count too."""
    return (a.dims, a.lbounds) == (b.dims, b.lbounds) and compare_arrays(a, b) == 0


def compare_records(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """The order of two rows, column by column (record_cmp)."""
    return compare_fields(a, b, lambda typoid: comparer(typoid) if typoid else _order)


def compare_fields(a: tuple[Any, ...], b: tuple[Any, ...], comparer_of: Callable[[int], Compare]) -> int:
    """Compare two records field by field, each pair with the function of its type (0: unknown)."""
    for number, (x, y) in enumerate(zip(a, b, strict=False), 1):
        left, right = _field_type(a, number - 1), _field_type(b, number - 1)
        if left and right and left != right:
            message = (
                f"cannot compare dissimilar column types {format_type(left)} and {format_type(right)} "
                f"at record column {number}"
            )
            raise PgError("42804", message)
        order = compare_nullable(comparer_of(left), x, y)
        if order:
            return order
    if len(a) != len(b):
        raise PgError("42804", "cannot compare record types with different numbers of columns")
    return 0


def _field_type(record: tuple[Any, ...], number: int) -> int:
    types = getattr(record, "types", ())
    return types[number] if types else 0


def hash_form(typoid: int) -> Key:
    """As `hashable`, for values of one type: trailing blanks of character(n) do not count."""
    if typoid == oids.BPCHAR:
        return lambda value: None if value is None else bpchar_key(value)
    return as_it_is if typoid in _HASH_AS_THEY_ARE else hashable


_HASH_AS_THEY_ARE = frozenset((oids.BOOL, oids.CHAR, oids.NAME, oids.INT2, oids.INT4, oids.INT8, oids.OID))


def as_it_is(value: Any) -> Any:
    """The key of a value of one of these types."""
    return value


def row_hash_form(types: Iterable[int]) -> Callable[[Iterable[Any]], tuple[Any, ...]]:
    """`hash_form` for rows with columns of these types."""
    forms = [hash_form(typoid) for typoid in types]
    return lambda row: tuple([form(value) for form, value in zip(forms, row, strict=True)])


def first_of_each(items: Iterable[Item], key: Callable[[Item], Any]) -> list[Item]:
    """The first one of the items with each key, in the order of the items."""
    seen: dict[Any, Item] = {}
    for item in items:
        seen.setdefault(key(item), item)
    return list(seen.values())


_HASHABLE_CLASSES = frozenset({int, str, bool, bytes})


def hashable(value: Any) -> Any:
    """A Python object that is equal exactly when the values are equal. It does not know character(n), except in arrays
    and records, which know the types of their items."""
    if type(value) in _HASHABLE_CLASSES:
        return value
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, Decimal):
        return "NaN" if value.is_nan() else value
    if isinstance(value, str):
        if type(value) is not str and any(digit in value for digit in "0123456789"):
            return _jsonb_key(value)
        return value
    if isinstance(value, tuple):
        if type(value).__name__ == "Interval":
            return interval_key(value)
        types = getattr(value, "types", ())  # of a Record
        return row_hash_form(types)(value) if types else tuple([hashable(item) for item in value])
    if isinstance(value, PgRange):
        form = hash_form(value.subtype)
        return form(value.lower), form(value.upper), value.lower_inc, value.upper_inc, value.empty
    if isinstance(value, PgMultirange):
        return tuple([hashable(one) for one in value.ranges])
    if isinstance(value, PgArray):
        form = hash_form(value.elemtype)
        return value.dims, value.lbounds, tuple([form(item) for item in value.items])
    return value


order_keys.append(order_key)
