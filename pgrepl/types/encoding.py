"""Invalid UTF-8 in input: invalid bytes travel as lone surrogates (`surrogateescape`) until they are refused with
PostgreSQL's message (report_invalid_encoding)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError

if TYPE_CHECKING:
    import pyarrow as pa


def is_utf8(text: str) -> bool:
    """Whether a text was decoded from valid UTF-8."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def invalid_utf8(text: str) -> PgError | None:
    """The error for a text that was decoded from invalid UTF-8."""
    if is_utf8(text):
        return None
    raw = text.encode("utf-8", "surrogateescape")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return invalid_bytes(raw, error.start)
    return None


def invalid_bytes(raw: bytes | bytearray, at: int) -> PgError:
    """The error for the invalid character at `at`; it names all bytes that the character would have."""
    shown = " ".join(f"0x{byte:02x}" for byte in raw[at : at + _claimed_length(raw[at])])
    return PgError("22021", f'invalid byte sequence for encoding "UTF8": {shown}')


def not_text(text: str) -> PgError | None:
    """The error for a program's text that no database can hold: it has a NUL, or half of a surrogate pair."""
    if "\0" in text:
        return nul()
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        return invalid_bytes(text[problem.start].encode("utf-8", "surrogatepass"), 0)
    return None


def nul() -> PgError:
    """The error for a NUL, which no text of a database has."""
    return invalid_bytes(b"\0", 0)


def are_texts(array: pa.Array) -> bool:
    """Whether a column of a file has only texts that a database can hold. Arrow does not look at what others write."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return pc.any(pc.match_substring(array, "\0")).as_py() is not True


def _claimed_length(byte: int) -> int:
    """The length in bytes that a character's first byte announces, as in pg_utf_mblen."""
    for mask, lead, length in ((0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4)):
        if byte & mask == lead:
            return length
    return 1
