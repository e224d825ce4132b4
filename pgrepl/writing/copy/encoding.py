"""The character set of a COPY file: bytes to text and back, with PostgreSQL's errors for invalid characters.

A database is UTF-8. As CopyConvertBuf does, reading yields all text before an invalid byte first and raises the error
only then: the marker `\\.` may stand before that byte.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from pgrepl.errors import PgError
from pgrepl.types.encoding import invalid_bytes
from pgrepl.types.encodings import codec, invalid, zero_byte


def decoded(chunks: Iterable[bytes], encoding: str) -> Iterator[str]:
    """The text of a file that comes in pieces."""
    decoder = codecs.getincrementaldecoder(codec(encoding))()
    pending = b""  # what the decoder has not turned into text yet
    for chunk in chunks:
        yield from _decode(decoder, chunk, pending, encoding, final=False)
        pending = decoder.getstate()[0]
    yield from _decode(decoder, b"", pending, encoding, final=True)


def _decode(
    decoder: codecs.IncrementalDecoder, chunk: bytes, pending: bytes, encoding: str, *, final: bool
) -> Iterator[str]:
    wrong: PgError | None = None
    try:
        text = decoder.decode(chunk, final)
    except UnicodeDecodeError:
        text, wrong = _until_invalid(pending + chunk, encoding)
    if "\0" in text:
        text, _, _ = text.partition("\0")
        wrong = zero_byte(encoding)
    if text:
        yield text
    if wrong is not None:
        raise wrong


def _until_invalid(raw: bytes, encoding: str) -> tuple[str, PgError]:
    """The text before the first invalid byte, and the error for that byte."""
    try:
        raw.decode(codec(encoding))
    except UnicodeDecodeError as fault:
        return raw[: fault.start].decode(codec(encoding)), invalid(raw, fault.start, encoding)
    raise AssertionError("no fault found")


def verified(raw: bytes) -> str:
    """Decode a field with bytes from escapes like `\\303\\251`; an error if it is not UTF-8 (pg_verifymbstr)."""
    at = raw.find(b"\0")
    try:
        text = raw.decode()
    except UnicodeDecodeError as fault:
        raise invalid_bytes(raw, min(fault.start, at) if at >= 0 else fault.start) from None
    if at >= 0:
        raise invalid_bytes(raw, at)
    return text
