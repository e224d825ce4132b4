r"""Numbers with the locale's separators, for `\pset numericlocale`."""

from __future__ import annotations

import locale
from functools import lru_cache

_NUMERIC = frozenset("0123456789+-.eE")


@lru_cache(maxsize=1)
def _conventions() -> tuple[str, int, str]:
    """Decimal point, digits in a group, separator of groups, with setDecimalLocale's defaults for empty ones."""
    try:
        locale.setlocale(locale.LC_NUMERIC, "")
    except locale.Error:
        locale.setlocale(locale.LC_NUMERIC, "C")
    found = locale.localeconv()
    locale.setlocale(locale.LC_NUMERIC, "C")
    point = str(found["decimal_point"]) or "."
    grouping = found["grouping"]
    digits = grouping[0] if isinstance(grouping, list) and grouping else 0
    separator = str(found["thousands_sep"]) or ("," if point != "," else ".")
    return point, digits if 0 < digits <= 6 else 3, separator


def localized(number: str) -> str:
    """`-1234567.8` as `-1,234,567.8`; a text that is no number stays as it is."""
    if not _NUMERIC.issuperset(number):
        return number
    point, group, separator = _conventions()
    sign = number[:1] if number[:1] in ("-", "+") else ""
    rest = number[len(sign) :]
    whole = len(rest) - len(rest.lstrip("0123456789"))
    digits, tail = rest[:whole], rest[whole:]
    first = whole % group or group
    groups = [digits[:first]] + [digits[at : at + group] for at in range(first, whole, group)]
    if tail.startswith("."):
        tail = point + tail[1:]
    return sign + separator.join(groups) + tail
