"""The number that decides which partition of a hash-partitioned table a row is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.types.builtin import amproc, opclass_by_oid

if TYPE_CHECKING:
    from pgrepl.expr.functions.hashing import Hash
    from pgrepl.expr.partition import KeyColumn

SEED = 0x7A5B22367996DCFD  # HASH_PARTITION_SEED
_MASK = 0xFFFFFFFFFFFFFFFF


def hash_function(column: KeyColumn) -> Hash:
    """The hash of a key column's values, by its operator class."""
    from pgrepl.expr.functions.hashing import EXTENDED, hash_of_function

    found = opclass_by_oid(column.opclass)
    oid = 0 if found is None else amproc(found.family, found.intype, found.intype, EXTENDED)
    return hash_of_function(oid, column.type)


def row_hash(functions: Sequence[Hash], values: Sequence[Any]) -> int:
    """As compute_partition_hash_value: NULLs count for nothing."""
    result = 0
    for function, value in zip(functions, values, strict=True):
        if value is not None:
            other = (function(value, SEED) + 0x49A0F4DD15E5A8E3 + (result << 54) + (result >> 7)) & _MASK
            result ^= other  # hash_combine64
    return result
