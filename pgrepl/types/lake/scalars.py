"""The lake forms of scalar types, by family: integers, floats, decimals, text, binary, uuid."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import base_type, base_type_and_typmod, element_type
from pgrepl.types.json import Jsonb
from pgrepl.types.lake.arrays import PLAIN_SCALE, Form, arrow_type, plain_array, same, same_raw
from pgrepl.types.lake.lists import date_form, time_form, timestamp_form
from pgrepl.types.names import format_type, numeric_precision_scale
from pgrepl.types.numbers import to_float4, write_float4
from pgrepl.types.numeric import EXACT, write_numeric
from pgrepl.types.style import STORED_STYLE, Record, RowField, RowType, fitted, quote_field, split_record
from pgrepl.types.text import reader, writer
from pgrepl.types.user_types import composite_type, labels_of_stored, stored_labels

MAX_DECIMAL = 38


def scalar_form(typoid: int, typmod: int) -> Form:
    make = _FAMILIES.get(typoid)
    return make(typoid, typmod) if make is not None else text_form(typoid, typmod)


def _values(array: pa.Array) -> list[Any]:
    values: list[Any] = plain_array(array).to_pylist()
    return values


# --- whole numbers, booleans, floats ------------------------------------------------------------------------------


def _whole(lake: str, spark: str, arrow: str) -> Callable[[int, int], Form]:
    def make(typoid: int, typmod: int) -> Form:
        return Form(
            typoid=typoid, typmod=typmod, lake=lake, spark=spark, arrow=lambda: arrow_type(arrow), to_arrow=same,
            from_arrow=same, from_array=_whole_values, to_stat=str, from_stat=int, from_raw=same_raw,
            to_inlined=same, from_inlined=int,
        )  # fmt: skip

    return make


def _whole_values(array: pa.Array) -> list[Any]:
    array = plain_array(array)
    if pa.types.is_decimal(array.type):
        return [None if v is None else int(v) for v in array.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


def _bool_form(typoid: int, typmod: int) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake="boolean", spark="BOOLEAN", arrow=lambda: arrow_type("bool_"), to_arrow=same,
        from_arrow=same, from_array=_values, to_stat=lambda v: "1" if v else "0", from_stat=_read_bool,
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
            typoid=typoid, typmod=typmod, lake=lake, spark=spark, arrow=lambda: arrow_type(arrow), to_arrow=same,
            from_arrow=same, from_array=_values, to_stat=stat, from_stat=read, from_raw=same_raw,
            to_inlined=lambda v: _float_word(v) or text(v), from_inlined=read,
        )  # fmt: skip

    return make


def _single(text: Any) -> float:
    """A float4 from its shortest text, which denotes another value as a double."""
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
        arrow=arrow, to_arrow=to_arrow, from_arrow=same, from_array=_decimals(scale), to_stat=to_text,
        from_stat=Decimal, from_raw=from_raw, to_inlined=to_text, from_inlined=read,
    )  # fmt: skip


def _decimals(scale: int) -> Callable[[Any], list[Any]]:
    unit = Decimal(1).scaleb(-scale)

    def read(array: pa.Array) -> list[Any]:
        array = plain_array(array)
        if not pa.types.is_decimal(array.type):  # an older file, of whole numbers
            return [None if v is None else Decimal(v).quantize(unit, context=EXACT) for v in array.to_pylist()]
        if array.type.scale != scale:
            return [None if v is None else v.quantize(unit, context=EXACT) for v in array.to_pylist()]
        if scale <= PLAIN_SCALE:  # reading the text is faster
            return [None if v is None else Decimal(v) for v in array.cast(pa.string()).to_pylist()]
        values: list[Any] = array.to_pylist()
        return values

    return read


# --- text ---------------------------------------------------------------------------------------------------------


def text_form(typoid: int, typmod: int) -> Form:
    """The form of a type that is stored as PostgreSQL's text; bounds of texts do not follow the type's order. A
    column of a type without input and output functions holds only NULLs."""

    def to_text(value: Any) -> str:
        return writer(typoid)(value, STORED_STYLE)

    def from_text(text: str) -> Any:
        return Decimal(text) if typoid == oids.NUMERIC else reader(typoid)(text, -1, STORED_STYLE)

    return _kept_as_text(typoid, typmod, "varchar", to_text, from_text, "none")


@cache
def row_form(typoid: int, row: RowType) -> Form:
    """The form of a named row type: the text of a row with all columns that ever existed, so that adding and dropping
    columns changes nothing stored."""

    def to_text(value: Any) -> str:
        words = [""] * row.width
        for field, item in zip(row.fields, fitted(value, row), strict=True):
            if item is not None:
                words[field.place] = quote_field(_field_form(field).to_inlined(item))
        return "(" + ",".join(words) + ")"

    def from_text(text: str) -> Any:
        words = list(split_record(text))
        given = [words[field.place] if field.place < len(words) else None for field in row.fields]
        values = [
            None if word is None else _field_form(field).from_inlined(word)
            for field, word in zip(row.fields, given, strict=True)
        ]
        return Record(values, row.types, row.names)

    return _kept_as_text(typoid, -1, "varchar", to_text, from_text, "none")


def row_array_form(typoid: int, of: Form) -> Form:
    """The form of arrays of rows that are kept as text, with the rows as `row_form` keeps them."""

    def to_text(value: PgArray) -> str:
        words = [None if item is None else of.to_inlined(item) for item in value.items]
        return str(writer(oids.TEXT_ARRAY)(PgArray(oids.TEXT, value.dims, value.lbounds, tuple(words)), STORED_STYLE))

    def from_text(text: str) -> PgArray:
        texts = reader(oids.TEXT_ARRAY)(text, -1, STORED_STYLE)
        items = [None if word is None else of.from_inlined(word) for word in texts.items]
        return PgArray(of.typoid, texts.dims, texts.lbounds, tuple(items))

    return _kept_as_text(typoid, -1, "varchar", to_text, from_text, "none")


def _field_form(field: RowField) -> Form:
    typoid, typmod = base_type_and_typmod(field.type, field.typmod)
    element = element_type(typoid)
    row = field.row or composite_type(base_type(element) if element else typoid)
    if row is None:
        return text_form(typoid, typmod)
    return row_array_form(typoid, row_form(element, row)) if element else row_form(typoid, row)


def _string_form(typoid: int, typmod: int) -> Form:
    return _kept_as_text(typoid, typmod, "varchar", same, same, "full")


def enum_form(typoid: int) -> Form:
    """The form of an enum: its labels as text. Bounds are those of texts and not in the order of labels."""
    stored, names = stored_labels(typoid), labels_of_stored(typoid)
    if not stored:
        return _kept_as_text(typoid, -1, "varchar", same, same, "equal")

    return _kept_as_text(typoid, -1, "varchar", stored.__getitem__, lambda v: names.get(v, v), "equal")


def _bpchar_form(typoid: int, typmod: int) -> Form:
    """The form of char(n): padded, so that equality is that of the padded text. The order differs (a tab sorts before
    a blank)."""
    length = typmod - 4
    sized = (lambda value: value.ljust(length)) if typmod >= 4 else None
    ordered = "equal" if typmod >= 4 else "none"
    return _kept_as_text(typoid, typmod, "varchar", same, same, ordered, sized)


def _json_form(typoid: int, typmod: int) -> Form:
    return _kept_as_text(typoid, typmod, "json", same, same, "none")


def _jsonb_form(typoid: int, typmod: int) -> Form:
    return _kept_as_text(typoid, typmod, "json", str, Jsonb, "none")


def _kept_as_text(
    typoid: int,
    typmod: int,
    lake: str,
    to_text: Callable[[Any], str],
    from_text: Callable[[str], Any],
    ordered: str,
    sized: Callable[[Any], Any] | None = None,
) -> Form:
    def from_array(array: pa.Array) -> list[Any]:
        values = _values(array)
        return values if from_text is same else [None if v is None else from_text(v) for v in values]

    return Form(
        typoid=typoid, typmod=typmod, lake=lake, spark="STRING", arrow=lambda: arrow_type("string"), to_arrow=to_text,
        from_arrow=from_text, from_array=from_array, to_stat=to_text, from_stat=from_text, from_raw=_raw_text,
        to_inlined=to_text, from_inlined=from_text, ordered=ordered, sized=sized,
    )  # fmt: skip


def _raw_text(value: Any, scale: int) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


# --- binary, uuid -------------------------------------------------------------------------------------------------


def _bytea_form(typoid: int, typmod: int) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake="blob", spark="BINARY", arrow=lambda: arrow_type("binary"), to_arrow=same,
        from_arrow=bytes, from_array=_values, to_stat=lambda v: v.hex().upper(), from_stat=bytes.fromhex,
        from_raw=same_raw, to_inlined=same, from_inlined=bytes, ordered="equal",
    )  # fmt: skip


def _uuid_form(typoid: int, typmod: int) -> Form:
    return Form(
        typoid=typoid, typmod=typmod, lake="uuid", spark="BINARY", arrow=lambda: arrow_type("uuid"),
        to_arrow=lambda v: v.bytes, from_arrow=_read_uuid, from_array=_uuids, to_stat=str, from_stat=UUID,
        from_raw=lambda v, scale: UUID(bytes=v), to_inlined=str, from_inlined=UUID,
    )  # fmt: skip


def _read_uuid(value: Any) -> UUID:
    return UUID(bytes=bytes(value)) if isinstance(value, (bytes, bytearray)) else UUID(str(value))


def _uuids(array: pa.Array) -> list[Any]:
    return [None if v is None else _read_uuid(v) for v in _values(array)]


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
    oids.DATE: date_form,
    oids.TIME: time_form,
    oids.TIMESTAMP: timestamp_form,
    oids.TIMESTAMPTZ: timestamp_form,
}  # fmt: skip
