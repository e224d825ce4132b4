"""Invalid UTF-8 in input: invalid bytes travel as lone surrogates (`surrogateescape`) until they are refused with
PostgreSQL's message (report_invalid_encoding)."""

from __future__ import annotations

from pgrepl.errors import PgError


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


def not_text() -> PgError:
    """The error for a text of JSON or of a program that no database can hold."""
    return PgError("22021", "a text has a NUL character or half of a surrogate pair")


def invalid_bytes(raw: bytes | bytearray, at: int) -> PgError:
    """The error for the invalid character at `at`; it names all bytes that the character would have."""
    shown = " ".join(f"0x{byte:02x}" for byte in raw[at : at + _claimed_length(raw[at])])
    return PgError("22021", f'invalid byte sequence for encoding "UTF8": {shown}')


def _claimed_length(byte: int) -> int:
    """The length in bytes that a character's first byte announces, as in pg_utf_mblen."""
    for mask, lead, length in ((0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4)):
        if byte & mask == lead:
            return length
    return 1
