"""Text in Arrow arrays → arrays of a type's lake form, as its input function would read each value.

Values in the usual spelling are cast by Arrow, where the result is known to be the same; any other column is read value
by value, each text once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgrepl.types import oids
from pgrepl.types.lake_arrays import Form
from pgrepl.types.lake_forms import form
from pgrepl.types.style import TextStyle
from pgrepl.types.text import reader
from pgrepl.types.user_types import tests_null

if TYPE_CHECKING:
    import pyarrow as pa

Cast = Callable[["pa.Array", int, TextStyle], "pa.Array | None"]


def values_of(array: pa.Array, typoid: int, typmod: int, style: TextStyle) -> pa.Array:
    """The column as it is stored in a file. Errors are those of the input function, without the place of the value."""
    import pyarrow as pa

    from pgrepl.lake.scan import storage_array

    if array.null_count and style.check_domain is not None and tests_null(typoid):
        style.check_domain(typoid, None)
    kind = form(typoid, typmod)
    cast = _CASTS.get(typoid)
    if cast is not None:
        try:
            found = cast(array, typmod, style)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            found = None
        if found is not None:
            return found
    return storage_array(_one_by_one(array, kind, typoid, typmod, style))


def _one_by_one(array: pa.Array, kind: Form, typoid: int, typmod: int, style: TextStyle) -> pa.Array:
    read = reader(typoid)
    known = array.dictionary_encode()
    made = kind.to_array([None if word is None else read(word, typmod, style) for word in known.dictionary.to_pylist()])
    return made.take(known.indices)


# --- by Arrow ---------------------------------------------------------------------------------------------------------


def _all(found: Any) -> bool:
    """Whether a test holds for all values; NULLs pass."""
    import pyarrow.compute as pc

    return pc.all(found).as_py() is not False


def _match(array: pa.Array, pattern: str) -> bool:
    import pyarrow.compute as pc

    return _all(pc.match_substring_regex(array, pattern))


def _text(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    return array


def _varchar(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow.compute as pc

    if typmod < 4 or _all(pc.less_equal(pc.utf8_length(array), typmod - 4)):
        return array
    return None


def _whole(name: str) -> Cast:
    def cast(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pc.any(pc.match_substring(array, "x", ignore_case=True)).as_py():
            return None  # 0xFF
        return array.cast(getattr(pa, name)())

    return cast


def _float(name: str) -> Cast:
    def cast(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
        """Overflow and underflow are errors in PostgreSQL, but not in Arrow: the input function reads such values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        made = array.cast(getattr(pa, name)())
        if not _all(pc.is_finite(made)):
            return None
        tiny = pc.less(pc.abs(made), 1e-37 if name == "float32" else 1e-307)
        return made if _match(array.filter(tiny), r"^-?0(\.0*)?$") else None

    return cast


def _bool(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    true, false = ["t", "true", "1", "y", "yes", "on"], ["f", "false", "0", "n", "no", "off"]
    if not _all(pc.is_in(array.drop_null(), value_set=pa.array(true + false))):
        return None
    return pc.if_else(pc.is_valid(array), pc.is_in(array, value_set=pa.array(true)), None)


def _numeric(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow as pa

    kind = form(oids.NUMERIC, typmod).arrow()
    if pa.types.is_decimal(kind):
        return array.cast(kind)
    # a numeric stored as text has PostgreSQL's spelling
    if typmod < 0 and _match(array, r"^(-?[1-9][0-9]*(\.[0-9]+)?|0(\.[0-9]+)?|-0\.[0-9]*[1-9][0-9]*)$"):
        return array
    return None


_DAY = r"^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"  # Arrow accepts the year 0
_TIME = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"


def _date(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow as pa

    return array.cast(pa.date32()) if _match(array, _DAY + "$") else None


def _timestamp(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow as pa

    if typmod not in (-1, 6) or not _match(array, _DAY + _TIME + "$"):
        return None
    return array.cast(pa.timestamp("us")).cast(form(oids.TIMESTAMP, typmod).arrow())


def _timestamptz(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow as pa

    kind = form(oids.TIMESTAMPTZ, typmod).arrow()
    if typmod not in (-1, 6):
        return None
    if _match(array, _DAY + _TIME + r"[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?$"):
        return array.cast(pa.timestamp("us", "UTC")).cast(kind)
    if style.timezone.upper() in ("GMT", "UTC", "ETC/UTC") and _match(array, _DAY + _TIME + "$"):
        return array.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")).cast(kind)
    return None


def _uuid(array: pa.Array, typmod: int, style: TextStyle) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    digit = "[0-9a-fA-F]"
    if not _match(array, f"^{digit}{{8}}-{digit}{{4}}-{digit}{{4}}-{digit}{{4}}-{digit}{{12}}$"):
        return None
    raw = bytes.fromhex("".join(pc.replace_substring(array.drop_null(), "-", "").to_pylist()))
    made = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw) // 16, [None, pa.py_buffer(raw)])
    if not array.null_count:
        return made
    valid = pc.is_valid(array)
    places = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
    return made.take(places)


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
}
