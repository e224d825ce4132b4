""".keyvalue(), whose ids tell objects apart: by where they are in jsonb's binary form."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pgrepl.expr.jsonpath.run import Found, PathError, Run
from pgrepl.types.jsonpath.items import Item
from pgrepl.types.numeric import display_scale

_PER_BASE = 10_000_000_000


def key_value(run: Run, item: Item, value: Any, found: Found) -> bool:
    """As executeKeyValueMethod does."""
    if not isinstance(value, dict):
        raise PathError("2203C", "jsonpath item method .keyvalue() can only be applied to an object")
    if not value:
        return False
    if item.next is None and found is None:
        return True
    base, number = run.base
    identity = Decimal(_places(base).get(id(value), 0) + number * _PER_BASE)
    result = False
    for key, member in value.items():
        pair = {"id": identity, "key": key, "value": member}
        generated, run.generated = run.generated, run.generated + 1
        result = run.from_base(pair, generated, lambda pair=pair: run.next(item, pair, found))  # type: ignore[misc]
        if result and found is None:
            return True
    return result


def _places(tree: Any) -> dict[int, int]:
    """The offsets of the objects and arrays of a document, by id (convertJsonbValue)."""
    found: dict[int, int] = {}

    def end(value: Any, at: int) -> int:
        if isinstance(value, str):
            return at + len(value.encode())
        if isinstance(value, Decimal):
            return _aligned(at) + _numeric_size(value)
        if not isinstance(value, (dict, list)):
            return at
        at = _aligned(at)
        found[id(value)] = at
        if isinstance(value, list):
            members, at = value, at + 4 + 4 * len(value)
        else:
            members, at = list(value.values()), at + 4 + 8 * len(value)
            at += sum(len(key.encode()) for key in value)
        for member in members:
            at = end(member, at)
        return at

    end(tree, 0)
    return found


def _aligned(at: int) -> int:
    return at + -at % 4


def _numeric_size(value: Decimal) -> int:
    """The bytes of a numeric: two headers and its digits, base 10000."""
    scale = display_scale(value)
    if not value:
        return 6 if scale <= 63 else 8
    whole, _, fraction = format(abs(value), "f").partition(".")
    whole = whole.lstrip("0")
    whole = whole.zfill(len(whole) + -len(whole) % 4)
    fraction = fraction.ljust(len(fraction) + -len(fraction) % 4, "0")
    text = whole + fraction
    groups = [text[at : at + 4] for at in range(0, len(text), 4)]
    first = next(n for n, group in enumerate(groups) if group.strip("0"))
    last = max(n for n, group in enumerate(groups) if group.strip("0"))
    weight = len(whole) // 4 - 1 - first
    header = 6 if scale <= 63 and -64 <= weight <= 63 else 8
    return header + 2 * (last - first + 1)
