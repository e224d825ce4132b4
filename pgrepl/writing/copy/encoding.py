"""The character set of a COPY file: bytes to text and back, with PostgreSQL's errors for invalid characters.

A database is UTF-8. As CopyConvertBuf does, reading yields all text before an invalid byte first and raises the error
only then: the marker `\\.` may stand before that byte.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from pgrepl.errors import PgError
from pgrepl.types.encoding import invalid_bytes

# Python's names of PostgreSQL's character sets
_CODECS = {
    "UTF8": "utf-8", "SQL_ASCII": "utf-8", "LATIN1": "latin-1", "LATIN2": "iso8859-2", "LATIN3": "iso8859-3",
    "LATIN4": "iso8859-4", "LATIN5": "iso8859-9", "LATIN6": "iso8859-10", "LATIN7": "iso8859-13",
    "LATIN8": "iso8859-14", "LATIN9": "iso8859-15", "LATIN10": "iso8859-16", "ISO_8859_5": "iso8859-5",
    "ISO_8859_6": "iso8859-6", "ISO_8859_7": "iso8859-7", "ISO_8859_8": "iso8859-8", "WIN866": "cp866",
    "WIN874": "cp874", "WIN1250": "cp1250", "WIN1251": "cp1251", "WIN1252": "cp1252", "WIN1253": "cp1253",
    "WIN1254": "cp1254", "WIN1255": "cp1255", "WIN1256": "cp1256", "WIN1257": "cp1257", "WIN1258": "cp1258",
    "KOI8R": "koi8-r", "KOI8U": "koi8-u", "EUC_JP": "euc-jp", "EUC_CN": "gb2312", "EUC_KR": "euc-kr",
    "EUC_JIS_2004": "euc-jis-2004", "SHIFT_JIS_2004": "shift-jis-2004", "SJIS": "cp932", "BIG5": "cp950",
    "GBK": "cp936", "UHC": "cp949", "GB18030": "gb18030", "JOHAB": "johab",
}  # fmt: skip
_MULTIBYTE = frozenset(
    ("EUC_JP", "EUC_CN", "EUC_KR", "EUC_JIS_2004", "SHIFT_JIS_2004", "SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB")
)


def codec(encoding: str) -> str:
    """Python's name of a character set that has one."""
    found = _CODECS.get(encoding)
    if found is None:
        raise PgError("42883", f'default conversion function for encoding "{encoding}" to "UTF8" does not exist')
    return found


def is_utf8(encoding: str) -> bool:
    return codec(encoding) == "utf-8"


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
        wrong = invalid_bytes(b"\0", 0) if is_utf8(encoding) else PgError("22021", _invalid(encoding, b"\0"))
    if text:
        yield text
    if wrong is not None:
        raise wrong


def _until_invalid(raw: bytes, encoding: str) -> tuple[str, PgError]:
    """The text before the first invalid byte, and the error for that byte."""
    try:
        raw.decode(codec(encoding))
    except UnicodeDecodeError as fault:
        return raw[: fault.start].decode(codec(encoding)), _fault(raw, fault.start, encoding)
    raise AssertionError("no fault found")


def _fault(raw: bytes, at: int, encoding: str) -> PgError:
    if is_utf8(encoding):
        return invalid_bytes(raw, at)
    if encoding not in _MULTIBYTE:
        return PgError(
            "22P05",
            f'character with {_bytes(raw[at : at + 1])} in encoding "{encoding}" has no equivalent in encoding "UTF8"',
        )
    return PgError("22021", _invalid(encoding, raw[at : at + (2 if raw[at] >= 0x80 else 1)]))


def _invalid(encoding: str, raw: bytes) -> str:
    return f'invalid byte sequence for encoding "{encoding}": {" ".join(f"0x{byte:02x}" for byte in raw)}'


def _bytes(raw: bytes) -> str:
    return f"byte sequence {' '.join(f'0x{byte:02x}' for byte in raw)}"


def encoded(text: str, encoding: str) -> bytes:
    """Text for a file in another character set (pg_server_to_any)."""
    try:
        return text.encode(codec(encoding))
    except UnicodeEncodeError as fault:
        shown = _bytes(text[fault.start].encode())
        raise PgError(
            "22P05", f'character with {shown} in encoding "UTF8" has no equivalent in encoding "{encoding}"'
        ) from None


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
