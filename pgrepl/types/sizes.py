"""PostgreSQL's limits on the size of values, checked before the memory is allocated."""

from __future__ import annotations

from pgrepl.errors import PgError

MAX_BYTES = 0x3FFFFFFF  # MaxAllocSize
HEADER = 4  # VARHDRSZ, of every text
CHAR_BYTES = 4  # the most that a character takes in UTF-8
_ARRAY_HEADER = 24  # of one dimension
MAX_ITEMS = 134217727  # of an array: MaxArraySize
MAX_ROW = 1664  # entries of a target list or a row: MaxTupleAttributeNumber


def size_of(value: str | bytes) -> int:
    """The size in bytes; for texts far below every limit, the number of characters."""
    size = len(value)
    if isinstance(value, bytes) or value.isascii() or size < MAX_BYTES >> 10:
        return size
    return len(value.encode("utf-8", "surrogatepass"))


def check_length(size: int) -> None:
    """Check a text whose length was asked for."""
    if size + HEADER > MAX_BYTES:
        raise PgError("54000", "requested length too large")


def check_request(size: int) -> None:
    """Check a text that is allocated at once, with its header (palloc)."""
    if size > MAX_BYTES:
        raise PgError("XX000", f"invalid memory alloc request size {size}")


def check_enlarge(size: int, more: int) -> None:
    """Check a text that grows (enlargeStringInfo)."""
    if more >= MAX_BYTES - size:
        raise PgError(
            "54000",
            "out of memory",
            detail=f"Cannot enlarge string buffer containing {size} bytes by {more} more bytes.",
        )


def check_repeated(kept: int, piece: int, count: int) -> None:
    """Check a text that grows by `count` equal pieces; the error reports the first piece that does not fit."""
    if piece and kept + piece * count >= MAX_BYTES:
        fits = (MAX_BYTES - 1 - kept) // piece
        check_enlarge(kept + piece * fits, piece)


def check_array(size: int) -> None:
    """Check the elements of an array in bytes; the array has a header, too."""
    if size > MAX_BYTES:
        raise PgError("54000", f"array size exceeds the maximum allowed ({MAX_BYTES})")
    check_request(size + _ARRAY_HEADER)


def check_items(count: int) -> None:
    if count > MAX_ITEMS:
        raise PgError("54000", f"array size exceeds the maximum allowed ({MAX_ITEMS})")
