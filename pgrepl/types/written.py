"""Which texts of a column are as the type's output function writes them in the lake: reading such a text and writing
the value gives the same text. Texts of other spellings may be right, too; they are not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from pgrepl.types import oids
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    import pyarrow as pa

Written = Callable[["pa.Array", int, TextStyle], "pa.Array"]  # texts, typmod → booleans


def _matching(pattern: str, array: pa.Array, typmod: int, style: TextStyle) -> pa.Array:
    import pyarrow.compute as pc

    return pc.match_substring_regex(array, pattern)


def _none(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(False, len(array))


# --- bit strings, network addresses ------------------------------------------------------------------------------


def _bits(array: pa.Array, typmod: int, style: TextStyle, *, varying: bool) -> pa.Array:
    import pyarrow.compute as pc

    digits = pc.match_substring_regex(array, "^[01]*$")
    if typmod < 0:
        return digits
    fits = pc.less_equal if varying else pc.equal
    return pc.and_(digits, fits(pc.binary_length(array), typmod))


_MAC = "^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"
_MAC8 = "^[0-9a-f]{2}(:[0-9a-f]{2}){7}$"
_BYTE = "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_IPV4 = rf"^{_BYTE}(?:\.{_BYTE}){{3}}(?:/(?:[0-9]|[12][0-9]|3[01]))?$"
_NETWORK = rf"^(?:{_BYTE}(?:\.{_BYTE}){{3}}/32|{_BYTE}(?:\.{_BYTE}){{2}}\.0/24|{_BYTE}\.{_BYTE}\.0\.0/16)$"

# --- moments -----------------------------------------------------------------------------------------------------

_SECONDS = r"[0-5][0-9](?:\.[0-9]{0,5}[1-9])?"
_CLOCK = rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:{_SECONDS}"
_TIMETZ = rf"^{_CLOCK}(?:\+00|[+-](?:0[1-9]|1[0-4])(?::(?:[1-5][0-9]|0[1-9]))?|[+-]00:(?:[1-5][0-9]|0[1-9]))$"
_YEARS = "(?:1 year|(?:[2-9]|[1-9][0-9]{1,6}) years)"
_MONTHS = "(?:1 mon|(?:[2-9]|1[01]) mons)"
_DAYS = "(?:1 day|(?:[2-9]|[1-9][0-9]{1,6}) days)"
_HOURS = rf"(?:[0-9]{{2}}|[1-9][0-9]{{2,6}}):[0-5][0-9]:{_SECONDS}"
INTERVAL = (
    f"^(?:{_YEARS}(?: {_MONTHS})?(?: {_DAYS})?(?: {_HOURS})?"
    f"|{_MONTHS}(?: {_DAYS})?(?: {_HOURS})?|{_DAYS}(?: {_HOURS})?|{_HOURS})$"
)


def _timetz(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array:
    return _none(array) if typmod not in (-1, 6) else _matching(_TIMETZ, array, typmod, style)


def _interval(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array:
    """Intervals of which no field is negative: their text is read alike in all styles."""
    import pyarrow.compute as pc

    if typmod != -1:
        return _none(array)
    return pc.and_(pc.match_substring_regex(array, INTERVAL), pc.invert(pc.ends_with(array, " 00:00:00")))


# --- ranges ------------------------------------------------------------------------------------------------------

_DAY = "[1-9][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_DISCRETE = {oids.INT4: "(?:0|-?[1-9][0-9]{0,8})", oids.INT8: "(?:0|-?[1-9][0-9]{0,17})", oids.DATE: _DAY}
_DENSE = {
    oids.TIMESTAMP: f'"{_DAY} {_CLOCK}"',
    oids.TIMESTAMPTZ: rf'"{_DAY} {_CLOCK}\+00"',
    oids.NUMERIC: r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,6})?",
}
_MOMENTS = (oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.DATE)


def _range(subtype: int, array: pa.Array, typmod: int, style: TextStyle) -> pa.Array:
    """Ranges whose bounds are written as values of the subtype are, the lower one below the upper."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if subtype in _DISCRETE:
        bound = _DISCRETE[subtype]
        pattern = rf"^(?:\[{bound}|\(),(?:{bound})?\)$"
    else:
        bound = _DENSE[subtype]
        pattern = rf"^(?:[\[(]{bound}|\(),(?:{bound}[\])]|\))$"
    texts = array.fill_null("")
    spelled = pc.match_substring_regex(texts, pattern)
    parts = pc.split_pattern(pc.if_else(spelled, texts, "(,)"), ",").flatten()
    bounds = _bounds(pc.ascii_trim(parts, '[]()"'), subtype)
    count = len(texts)
    lower, upper = [bounds.take(pa.array(range(first, 2 * count, 2), pa.int64())) for first in (0, 1)]
    rising = pc.fill_null(pc.less(lower, upper), True)
    return pc.or_(pc.and_(spelled, rising), pc.equal(texts, "empty"))


def _bounds(words: pa.Array, subtype: int) -> pa.Array:
    """The bounds as values in order, NULL for an infinite one. Moments are in the order of their texts: behind a
    fraction of seconds nothing stands but the zone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.if_else(pc.equal(words, ""), None, words)
    if subtype in _MOMENTS:
        return pc.utf8_slice_codeunits(words, 0, -3) if subtype == oids.TIMESTAMPTZ else words
    return words.cast(pa.decimal128(24, 6) if subtype == oids.NUMERIC else pa.int64())


# --- the table ---------------------------------------------------------------------------------------------------

_WRITTEN: dict[int, Written] = {
    oids.BIT: partial(_bits, varying=False),
    oids.VARBIT: partial(_bits, varying=True),
    oids.MACADDR: partial(_matching, _MAC),
    oids.MACADDR8: partial(_matching, _MAC8),
    oids.INET: partial(_matching, _IPV4),
    oids.CIDR: partial(_matching, _NETWORK),
    oids.TIMETZ: _timetz,
    oids.INTERVAL: _interval,
}


@cache
def written(typoid: int) -> Written | None:
    """The function that finds such texts; None: those of the type are not known."""
    from pgrepl.types.builtin import range_by_oid

    found = _WRITTEN.get(typoid)
    ranges = range_by_oid(typoid)
    if typoid < oids.FIRST_USER_OID and ranges is not None and ranges.subtype in (*_DISCRETE, *_DENSE):
        return partial(_range, ranges.subtype)
    return found
