"""The lake forms of scalar types, by family: whole numbers, floats, decimals, text, binary, dates and times, uuid."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from pgrepl.errors import PgError
from pgrepl.types import lake_text, oids
from pgrepl.types.dates import INFINITY, UNIX_EPOCH_DAYS, UNIX_EPOCH_USECS
from pgrepl.types.json import Jsonb
from pgrepl.types.lake_forms import Form
from pgrepl.types.names import format_type, numeric_precision_scale
from pgrepl.types.numbers import to_float4, write_float4
from pgrepl.types.numeric import EXACT, write_numeric
from pgrepl.types.style import DEFAULT_STYLE
from pgrepl.types.text import reader, writer

MAX_DECIMAL = 38


def scalar_form(typoid: int, typmod: int) -> Form:
    make = _FAMILIES.get(typoid)
    return make(typoid, typmod) if make is not None else text_form(typoid, typmod)


def _same(value: Any) -> Any:
    return value


def _raw_same(value: Any, scale: int) -> Any:
    return value


# --- columns of files ---------------------------------------------------------------------------------------------
# What a file has need not be the very type: an older file of a widened column, or one of Spark's.


def plain_array(array: Any) -> Any:
    """An array in one piece, without an extension type around it."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # too large for one
            array = pa.concat_arrays(array.chunks)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _values(array: Any) -> list[Any]:
    found: list[Any] = plain_array(array).to_pylist()
    return found


# --- whole numbers, booleans, floats ------------------------------------------------------------------------------


def _whole(lake: str, spark: str, arrow: str) -> Callable[[int, int], Form]:
    def make(typoid: int, typmod: int) -> Form:
        return Form(
            typoid=typoid, typmod=typmod, lake=lake, spark=spark, arrow=lambda: _arrow(arrow), to_arrow=_same,
            from_arrow=_same, from_array=_whole_values, to_stat=str, from_stat=int, from_raw=_raw_same,
            to_inlined=_same, from_inlined=int,
        )  # fmt: skip

    return make


def _whole_values(array: Any) -> list[Any]:
    import pyarrow as pa

    array = plain_array(array)
    if pa.types.is_decimal(array.type):
        return [None if v is None else int(v) for v in array.to_pylist()]
    found: list[Any] = array.to_pylist()
    return found


def _arrow(name: str) -> Any:
    import pyarrow as pa

    return getattr(pa, name)()


def _bool_form(typoid: int, typmod: int) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake="boolean", spark="BOOLEAN", arrow=lambda: _arrow("bool_"), to_arrow=_same,
        from_arrow=_same, from_array=_values, to_stat=lambda v: "1" if v else "0", from_stat=_read_bool,
        from_raw=lambda v, scale: bool(v), to_inlined=int, from_inlined=lambda v: _read_bool(str(v)),
    )  # fmt: skip


def _read_bool(text: str) -> bool:
    return text.lower() in ("1", "true", "t")


def _float(
    lake: str, spark: str, arrow: str, text: Callable[[float], str], read: Callable[[Any], float]
) -> Callable[[int, int], Form]:
    def stat(value: float) -> str | None:
        return None if value != value else _float_word(value) or text(value)

    def make(typoid: int, typmod: int) -> Form:
        return Form(
            typoid=typoid, typmod=typmod, lake=lake, spark=spark, arrow=lambda: _arrow(arrow), to_arrow=_same,
            from_arrow=_same, from_array=_values, to_stat=stat, from_stat=read, from_raw=_raw_same,
            to_inlined=lambda v: _float_word(v) or text(v), from_inlined=read,
        )  # fmt: skip

    return make


def _single(text: Any) -> float:
    """The shortest text of a single is not quite its value."""
    return to_float4(float(text))


def _float_word(value: float) -> str | None:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return None


# --- decimals -----------------------------------------------------------------------------------------------------


def _numeric_form(typoid: int, typmod: int) -> Form:
    if typmod >= 0:
        precision, scale = numeric_precision_scale(typmod)
        if precision <= MAX_DECIMAL and 0 <= scale <= precision:
            return decimal_form(precision, scale, typoid, typmod)
    return text_form(typoid, typmod)


def decimal_form(precision: int, scale: int, typoid: int = oids.NUMERIC, typmod: int = -1) -> Form:
    unit = Decimal(1).scaleb(-scale)

    def to_arrow(value: Decimal) -> Decimal:
        if not value.is_finite():
            raise PgError(
                "0A000",
                f"{write_numeric(value)} in a column of type {format_type(typoid, typmod)} is not supported",
                hint="Declare the column as numeric without precision and scale.",
            )
        return value

    def arrow() -> Any:
        import pyarrow as pa

        return pa.decimal128(precision, scale)

    def to_text(value: Decimal) -> str:
        return f"{to_arrow(value):.{scale}f}"

    def from_raw(value: Any, of_file: int) -> Decimal:
        if isinstance(value, bytes):
            value = int.from_bytes(value, "big", signed=True)
        return Decimal(value).scaleb(-of_file, context=EXACT) if isinstance(value, int) else value

    def read(value: Any) -> Decimal:
        return Decimal(str(value)).quantize(unit, context=EXACT)

    return Form(
        typoid=typoid, typmod=typmod, lake=f"decimal({precision},{scale})", spark=f"DECIMAL({precision},{scale})",
        arrow=arrow, to_arrow=to_arrow, from_arrow=_same, from_array=_decimals(scale), to_stat=to_text,
        from_stat=Decimal, from_raw=from_raw, to_inlined=to_text, from_inlined=read,
    )  # fmt: skip


def _decimals(scale: int) -> Callable[[Any], list[Any]]:
    unit = Decimal(1).scaleb(-scale)

    def read(array: Any) -> list[Any]:
        import pyarrow as pa

        array = plain_array(array)
        if not pa.types.is_decimal(array.type):  # an older file, of whole numbers
            return [None if v is None else Decimal(v).quantize(unit, context=EXACT) for v in array.to_pylist()]
        if array.type.scale != scale:
            return [None if v is None else v.quantize(unit, context=EXACT) for v in array.to_pylist()]
        if scale <= 6:  # the text has no exponent then, and is found faster
            return [None if v is None else Decimal(v) for v in array.cast(pa.string()).to_pylist()]
        found: list[Any] = array.to_pylist()
        return found

    return read


# --- text ---------------------------------------------------------------------------------------------------------


def text_form(typoid: int, typmod: int) -> Form:
    """Of a type that is kept as PostgreSQL's own text of it; no order can be told from it. A type whose text nobody can
    read or write has only NULLs."""

    def to_text(value: Any) -> str:
        return writer(typoid)(value, DEFAULT_STYLE)

    def from_text(text: str) -> Any:
        return Decimal(text) if typoid == oids.NUMERIC else reader(typoid)(text, -1, DEFAULT_STYLE)

    def from_array(array: Any) -> list[Any]:
        return [None if v is None else from_text(v) for v in _values(array)]

    return _kept_as_text(typoid, typmod, "varchar", to_text, from_text, from_array, "none")


def _string_form(typoid: int, typmod: int) -> Form:
    return _kept_as_text(typoid, typmod, "varchar", _same, _same, _values, "full")


def _bpchar_form(typoid: int, typmod: int) -> Form:
    """Padded to its length, so equality is that of the padded text; its order is not (a tab is less than a blank)."""
    length = typmod - 4
    sized = (lambda value: value.ljust(length)) if typmod >= 4 else None
    ordered = "equal" if typmod >= 4 else "none"
    return _kept_as_text(typoid, typmod, "varchar", _same, _same, _values, ordered, sized)


def _json_form(typoid: int, typmod: int) -> Form:
    return _kept_as_text(typoid, typmod, "json", _same, _same, _values, "none")


def _jsonb_form(typoid: int, typmod: int) -> Form:
    def from_array(array: Any) -> list[Any]:
        return [None if v is None else Jsonb(v) for v in _values(array)]

    return _kept_as_text(typoid, typmod, "json", str, Jsonb, from_array, "none")


def _kept_as_text(
    typoid: int,
    typmod: int,
    lake: str,
    to_text: Callable[[Any], str],
    from_text: Callable[[str], Any],
    from_array: Callable[[Any], list[Any]],
    ordered: str,
    sized: Callable[[Any], Any] | None = None,
) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake=lake, spark="STRING", arrow=lambda: _arrow("string"), to_arrow=to_text,
        from_arrow=from_text, from_array=from_array, to_stat=to_text, from_stat=from_text, from_raw=_raw_text,
        to_inlined=to_text, from_inlined=from_text, ordered=ordered, sized=sized,
    )  # fmt: skip


def _raw_text(value: Any, scale: int) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


# --- binary, uuid -------------------------------------------------------------------------------------------------


def _bytea_form(typoid: int, typmod: int) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake="blob", spark="BINARY", arrow=lambda: _arrow("binary"), to_arrow=_same,
        from_arrow=bytes, from_array=_values, to_stat=lambda v: v.hex().upper(), from_stat=_read_blob_stat,
        from_raw=_raw_same, to_inlined=_same, from_inlined=bytes, ordered="equal",
    )  # fmt: skip


def _read_blob_stat(text: str) -> bytes:
    return bytes.fromhex(text)


def _uuid_form(typoid: int, typmod: int) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake="uuid", spark="BINARY", arrow=lambda: _arrow("uuid"),
        to_arrow=lambda v: v.bytes, from_arrow=_read_uuid, from_array=_uuids, to_stat=str, from_stat=UUID,
        from_raw=lambda v, scale: UUID(bytes=v), to_inlined=str, from_inlined=UUID,
    )  # fmt: skip


def _read_uuid(value: Any) -> UUID:
    return UUID(bytes=bytes(value)) if isinstance(value, (bytes, bytearray)) else UUID(str(value))


def _uuids(array: Any) -> list[Any]:
    return [None if v is None else _read_uuid(v) for v in _values(array)]


# --- dates and times ----------------------------------------------------------------------------------------------


def _date_form(typoid: int, typmod: int) -> Form:
    def inlined(value: int) -> str:
        return lake_text.date_text(date_to_lake(value))

    def from_text(text: str) -> int:
        return date_from_lake(lake_text.read_date(text))

    return Form(
        typoid=typoid, typmod=typmod, lake="date", spark="DATE", arrow=lambda: _arrow("date32"),
        to_arrow=date_to_lake, from_arrow=date_from_lake, from_array=_dates, to_stat=inlined, from_stat=from_text,
        from_raw=lambda v, scale: date_from_lake(v), to_inlined=inlined, from_inlined=from_text,

    )  # fmt: skip


def date_to_lake(value: int) -> int:
    """Days from 2000 → days from 1970."""
    if value in (INFINITY, -INFINITY):
        return lake_text.DATE_INFINITY if value > 0 else -lake_text.DATE_INFINITY
    return value - UNIX_EPOCH_DAYS


def date_from_lake(days: int) -> int:
    if abs(days) == lake_text.DATE_INFINITY:
        return INFINITY if days > 0 else -INFINITY
    return days + UNIX_EPOCH_DAYS


def _dates(array: Any) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = plain_array(array)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.date32())
    days = array.cast(pa.int32()).cast(pa.int64())
    return _shifted(pc, days, UNIX_EPOCH_DAYS, lake_text.DATE_INFINITY)


def _shifted(pc: Any, units: Any, epoch: int, infinity: int) -> list[Any]:
    shifted = pc.add(units, epoch)
    least = pc.min_max(units)
    if least["max"].as_py() == infinity:
        shifted = pc.if_else(pc.equal(units, infinity), INFINITY, shifted)
    if least["min"].as_py() is not None and least["min"].as_py() <= -infinity:
        shifted = pc.if_else(pc.less_equal(units, -infinity), -INFINITY, shifted)
    found: list[Any] = shifted.to_pylist()
    return found


def _timestamp_form(typoid: int, typmod: int) -> Form:
    zoned = typoid == oids.TIMESTAMPTZ
    write = lake_text.timestamptz_text if zoned else lake_text.timestamp_text

    def inlined(value: int) -> str:
        return write(timestamp_to_lake(value))

    def from_text(text: str) -> int:
        return timestamp_from_lake(lake_text.read_timestamp(text))

    def arrow() -> Any:
        import pyarrow as pa

        return pa.timestamp("us", "UTC" if zoned else None)

    return Form(
        typoid=typoid, typmod=typmod, lake="timestamptz" if zoned else "timestamp",
        spark="TIMESTAMP" if zoned else "TIMESTAMP_NTZ", arrow=arrow, to_arrow=timestamp_to_lake,
        from_arrow=timestamp_from_lake, from_array=_timestamps, to_stat=inlined, from_stat=from_text,
        from_raw=lambda v, scale: timestamp_from_lake(v), to_inlined=inlined, from_inlined=from_text,

    )  # fmt: skip


def timestamp_to_lake(value: int) -> int:
    """Microseconds from 2000 → from 1970."""
    if value in (INFINITY, -INFINITY):
        return value
    shifted = value - UNIX_EPOCH_USECS
    if shifted >= lake_text.TIMESTAMP_INFINITY:
        raise PgError("22008", "timestamp out of range", detail="A lake table holds timestamps up to 294247-01-10.")
    return shifted


def timestamp_from_lake(usecs: int) -> int:
    if abs(usecs) == lake_text.TIMESTAMP_INFINITY:
        return usecs
    return usecs + UNIX_EPOCH_USECS


def _timestamps(array: Any) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = plain_array(array)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    unit = array.type.unit
    usecs = array.cast(pa.int64())
    if unit == "ns":
        special = pc.equal(pc.abs(usecs), lake_text.TIMESTAMP_INFINITY)
        usecs = pc.if_else(special, usecs, _floor_divide(pc, usecs, 1000))
    elif unit != "us":
        usecs = pc.multiply(usecs, {"s": 1_000_000, "ms": 1000}[unit])
    return _shifted(pc, usecs, UNIX_EPOCH_USECS, lake_text.TIMESTAMP_INFINITY)


def _floor_divide(pc: Any, array: Any, by: int) -> Any:
    cut = pc.divide(array, by)
    return pc.if_else(pc.less(array, pc.multiply(cut, by)), pc.subtract(cut, 1), cut)


def _time_form(typoid: int, typmod: int) -> Form:
    def arrow() -> Any:
        import pyarrow as pa

        return pa.time64("us")

    return Form(
        typoid=typoid, typmod=typmod, lake="time", spark="TIME(6)", arrow=arrow, to_arrow=_same, from_arrow=_same,
        from_array=times, to_stat=lake_text.time_text, from_stat=lake_text.read_time, from_raw=_raw_same,
        to_inlined=lake_text.time_text, from_inlined=lake_text.read_time,
    )  # fmt: skip


def times(array: Any) -> list[Any]:
    import pyarrow as pa

    array = plain_array(array)
    unit = array.type.unit
    found: list[Any] = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64()).to_pylist()
    if unit == "us":
        return found
    times, by = {"ns": (1, 1000), "ms": (1000, 1), "s": (1_000_000, 1)}[unit]
    return [None if v is None else v * times // by for v in found]


_int16, _int32, _int64 = (
    _whole("int16", "SMALLINT", "int16"), _whole("int32", "INT", "int32"), _whole("int64", "BIGINT", "int64"),
)  # fmt: skip
_FAMILIES: dict[int, Callable[[int, int], Form]] = {
    oids.BOOL: _bool_form,
    oids.INT2: _int16,
    oids.INT4: _int32,
    oids.INT8: _int64,
    **dict.fromkeys(
        (
            oids.OID, oids.XID, oids.CID, oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR,
            oids.REGCLASS, oids.REGTYPE, oids.REGROLE, oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG,
            oids.REGDICTIONARY,
        ),
        _int64,
    ),
    oids.FLOAT4: _float("float32", "FLOAT", "float32", write_float4, _single),
    oids.FLOAT8: _float("float64", "DOUBLE", "float64", repr, float),
    oids.NUMERIC: _numeric_form,
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.NAME, oids.CHAR), _string_form),
    oids.BPCHAR: _bpchar_form,
    oids.JSON: _json_form,
    oids.JSONB: _jsonb_form,
    oids.BYTEA: _bytea_form,
    oids.UUID: _uuid_form,
    oids.DATE: _date_form,
    oids.TIME: _time_form,
    oids.TIMESTAMP: _timestamp_form,
    oids.TIMESTAMPTZ: _timestamp_form,
}  # fmt: skip
