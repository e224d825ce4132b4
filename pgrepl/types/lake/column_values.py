"""Text in Arrow arrays → arrays of a type's lake form, as its input function would read each value; and arrays of one
type → arrays of another one's lake form, through such texts.

Values in the usual spelling are cast by Arrow or stay texts; arrays and rows are cut into their words
(nested_words.py). Others are read value by value, each text once. From type to type, rows become rows attribute by
attribute, and arrays become arrays element by element, as record_in and array_in read what record_out and array_out
have written; values that both types keep alike stay what they are.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import base_type_and_typmod, element_type, type_by_oid
from pgrepl.types.lake.arrays import Form, plain_array, storage_type
from pgrepl.types.lake.column_text import column_text, written
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.lake.nested_words import Words, bytes_of, words_of
from pgrepl.types.style import TextStyle
from pgrepl.types.text import reader
from pgrepl.types.user_types import constrained, is_enum

if TYPE_CHECKING:
    import numpy.typing as npt

Numbers: TypeAlias = "npt.NDArray[Any]"
_BACKSLASH, _X = b"\\x"

Cast = Callable[["pa.Array", int, TextStyle], "pa.Array | None"]


def values_of(array: pa.Array, typoid: int, typmod: int, style: TextStyle, kind: Form | None = None) -> pa.Array:
    """The column as it is stored in a file. Errors are those of the input function, without the place of the value.
    `kind`: the form of the column, which for row types depends on the table."""
    row = type_by_oid(typoid)
    if row is not None and row.typtype == "d":
        return _of_domain(array, typoid, style, kind)
    kind = kind or form(typoid, typmod)
    if kind.element is not None:
        return _of_list(array, typoid, typmod, kind, style)
    if kind.row_fields:
        return _of_struct(array, typoid, kind, style)
    if is_row_type(typoid) or kind.lake != form(typoid, typmod).lake:
        return plain_array(_one_by_one(array, kind, typoid, typmod, style))
    values = _cast(array, typoid, typmod, style)
    return _partly(array, typoid, typmod, kind, style) if values is None else values


def _of_domain(array: pa.Array, typoid: int, style: TextStyle, kind: Form | None) -> pa.Array:
    base, typmod = base_type_and_typmod(typoid, -1)
    return in_domain(values_of(array, base, typmod, style, kind), typoid, style)


def in_domain(array: pa.Array, typoid: int, style: TextStyle) -> pa.Array:
    """The values, if the constraints of the domain allow them."""
    if constrained(typoid) and style.check_domains is not None and not style.stored:
        style.check_domains(typoid, array)
    return array


def _cast(array: pa.Array, typoid: int, typmod: int, style: TextStyle) -> pa.Array | None:
    cast = _CASTS.get(typoid)
    try:
        return None if cast is None else cast(array, typmod, style)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _partly(array: pa.Array, typoid: int, typmod: int, kind: Form, style: TextStyle) -> pa.Array:
    """Texts that are written as they are kept stay what they are, and those in the usual spelling are cast; the input
    function reads the others."""
    known = written(typoid)
    if known is not None:
        return _with_others(array, array, known(array, typmod, style), kind, typoid, typmod, style)

    def read(some: pa.Array) -> pa.Array:
        return plain_array(_one_by_one(some, kind, typoid, typmod, style))

    values = by_spelling(array, typoid, lambda some: _cast(some, typoid, typmod, style), read)
    return read(array) if values is None else values


def by_spelling(
    array: pa.Array, typoid: int, cast: Callable[[pa.Array], pa.Array | None], read: Callable[[pa.Array], pa.Array]
) -> pa.Array | None:
    """The values of texts: `cast` makes those of the usual spelling, `read` the others. None: the type has no usual
    spelling, or `cast` has made nothing, as of an impossible value."""
    usual = _USUAL.get(typoid)
    if usual is None:
        return None
    right = pc.match_substring_regex(array, usual).fill_null(False)
    values, left = cast(array.filter(right)), pc.invert(right)
    if values is None:
        return None
    before, behind = [pc.cumulative_sum(flags.cast(pa.int64())) for flags in (right, left)]
    places = pc.if_else(right, pc.subtract(before, 1), pc.add(behind, len(values) - 1))
    return pa.concat_arrays([values, read(array.filter(left)).cast(values.type)]).take(places)


def _with_others(
    values: pa.Array, array: pa.Array, right: pa.Array, kind: Form, typoid: int, typmod: int, style: TextStyle
) -> pa.Array:
    """The `values`, where they are `right` or the text is NULL; elsewhere those that the input function reads."""
    left = pc.and_(pc.is_valid(array), pc.invert(right.fill_null(False)))
    if not pc.any(left).as_py():
        return values
    others = plain_array(_one_by_one(array.filter(left), kind, typoid, typmod, style))
    behind = pc.add(pc.cumulative_sum(left.cast(pa.int64())), len(values) - 1)
    places = pc.if_else(left, behind, pa.array(range(len(values)), pa.int64()))
    return pa.concat_arrays([values, others.cast(values.type)]).take(places)


def _one_by_one(array: pa.Array, kind: Form, typoid: int, typmod: int, style: TextStyle) -> pa.Array:
    read = reader(typoid)
    known = array.dictionary_encode()
    values = kind.to_array(
        [None if word is None else read(word, typmod, style) for word in known.dictionary.to_pylist()]
    )
    return values.take(known.indices)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _of_list(array: pa.Array, typoid: int, typmod: int, kind: Form, style: TextStyle) -> pa.Array:
    """Arrays of one dimension that begins at 1, in the usual spelling; the input function reads the others, of which a
    list may not hold some."""
    element = element_type(typoid)
    row = type_by_oid(element)
    texts = array.fill_null("{}").cast(pa.large_string())
    split = words_of(texts, "{", "}")
    if row is None or row.delim != ",":
        return plain_array(_one_by_one(array, kind, typoid, typmod, style))
    words, odd = _elements(split)
    right = split.is_plain
    if odd.any():
        right = right & ~_of_rows(odd, split.counts)
    if not right.all():  # what stands in a wrong text is none of the words
        texts = pc.if_else(pa.array(right), texts, pa.scalar("{}", pa.large_string()))
        split = words_of(texts, "{", "}")
        words, _ = _elements(split)
    items = values_of(words.cast(pa.string()), element, typmod, style, kind.element)
    ends = np.concatenate([[0], np.cumsum(split.counts)]).astype(np.int32)
    stored = storage_type(kind.arrow())
    lists = pa.ListArray.from_arrays(
        pa.array(ends), items.cast(stored.value_type), type=stored, mask=pc.is_null(array) if array.null_count else None
    )
    return _with_others(lists, array, pa.array(right), kind, typoid, typmod, style)


def _blanks() -> Numbers:
    blanks = np.zeros(256, np.bool_)
    blanks[list(b" \t\n\r\v\f")] = True
    return blanks


def _elements(split: Words) -> tuple[pa.Array, Numbers]:
    """The words of arrays, with NULL for an unquoted one; and which of them are odd: without quotes they must neither
    be empty nor have blanks at their ends."""
    words, odd = split.words, np.zeros(len(split.words), np.bool_)
    plain = np.flatnonzero(~split.quoted)
    if not len(plain):
        return words, odd
    data, ends = bytes_of(words)
    starts, stops = ends[plain], ends[plain + 1]
    full, blank = starts < stops, _blanks()
    if full.all():
        odd[plain] = blank[data[starts]] | blank[data[stops - 1]]
    else:
        odd[plain[~full]] = True
        odd[plain[full]] = blank[data[starts[full]]] | blank[data[stops[full] - 1]]
    short = plain[stops - starts == len("NULL")]
    nulls = short[pc.equal(pc.ascii_upper(words.take(pa.array(short))), "NULL").to_numpy(zero_copy_only=False)]
    if len(nulls):
        missing = np.zeros(len(words), np.bool_)
        missing[nulls] = True
        words = pc.if_else(pa.array(missing), None, words)
    return words, odd


def _of_rows(flags: Numbers, counts: Numbers) -> Numbers:
    """Whether a row has a word with the flag."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    ends = np.cumsum(counts)
    flagged: Numbers = sums[ends] > sums[ends - counts]
    return flagged


def _of_struct(array: pa.Array, typoid: int, kind: Form, style: TextStyle) -> pa.Array:
    """Rows in the usual spelling; the input function reads the others."""
    fields, stored = kind.row_fields, storage_type(kind.arrow())
    split = words_of(array.fill_null("").cast(pa.large_string()), "(", ")", doubled=True)
    right = split.is_plain & (split.counts == len(fields))
    words, quoted = split.words, split.quoted
    if not right.all():
        chosen = np.repeat(right, split.counts)
        words, quoted = words.filter(pa.array(chosen)), quoted[chosen]
    missing = pc.and_(pc.equal(pc.binary_length(words), 0), pa.array(~quoted))
    if pc.any(missing).as_py():
        words = pc.if_else(missing, None, words)
    words = words.cast(pa.string())
    columns = [pa.nulls(int(right.sum()), column.type) for column in stored]
    for n, field in enumerate(fields):
        at = pa.array(np.arange(n, len(words), len(fields)))
        column = values_of(words.take(at), field.type, field.typmod, style, kind.children[field.child][1])
        columns[field.child] = column.cast(stored.field(field.child).type)
    rows = pa.StructArray.from_arrays(columns, fields=list(stored))
    if len(rows) < len(array):
        rows = rows.take(pc.if_else(pa.array(right), pa.array(np.cumsum(right) - 1), None))
    return _with_others(rows, array, pa.array(right), kind, typoid, -1, style)


# --- by Arrow ---------------------------------------------------------------------------------------------------------


def _all(passes: Any) -> bool:
    """Whether a test holds for all values; NULLs pass."""
    return pc.all(passes).as_py() is not False


def _match(array: pa.Array, pattern: str) -> bool:
    return _all(pc.match_substring_regex(array, pattern))


def _text(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    return array


def _varchar(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    if typmod < 4 or _all(pc.less_equal(pc.utf8_length(array), typmod - 4)):
        return array
    return None


def _whole(name: str) -> Cast:
    def cast(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
        if any(pc.any(pc.match_substring(array, letter)).as_py() for letter in "xX"):
            return None  # 0xFF
        return array.cast(getattr(pa, name)())

    return cast


def _float(name: str) -> Cast:
    def cast(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
        """Overflow and underflow are errors in PostgreSQL, but not in Arrow: the input function reads such values."""
        numbers = array.cast(getattr(pa, name)())
        if not _all(pc.is_finite(numbers)):
            return None
        tiny = pc.less(pc.abs(numbers), 1e-37 if name == "float32" else 1e-307)
        return numbers if _match(array.filter(tiny), r"^-?0(\.0*)?$") else None

    return cast


def _bool(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    true, false = ["t", "true", "1", "y", "yes", "on"], ["f", "false", "0", "n", "no", "off"]
    if not _all(pc.is_in(array.drop_null(), value_set=pa.array(true + false))):
        return None
    return pc.if_else(pc.is_valid(array), pc.is_in(array, value_set=pa.array(true)), None)


_NUMERIC = r"^(-?[1-9][0-9]*(\.[0-9]+)?|0(\.[0-9]+)?|-0\.[0-9]*[1-9][0-9]*)$"


def _numeric(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    kind = form(oids.NUMERIC, typmod).arrow()
    if pa.types.is_decimal(kind):
        return array.cast(kind)
    # a numeric stored as text has PostgreSQL's spelling
    return array if typmod < 0 and _match(array, _NUMERIC) else None


_DAY = r"^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"  # Arrow accepts the year 0
_TIME = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"

_ZONED = _DAY + _TIME + r"[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?$"


def _date(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    return array.cast(pa.date32()) if _match(array, _DAY + "$") else None


def _timestamp(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    if typmod not in (-1, 6) or not _match(array, _DAY + _TIME + "$"):
        return None
    return array.cast(pa.timestamp("us")).cast(form(oids.TIMESTAMP, typmod).arrow())


def _timestamptz(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    kind = form(oids.TIMESTAMPTZ, typmod).arrow()
    if typmod not in (-1, 6):
        return None
    if _match(array, _ZONED):
        return array.cast(pa.timestamp("us", "UTC")).cast(kind)
    if style.timezone.upper() in ("GMT", "UTC", "ETC/UTC") and _match(array, _DAY + _TIME + "$"):
        return array.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")).cast(kind)
    return None


_HEX = "[0-9a-fA-F]"
_UUID = f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$"


def _uuid(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    if not _match(array, _UUID):
        return None
    raw = bytes.fromhex("".join(pc.replace_substring(array.drop_null(), "-", "").to_pylist()))
    uuids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw) // 16, [None, pa.py_buffer(raw)])
    if not array.null_count:
        return uuids
    valid = pc.is_valid(array)
    places = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
    return uuids.take(places)


def _time(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    if typmod not in (-1, 6) or not _match(array, r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$"):
        return None
    return array.cast(pa.time64("us")).cast(form(oids.TIME, typmod).arrow())


def _bytea(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    """Hexadecimal digits without blanks, decoded for all values together."""
    data, ends = bytes_of(array.fill_null("\\x").cast(pa.large_string()))
    starts, lengths = ends[:-1], np.diff(ends)
    if (
        (lengths < 2).any()
        or (lengths % 2).any()
        or (data[starts] != _BACKSLASH).any()
        or (data[starts + 1] != _X).any()
    ):
        return None
    digits = np.ones(len(data), np.bool_)
    digits[starts] = digits[starts + 1] = False
    try:
        raw = binascii.unhexlify(data[digits].tobytes())
    except binascii.Error:
        return None
    edges = (ends // 2 - np.arange(len(ends))).astype(np.int32)
    values = pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(edges), pa.py_buffer(raw)])
    return pc.if_else(array.is_valid(), values, None) if array.null_count else values


_CASTS: dict[int, Cast] = {
    oids.TEXT: _text,
    oids.VARCHAR: _varchar,
    oids.INT2: _whole("int16"),
    oids.INT4: _whole("int32"),
    oids.INT8: _whole("int64"),
    oids.FLOAT4: _float("float32"),
    oids.FLOAT8: _float("float64"),
    oids.BOOL: _bool,
    oids.NUMERIC: _numeric,
    oids.DATE: _date,
    oids.TIMESTAMP: _timestamp,
    oids.TIMESTAMPTZ: _timestamptz,
    oids.UUID: _uuid,
    oids.TIME: _time,
    oids.BYTEA: _bytea,
}
_USUAL = {  # spellings of which Arrow casts all but impossible values
    oids.INT2: "^-?[0-9]{1,4}$",
    oids.INT4: "^-?[0-9]{1,9}$",
    oids.INT8: "^-?[0-9]{1,18}$",
    oids.FLOAT8: r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    oids.NUMERIC: _NUMERIC,
    oids.DATE: _DAY + "$",
    oids.TIMESTAMP: _DAY + _TIME + "$",
    oids.TIMESTAMPTZ: _ZONED,
    oids.UUID: _UUID,
}


Type = tuple[int, int]  # with its typmod


def through_text(array: pa.Array, source: Type, given: Form, target: Type, kind: Form, style: TextStyle) -> pa.Array:
    """The column as values of the type `target`, in the storage type of the form `kind`. `given`: the form of the
    source. Errors are those of the input function, without the place of the value."""
    array = plain_array(array)
    base = base_type_and_typmod(*target)
    values = _alike(array, base_type_and_typmod(*source), given, base, kind, style)
    if values is None:
        return values_of(column_text(array, source[0], given, style).cast("string"), *target, style, kind)
    return values if target[0] in (base[0], source[0]) else in_domain(values, target[0], style)


def _alike(array: pa.Array, source: Type, given: Form, target: Type, kind: Form, style: TextStyle) -> pa.Array:
    """The column made without texts; None: it needs them."""
    if (style.date_format, style.intervalstyle) != ("ISO", "postgres") or style.extra_float_digits < 1:
        return None  # some texts mean less than the values that they are of
    if given.element is not None and kind.element is not None:
        return _lists(array, source, given.element, target, kind, style)
    if given.row_fields and len(given.row_fields) == len(kind.row_fields):
        return _structs(array, given, kind, style)
    same = (
        source[0] == target[0]
        and target[1] in (source[1], -1)
        and (source[0] < oids.FIRST_USER_OID or is_enum(source[0]))
    )
    return array if same and array.type == storage_type(kind.arrow()) else None


def _lists(array: pa.Array, source: Type, given: Form, target: Type, kind: Form, style: TextStyle) -> pa.Array:
    assert kind.element is not None
    inside, to = element_type(source[0]), element_type(target[0])
    ours, theirs = type_by_oid(inside), type_by_oid(to)
    if len(array) == 0 or ours is None or theirs is None or ours.delim != theirs.delim:
        return None
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    items = array.values.slice(first, last - first)
    items = through_text(items, (inside, source[1]), given, (to, target[1]), kind.element, style)
    stored = storage_type(kind.arrow())
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(
        pc.subtract(array.offsets, first), items.cast(stored.value_type), type=stored, mask=mask
    )


def _structs(array: pa.Array, given: Form, kind: Form, style: TextStyle) -> pa.Array:
    """The structs, as far as there are any: no attribute of a row that is NULL is looked at."""
    if [field.name for field in array.type] != [name for name, _ in given.children]:
        return None
    valid = array.is_valid()
    rows = array.filter(valid) if array.null_count else array
    values, stored = rows.flatten(), storage_type(kind.arrow())
    columns = [pa.nulls(len(rows), column.type) for column in stored]
    for ours, theirs in zip(given.row_fields, kind.row_fields, strict=True):
        (_, form), (_, to) = given.children[ours.child], kind.children[theirs.child]
        own = through_text(values[ours.child], (ours.type, ours.typmod), form, (theirs.type, theirs.typmod), to, style)
        columns[theirs.child] = own.cast(stored.field(theirs.child).type)
    structs = pa.StructArray.from_arrays(columns, fields=list(stored))
    if len(structs) == len(array):
        return structs
    there = valid.to_numpy(zero_copy_only=False)
    return structs.take(pa.array(np.cumsum(there) - 1, mask=~there))
