"""How a jsonpath goes from step to step.

A handler of a kind of items passes what it finds to the step behind; `matches` collects what leaves the last one, None
asks only whether there is anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from pgrepl.expr.functions.registry import Call
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.types.jsonpath.scanner import Item
from pgrepl.types.numeric import display_scale

Found = list[Any] | None


class PathError(PgError):
    """An error that a predicate takes for `unknown`, and that `silent` suppresses (RETURN_ERROR)."""


class Moment(NamedTuple):
    """A date or time, which only a path's methods make."""

    value: Any
    type: int
    zone: int = 0  # seconds west of Greenwich, of a type with a time zone


class Variable(NamedTuple):
    """A named value; base and number say what `.keyvalue()` counts its ids from."""

    value: Any
    base: Any = None
    number: int = 0


class Run:
    def __init__(
        self, call: Call, root: Any, lax: bool, variables: Mapping[str, Variable], numbers: int, use_tz: bool
    ) -> None:
        """numbers: how many base objects the variables have."""
        self.call = call
        self.root = self.current = root
        self.lax = lax
        self.ignore_structure = lax
        self.variables = variables
        self.use_tz = use_tz
        self.array_size = -1  # of the innermost array, for `last`
        self.base: tuple[Any, int] = (None, 0)  # where .keyvalue() counts from
        self.generated = numbers + 1

    def execute(self, item: Item, value: Any, matches: Found, unwrap: bool | None = None) -> bool:
        """Evaluate a path over a value. unwrap: whether its first step takes an array for its elements."""
        check_for_interrupts()
        return HANDLERS[item.kind](self, item, value, matches, self.lax if unwrap is None else unwrap)

    def next(self, item: Item, value: Any, matches: Found) -> bool:
        """Pass a value on to the step behind."""
        if item.next is not None:
            return self.execute(item.next, value, matches)
        if matches is not None:
            matches.append(value)
        return True

    def from_base(self, value: Any, number: int, then: Callable[[], bool]) -> bool:
        """Do something while .keyvalue() counts from another object."""
        before, self.base = self.base, (value if isinstance(value, (dict, list)) else None, number)
        try:
            return then()
        finally:
            self.base = before

    def members(
        self,
        item: Item | None,
        value: Any,
        matches: Found,
        levels: tuple[int, int] = (1, 1),
        *,
        unwrap: bool,
        ignore_structure: bool = False,
        level: int = 1,
    ) -> bool:
        """Evaluate a path over the members of an object or array, on these levels (executeAnyItem)."""
        first, last = levels
        if level > last:
            return False
        result = False
        for member in list(value.values()) if isinstance(value, dict) else value:
            nested = isinstance(member, (dict, list))
            if level >= first or (first == last == LEAVES and not nested):
                if item is None:
                    if matches is None:
                        return True
                    matches.append(member)
                    result = True
                else:
                    result = self._member(item, member, matches, unwrap, ignore_structure)
                    if result and matches is None:
                        return True
            if level < last and nested:
                result = self.members(
                    item, member, matches, levels, unwrap=unwrap, ignore_structure=ignore_structure, level=level + 1
                )
                if result and matches is None:
                    return True
        return result

    def _member(self, item: Item, member: Any, matches: Found, unwrap: bool, ignore_structure: bool) -> bool:
        if not ignore_structure:
            return self.execute(item, member, matches, unwrap)
        return self.ignoring_structure(lambda: self.execute(item, member, matches, unwrap))

    def ignoring_structure(self, then: Callable[[], bool]) -> bool:
        before, self.ignore_structure = self.ignore_structure, True
        try:
            return then()
        finally:
            self.ignore_structure = before

    def sequence(self, item: Item, value: Any, *, unwrap: bool) -> list[Any]:
        """All that a path finds; of arrays their elements, if the mode is lax (executeItemOptUnwrapResult)."""
        matches: list[Any] = []
        self.execute(item, value, matches)
        if not unwrap or not self.lax:
            return matches
        items: list[Any] = []
        for match in matches:
            if isinstance(match, list):
                items += match
            else:
                items.append(match)
        return items


LEAVES = 0xFFFFFFFF

Handler = Callable[[Run, Item, Any, Found, bool], bool]
HANDLERS: dict[str, Handler] = {}


def handles(*kinds: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def is_number(value: Any) -> bool:
    return isinstance(value, Decimal)


def is_string(value: Any) -> bool:
    return isinstance(value, str)


def only(items: Sequence[Any]) -> Any:
    """The single item of a sequence that is a number; None: there is no such one."""
    return items[0] if len(items) == 1 and is_number(items[0]) else None


# --- keyvalue ---------------------------------------------------------------------------------------------------------


_PER_BASE = 10_000_000_000


def key_value(run: Run, item: Item, value: Any, matches: Found) -> bool:
    """`.keyvalue()`: an object's keys and values as items (executeKeyValueMethod)."""
    if not isinstance(value, dict):
        raise PathError("2203C", "jsonpath item method .keyvalue() can only be applied to an object")
    if not value:
        return False
    if item.next is None and matches is None:
        return True
    base, number = run.base
    identity = Decimal(_places(base).get(id(value), 0) + number * _PER_BASE)
    result = False
    for key, member in value.items():
        pair = {"id": identity, "key": key, "value": member}
        generated, run.generated = run.generated, run.generated + 1
        result = run.from_base(pair, generated, lambda pair=pair: run.next(item, pair, matches))  # type: ignore[misc]
        if result and matches is None:
            return True
    return result


def _places(tree: Any) -> dict[int, int]:
    """The offsets of the objects and arrays of a document, by id (convertJsonbValue)."""
    places: dict[int, int] = {}

    def end(value: Any, at: int) -> int:
        if isinstance(value, str):
            return at + len(value.encode())
        if isinstance(value, Decimal):
            return _aligned(at) + _numeric_size(value)
        if not isinstance(value, (dict, list)):
            return at
        at = _aligned(at)
        places[id(value)] = at
        if isinstance(value, list):
            members, at = value, at + 4 + 4 * len(value)
        else:
            members, at = list(value.values()), at + 4 + 8 * len(value)
            at += sum(len(key.encode()) for key in value)
        for member in members:
            at = end(member, at)
        return at

    end(tree, 0)
    return places


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
