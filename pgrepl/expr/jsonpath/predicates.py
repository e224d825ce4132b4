"""Predicates: true, false or unknown (None)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.expr.jsonpath.moments import compare_moments
from pgrepl.expr.jsonpath.run import Found, Moment, PathError, Run, handles, is_string
from pgrepl.types.jsonpath.items import BOOLEANS, COMPARISONS, Item
from pgrepl.types.jsonpath.parser import regex_flags
from pgrepl.types.regex.matching import compile_regex

Test = Callable[[Any, Any], bool | None]


@handles(*BOOLEANS)
def predicate(run: Run, item: Item, value: Any, found: Found, unwrap: bool) -> bool:
    """A predicate as a value (appendBoolResult)."""
    result = truth(run, item, value)
    if item.next is None and found is None:
        return True
    return run.next(item, result, found)


def truth(run: Run, item: Item, value: Any) -> bool | None:
    """As executeBoolItem does."""
    kind = item.kind
    first = item.args[0]
    assert first is not None
    if kind in ("&&", "||"):
        second = item.args[1]
        assert second is not None
        decisive = kind == "||"
        left = truth(run, first, value)
        if left is decisive:
            return decisive
        right = truth(run, second, value)
        return left if right is not decisive and right is not None else right
    if kind == "!":
        inner = truth(run, first, value)
        return None if inner is None else not inner
    if kind == "is unknown":
        return truth(run, first, value) is None
    if kind == "exists":
        return _exists(run, first, value)
    if kind == "like_regex":
        pattern, flags = item.value
        regex = compile_regex(pattern, regex_flags(flags))
        return _any(run, first, None, value, lambda text, _: regex.matches(text) if is_string(text) else None, False)
    if kind == "starts with":
        return _any(run, first, item.args[1], value, _starts_with, False)
    return _any(run, first, item.args[1], value, lambda a, b: compare(run, kind, a, b), True)


def _exists(run: Run, item: Item, value: Any) -> bool | None:
    try:
        if run.lax:
            return run.execute(item, value, None)
        found: list[Any] = []  # in strict mode all values are computed, to see whether one is an error
        run.execute(item, value, found)
        return bool(found)
    except PathError:
        return None


def _any(run: Run, left: Item, right: Item | None, value: Any, test: Test, unwrap_right: bool) -> bool | None:
    """Whether a test holds for any pair of what the two sides find (executePredicate)."""
    try:
        lefts = run.sequence(left, value, unwrap=True)
        rights = [None] if right is None else run.sequence(right, value, unwrap=unwrap_right)
    except PathError:
        return None
    found = unknown = False
    for one in lefts:
        for other in rights:
            result = test(one, other)
            if result is None:
                if not run.lax:
                    return None
                unknown = True
            elif result:
                if run.lax:
                    return True
                found = True
    return True if found else None if unknown else False


def _starts_with(whole: Any, initial: Any) -> bool | None:
    return whole.startswith(initial) if is_string(whole) and is_string(initial) else None


def compare(run: Run, operator: str, one: Any, other: Any) -> bool | None:
    """As compareItems does."""
    order = _order(run, one, other)
    if order is None:
        return None
    if not isinstance(order, int):
        return operator == "!="
    return _COMPARE[operator](order)


_COMPARE: dict[str, Callable[[int], bool]] = dict(
    zip(
        COMPARISONS,
        (lambda n: n == 0, lambda n: n != 0, lambda n: n < 0, lambda n: n > 0, lambda n: n <= 0, lambda n: n >= 0),
        strict=True,
    )
)


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _order(run: Run, one: Any, other: Any) -> int | str | None:
    """-1, 0 or 1; None: they do not compare; "differ": one of them is null."""
    if one is None or other is None:
        return 0 if one is other else "differ"
    for kind in (bool, Decimal, str):
        if isinstance(one, kind) and isinstance(other, kind):
            return _sign(one, other)
    if isinstance(one, Moment) and isinstance(other, Moment):
        return compare_moments(run, one, other)
    return None
