"""The text of a whole column, as the output functions of its type give it; and which texts are as these write them.

Texts of other spellings may be right, too; they are not known here.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type, range_by_oid, type_by_oid
from pgrepl.types.lake.arrays import PLAIN_SCALE, content, plain_array
from pgrepl.types.lake.nested_words import bytes_of, having
from pgrepl.types.style import STORED_STYLE, TextStyle
from pgrepl.types.text import writer
from pgrepl.types.user_types import is_enum, stored_labels

if TYPE_CHECKING:
    from pgrepl.types.lake.arrays import Form

Written = Callable[["pa.Array", int, TextStyle], "pa.Array"]  # texts, typmod → booleans


def _matching(pattern: str, array: pa.Array, typmod: int, style: TextStyle) -> pa.Array:
    return pc.match_substring_regex(array, pattern)


def _none(array: pa.Array) -> pa.Array:
    return pa.repeat(False, len(array))


def _bits(array: pa.Array, typmod: int, style: TextStyle, *, varying: bool) -> pa.Array:
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
    words = pc.if_else(pc.equal(words, ""), None, words)
    if subtype in _MOMENTS:
        return pc.utf8_slice_codeunits(words, 0, -3) if subtype == oids.TIMESTAMPTZ else words
    return words.cast(pa.decimal128(24, 6) if subtype == oids.NUMERIC else pa.int64())


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
    finder = _WRITTEN.get(typoid)
    ranges = range_by_oid(typoid)
    if typoid < oids.FIRST_USER_OID and ranges is not None and ranges.subtype in (*_DISCRETE, *_DENSE):
        return partial(_range, ranges.subtype)
    return finder


# --- column text ------------------------------------------------------------------------------------------------------


GREENWICH = ("GMT", "UTC", "Etc/UTC")
_AS_IS = frozenset((oids.TEXT, oids.VARCHAR, oids.NAME, oids.JSON))
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, counted from 1970
_COLUMN_TEXT_DAY = 86_400_000_000
_SECOND = 1_000_000


def column_text(array: pa.Array, typoid: int, form: Form, style: TextStyle) -> pa.Array:
    """The texts as an array of large strings, NULLs as they are. `form` is that of the column in the lake."""
    array, typoid = plain_array(array), base_type(typoid)
    texts = _at_once(array, typoid, style)
    if texts is None and len(array):
        if form.element is not None:
            texts = _arrays(array, typoid, form.element, style)
        elif form.row_fields:
            texts = _rows(array, form, style)
    if texts is None:
        texts = _one_by_one(array, typoid, form, style)
    return texts if texts.type == pa.large_string() else texts.cast(pa.large_string())


def _one_by_one(array: pa.Array, typoid: int, form: Form, style: TextStyle) -> pa.Array:
    """The texts of the output function, which is asked once for each text of the lake."""
    write = writer(typoid)
    known = array.dictionary_encode() if pa.types.is_string(array.type) else None
    values = form.from_array(array if known is None else known.dictionary)
    texts = pa.array([None if v is None else write(v, style) for v in values], pa.large_string())
    return texts if known is None else texts.take(known.indices)


def _at_once(array: pa.Array, typoid: int, style: TextStyle) -> pa.Array:
    """The texts, if Arrow writes them as PostgreSQL does."""
    kind = array.type
    if typoid in oids.INTEGERS or typoid == oids.OID:
        return array.cast(pa.large_string()) if pa.types.is_integer(kind) else None
    if typoid in _AS_IS or (is_enum(typoid) and not stored_labels(typoid)):
        return array if pa.types.is_string(kind) or pa.types.is_large_string(kind) else None
    if typoid == oids.BOOL:
        return pc.if_else(array, "t", "f") if pa.types.is_boolean(kind) else None
    if typoid == oids.NUMERIC:
        plain = pa.types.is_decimal(kind) and 0 <= kind.scale <= PLAIN_SCALE
        return array.cast(pa.large_string()) if plain else None
    if typoid == oids.UUID:
        return _uuids(array) if kind == pa.binary(16) else None
    if typoid == oids.BYTEA:
        return _hexadecimal(array) if pa.types.is_binary(kind) and style.bytea_output == "hex" else None
    if typoid in _AS_WRITTEN or (typoid in _IN_POSTGRES_STYLE and style.intervalstyle == "postgres"):
        return _as_written(array, typoid)
    if style.date_format != "ISO":
        return None
    if typoid == oids.TIMETZ:
        return _as_written(array, typoid)
    if typoid == oids.DATE:
        return array.cast(pa.large_string()) if kind == pa.date32() and _within(array.cast(pa.int32()), 1) else None
    zoned = typoid == oids.TIMESTAMPTZ
    if typoid == oids.TIMESTAMP or (zoned and style.timezone in GREENWICH):
        return _timestamps(array, "+00" if zoned else "") if pa.types.is_timestamp(kind) else None
    return None


_AS_WRITTEN = frozenset((oids.BIT, oids.VARBIT, oids.MACADDR, oids.MACADDR8, oids.INET, oids.CIDR))
_IN_POSTGRES_STYLE = frozenset((oids.INTERVAL,))


def _as_written(array: pa.Array, typoid: int) -> pa.Array:
    """Texts that are kept as they are written; another DuckLake writer may have kept others."""
    test = written(typoid)
    if test is None or not pa.types.is_string(array.type):
        return None
    return (
        array if pc.all(pc.or_kleene(test(array, -1, STORED_STYLE), pc.is_null(array))).as_py() is not False else None
    )


# --- arrays and composite types -------------------------------------------------------------------------------------

_IN_ARRAY, _IN_ROW = '{}",\\ \t\n\v\f\r', '()",\\ \t\n\v\f\r'


def _arrays(array: pa.Array, typoid: int, element: Form, style: TextStyle) -> pa.Array:
    """Lists as the texts of arrays, whose words are quoted where array_out does so; None: of elements with another
    delimiter."""
    row = type_by_oid(element_type(typoid))
    if row is None or row.delim != ",":
        return None
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    words = column_text(array.values.slice(first, last - first), element_type(typoid), element, style)
    null = pc.equal(pc.binary_length(words), 4)
    if pc.any(null).as_py():
        null = pc.and_(null, pc.equal(pc.ascii_lower(words), "null"))
    words = pc.fill_null(_in_quotes(words, null, _IN_ARRAY, '\\"'), "NULL").cast(pa.string())
    lists = pa.ListArray.from_arrays(
        pc.subtract(offsets, first), words, mask=array.is_null() if array.null_count else None
    )
    return pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "").cast(pa.large_string())


def _rows(array: pa.Array, form: Form, style: TextStyle) -> pa.Array:
    """Structs as the texts of records, whose fields are quoted where record_out does so; None: the struct has other
    fields."""
    if [field.name for field in array.type] != [name for name, _ in form.children]:
        return None
    children, parts = array.flatten(), []  # NULL where the struct is
    for field in form.row_fields:
        words = column_text(children[field.child], field.type, form.children[field.child][1], style)
        parts += [",", pc.fill_null(_in_quotes(words, None, _IN_ROW, '""'), "")]
    texts = _joined("(", *parts[1:], ")")
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts


def _in_quotes(words: Any, chosen: Any, special: str, quote: str) -> Any:
    """The words, with quotes around those that are chosen, are empty or have special letters; backslashes in these are
    doubled, and a quote in them is `quote`."""
    needed = pc.or_kleene(pa.array(having(words, special)), pc.equal(pc.binary_length(words), 0))
    if chosen is not None:
        needed = pc.or_kleene(needed, chosen)
    if not pc.any(needed).as_py():
        return words
    inside = words
    for letter, escaped in (("\\", "\\\\"), ('"', quote)):
        if having(words, letter).any():
            inside = pc.replace_substring(inside, letter, escaped)
    return pc.if_else(needed, _joined('"', inside, '"'), words)


def _joined(*parts: Any) -> Any:
    """Columns of large strings, and constants, one behind the other."""
    given = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, "")]
    return pc.binary_join_element_wise(*given)


def _within(units: Any, in_a_day: int) -> bool:
    """Whether all dates are in the years 1 to 9999."""
    least = pc.min_max(units)
    low, high = least["min"].as_py(), least["max"].as_py()
    return low is None or (low >= _FIRST_DAY * in_a_day and high < (_LAST_DAY + 1) * in_a_day)


def _timestamps(array: pa.Array, zone: str) -> pa.Array:
    if array.type.unit != "us":
        return None
    usecs = array.cast(pa.int64())
    if not _within(usecs, _COLUMN_TEXT_DAY):
        return None
    seconds = pc.divide(usecs, _SECOND)
    if pc.all(pc.equal(pc.multiply(seconds, _SECOND), usecs)).as_py() is not False:
        texts = seconds.cast(pa.timestamp("s")).cast(pa.large_string())
    else:
        texts = usecs.cast(pa.timestamp("us")).cast(pa.large_string())
        texts = pc.replace_substring_regex(texts, r"\.?0{1,6}$", "")
    if not zone:
        return texts
    return _joined(texts, zone)


def _hexadecimal(array: pa.Array) -> pa.Array:
    known = array.fill_null(b"").cast(pa.large_binary())
    _, edges = bytes_of(known)
    digits = pa.py_buffer(binascii.hexlify(content(known)))
    texts = _joined("\\x", pa.LargeStringArray.from_buffers(len(array), pa.py_buffer(edges * 2), digits))
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts


_HYPHENS = (8, 13, 18, 23)
_TEXT_OF_UUID = 36


def _uuids(array: pa.Array) -> pa.Array:
    count = len(array)
    raw = np.frombuffer(array.buffers()[1], np.uint8, count * 16, array.offset * 16).reshape(count, 16)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    letters = np.empty((count, _TEXT_OF_UUID), np.uint8)
    letters[:, _HYPHENS] = ord("-")
    places = [place for place in range(_TEXT_OF_UUID) if place not in _HYPHENS]
    letters[:, places[::2]] = digits[raw >> 4]
    letters[:, places[1::2]] = digits[raw & 15]
    ends = np.arange(0, (count + 1) * _TEXT_OF_UUID, _TEXT_OF_UUID, dtype=np.int64)
    texts = pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))
    if not array.null_count:
        return texts
    return pc.if_else(array.is_valid(), texts, None)
