"""Checksums of parts put together: the CRC-32 of two stretches of bytes from those of each (zlib's crc32_combine)."""

from __future__ import annotations

_POLYNOMIAL = 0xEDB88320


def combined(first: int, second: int, size: int) -> int:
    """The checksum of bytes with the checksum `first`, and behind them `size` bytes with the checksum `second`.

    >>> import zlib
    >>> combined(zlib.crc32(b"first"), zlib.crc32(b"second"), 6) == zlib.crc32(b"firstsecond")
    True
    """
    one_bit = [_POLYNOMIAL, *[1 << n for n in range(31)]]  # what a zero bit behind does, a column for each bit
    operator = _squared(_squared(_squared(one_bit)))  # a byte
    while size:
        if size & 1:
            first = _applied(operator, first)
        operator = _squared(operator)
        size >>= 1
    return first ^ second


def _applied(matrix: list[int], vector: int) -> int:
    """The product over bits."""
    found = 0
    for n in range(32):
        if vector >> n & 1:
            found ^= matrix[n]
    return found


def _squared(matrix: list[int]) -> list[int]:
    return [_applied(matrix, column) for column in matrix]
