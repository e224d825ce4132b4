"""The hash of a partition key, which decides the partition of a row in a hash-partitioned table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np
from pgrepl.types.builtin import amproc, opclass_by_oid

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.expr.catalog_trees import KeyColumn
    from pgrepl.expr.functions.support_functions import Hash

SEED = 0x7A5B22367996DCFD  # HASH_PARTITION_SEED
_MASK = 0xFFFFFFFFFFFFFFFF
_COMBINE = 0x49A0F4DD15E5A8E3


def hash_function(column: KeyColumn) -> Hash:
    """The hash function of a key column, by its operator class."""
    return hash_of_class(column.opclass, column.type)


@lru_cache(maxsize=256)
def hash_of_class(opclass: int, typoid: int) -> Hash:
    from pgrepl.expr.functions.support_functions import EXTENDED, hash_of_function

    row = opclass_by_oid(opclass)
    oid = 0 if row is None else amproc(row.family, row.intype, row.intype, EXTENDED)
    return hash_of_function(oid, typoid)


def row_hash(functions: Sequence[Hash], values: Sequence[Any]) -> int:
    """The hash of a row as compute_partition_hash_value gives it; NULLs do not contribute."""
    result = 0
    for function, value in zip(functions, values, strict=True):
        if value is not None:
            other = (function(value, SEED) + _COMBINE + (result << 54) + (result >> 7)) & _MASK
            result ^= other  # hash_combine64
    return result


def integer_hashes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """row_hash for many keys of one integer column (hashint8extended, which gives the same for int2 and int4)."""

    from pgrepl.expr.functions.support_functions import seeded

    unsigned = values.astype(np.uint64)
    low, high = (unsigned & 0xFFFFFFFF).astype(np.uint32), (unsigned >> np.uint64(32)).astype(np.uint32)
    low ^= np.where(values >= 0, high, ~high)
    a, b, c = (np.full(len(values), word, np.uint32) for word in seeded(4, SEED))
    a += low
    for target, source, bits in ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)):
        words = [a, b, c]
        words[target] = (words[target] ^ words[source]) - _rotated(words[source], bits)
        a, b, c = words
    hashes: npt.NDArray[np.uint64] = (b.astype(np.uint64) << np.uint64(32)) | c.astype(np.uint64)
    hashes += np.uint64(_COMBINE)
    return hashes


def _rotated(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    left, right = words.dtype.type(bits), words.dtype.type(32 - bits)
    rotated: npt.NDArray[np.uint32] = (words << left) | (words >> right)
    return rotated
