"""Values of keys so that those are equal which the type says are equal.

Most types keep equal values alike. Of character(n) trailing blanks do not count, numeric is kept as text where the
column says no scale, and of the floats there are two zeros and many that are no number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.engine import Declined
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
    """Is what is equal as it is kept exactly what the type says is equal?"""
    return typoid in _EQUAL_AS_KEPT or (typoid == oids.NUMERIC and form(typoid, typmod).lake.startswith("decimal"))


def comparable(column: LakeColumn, array: pa.Array) -> pa.Array:
    """Values of a column of one of the KEY_TYPES, or others in their place that are equal exactly when these are."""
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
    values = array.fill_null(0).to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)  # of -0 it makes 0
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(np.int32 if values.itemsize == 4 else np.int64), mask=~known)
