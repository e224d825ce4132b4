"""Key values in a form in which they are equal exactly if the type's equality operator says so.

Equal values of most types are stored alike. But trailing blanks of character(n) do not count, a numeric without a scale
is stored as text, and floats have two zeros and many NaNs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import Declined
from pgrepl.types import oids
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.lake.table import LakeColumn

_EQUAL_AS_KEPT = (oids.INT2, oids.INT4, oids.INT8, oids.TEXT, oids.VARCHAR, oids.UUID, oids.DATE, oids.TIMESTAMP,
                  oids.TIMESTAMPTZ, oids.BOOL, oids.BYTEA)  # fmt: skip
_FLOATS = (oids.FLOAT4, oids.FLOAT8)
KEY_TYPES = (*_EQUAL_AS_KEPT, oids.BPCHAR, oids.NUMERIC, *_FLOATS)
_PLAIN_NUMERIC = r"^(-?(0|[1-9][0-9]*)(\.[0-9]+)?|NaN|-?Infinity)$"


def is_equal_as_kept(typoid: int, typmod: int) -> bool:
    """Are stored values of this type equal exactly if the type's equality operator says so?"""
    return typoid in _EQUAL_AS_KEPT or (typoid == oids.NUMERIC and form(typoid, typmod).lake.startswith("decimal"))


def comparable(column: LakeColumn, array: pa.Array) -> pa.Array:
    """The values of a column of one of the KEY_TYPES, in a form whose equality is the type's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.typoid == oids.BPCHAR:
        return pc.utf8_rtrim(array, " ")
    if column.typoid in _FLOATS:
        return _float_bits(array)
    if column.typoid != oids.NUMERIC or pa.types.is_decimal(array.type):
        return array
    if not pa.types.is_string(array.type) or pc.all(pc.match_substring_regex(array, _PLAIN_NUMERIC)).as_py() is False:
        raise Declined("a key that is no plain number")
    short = pc.replace_substring_regex(array, r"(\.[0-9]*?)0+$", r"\1")
    short = pc.replace_substring_regex(short, r"\.$", "")
    return pc.if_else(pc.equal(short, "-0"), "0", short)


def _float_bits(array: pa.Array) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    known = array.is_valid().to_numpy(zero_copy_only=False)
    values = array.fill_null(0).to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)  # -0 becomes 0
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(np.int32 if values.itemsize == 4 else np.int64), mask=~known)
