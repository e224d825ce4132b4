"""Text that is no UTF-8: bytes from outside travel as lone surrogates (`surrogateescape`) until somebody must refuse
them, and every refusal reads as PostgreSQL's report_invalid_encoding words it."""

from __future__ import annotations

from pgrepl.errors import PgError


def is_utf8(text: str) -> bool:
    """Whether the text was made of valid UTF-8."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def invalid_utf8(text: str) -> PgError | None:
    """The error for text that was made of bytes that are no UTF-8."""
    if is_utf8(text):
        return None
    raw = text.encode("utf-8", "surrogateescape")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return invalid_bytes(raw, error.start)
    return None


def invalid_bytes(raw: bytes | bytearray, at: int) -> PgError:
    """The error names all bytes that the character would have that begins at `at`."""
    shown = " ".join(f"0x{byte:02x}" for byte in raw[at : at + _claimed_length(raw[at])])
    return PgError("22021", f'invalid byte sequence for encoding "UTF8": {shown}')


def _claimed_length(byte: int) -> int:
    """How many bytes a character takes that starts with this one, as pg_utf_mblen tells it."""
    for mask, lead, length in ((0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4)):
        if byte & mask == lead:
            return length
    return 1
