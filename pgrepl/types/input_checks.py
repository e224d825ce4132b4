r"""What input functions share: errors, limits of nesting and of sizes, classes of letters, and PostgreSQL's character
sets.

    >>> encoding_name("iso-8859-1"), text_to_bytes("é", "LATIN1"), bytes_to_text(b"\xe9", "LATIN1")
    ('LATIN1', b'\xe9', 'é')

Invalid bytes travel as lone surrogates until they are refused with PostgreSQL's message, which names a character by
its bytes.
"""

from __future__ import annotations

import sys

from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa, pc


def invalid_text(typename: str, text: str) -> PgError:
    return PgError("22P02", f'invalid input syntax for type {typename}: "{text}"')


def out_of_range(typename: str, text: str) -> PgError:
    return PgError("22003", f'value "{text}" is out of range for type {typename}')


# --- depth ------------------------------------------------------------------------------------------------------------


_BYTES = 512 if sys.version_info >= (3, 11) else 1024  # of stack that a call may take; most take less than half of it
_USUAL_STACK = 8 << 20
_MOST = 16_000


def use_the_stack() -> None:
    """Let calls nest as deep as the stack allows."""
    try:
        import resource

        stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
        unlimited = stack == resource.RLIM_INFINITY
    except ImportError:  # no such limit is known
        return
    calls = min((_USUAL_STACK if unlimited else stack) // _BYTES, _MOST)
    if calls > sys.getrecursionlimit():
        sys.setrecursionlimit(calls)


def stack_depth_exceeded() -> PgError:
    return PgError(
        "54001",
        "stack depth limit exceeded",
        hint='Increase the configuration parameter "max_stack_depth" (currently 2048kB), '
        "after ensuring the platform's stack depth limit is adequate.",
    )


LETTER = r"[^\x00-@\[-^`{-\x7f]"
LETTER_OR_DIGIT = r"[^\x00-/:-@\[-^`{-\x7f]"
NAME_PART = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
"""A letter, a digit or a dollar sign."""


# --- sizes ------------------------------------------------------------------------------------------------------------


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


# --- encoding ---------------------------------------------------------------------------------------------------------


def is_valid_utf8(text: str) -> bool:
    """Whether a text was decoded from valid UTF-8."""
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def invalid_utf8(text: str) -> PgError | None:
    """The error for a text that was decoded from invalid UTF-8."""
    if is_valid_utf8(text):
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


# --- encodings --------------------------------------------------------------------------------------------------------


# In the order of their numbers (pg_enc)
NAMES = """
    SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3 LATIN4 LATIN5 LATIN6
    LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 ISO_8859_5 ISO_8859_6 ISO_8859_7
    ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U SJIS BIG5 GBK UHC GB18030 JOHAB SHIFT_JIS_2004
""".split()
UTF8, SQL_ASCII = "UTF8", "SQL_ASCII"
_LAST_OF_SERVERS = NAMES.index("KOI8U")  # PG_ENCODING_BE_LAST: the later ones are for clients only
_ALIASES = {
    "abc": "WIN1258", "alt": "WIN866", "iso88591": "LATIN1", "iso885910": "LATIN6", "iso885913": "LATIN7",
    "iso885914": "LATIN8", "iso885915": "LATIN9", "iso885916": "LATIN10", "iso88592": "LATIN2", "iso88593": "LATIN3",
    "iso88594": "LATIN4", "iso88599": "LATIN5", "koi8": "KOI8R", "mskanji": "SJIS", "shiftjis": "SJIS",
    "tcvn": "WIN1258", "tcvn5712": "WIN1258", "unicode": "UTF8", "vscii": "WIN1258", "win": "WIN1251",
    "win932": "SJIS", "win936": "GBK", "win949": "UHC", "win950": "BIG5", "windows1250": "WIN1250",
    "windows1251": "WIN1251", "windows1252": "WIN1252", "windows1253": "WIN1253", "windows1254": "WIN1254",
    "windows1255": "WIN1255", "windows1256": "WIN1256", "windows1257": "WIN1257", "windows1258": "WIN1258",
    "windows866": "WIN866", "windows874": "WIN874", "windows932": "SJIS", "windows936": "GBK", "windows949": "UHC",
    "windows950": "BIG5",
}  # fmt: skip
# Python's names
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
# The most bytes of a character, where it is more than one (pg_wchar_table)
_WIDTHS = {
    "EUC_JP": 3, "EUC_CN": 3, "EUC_KR": 3, "EUC_TW": 4, "EUC_JIS_2004": 3, "UTF8": 4, "MULE_INTERNAL": 4, "SJIS": 2,
    "BIG5": 2, "GBK": 2, "UHC": 2, "GB18030": 4, "JOHAB": 3, "SHIFT_JIS_2004": 2,
}  # fmt: skip


def encoding_name(name: str) -> str | None:
    """The canonical name of a character set, or None (pg_char_to_encoding)."""
    key = _key(name)
    return _ALIASES.get(key) or next((charset for charset in NAMES if _key(charset) == key), None)


def _key(name: str) -> str:
    """Letters and digits only, in lower case (clean_encoding_name)."""
    return "".join(c.lower() for c in name if c.isascii() and c.isalnum())


def of_client(client: str, server: str) -> str:
    """The encoding of a client's texts, from client_encoding and server_encoding: SQL_ASCII converts nothing."""
    return server if client == SQL_ASCII else client


def is_for_servers(encoding: str) -> bool:
    """Whether a database may have it."""
    return NAMES.index(encoding) <= _LAST_OF_SERVERS


def width(encoding: str) -> int:
    """The most bytes that a character takes."""
    return _WIDTHS.get(encoding, 1)


def has_codec(encoding: str) -> bool:
    return encoding in _CODECS


def codec(encoding: str) -> str:
    """Python's name of a character set that has one. client_encoding may be an alias (UNICODE)."""
    codec_name = _CODECS.get(encoding) or _CODECS.get(encoding_name(encoding) or "")
    if codec_name is None:
        raise PgError("42883", f'default conversion function for encoding "{encoding}" to "UTF8" does not exist')
    return codec_name


def is_utf8(encoding: str) -> bool:
    return codec(encoding) == "utf-8"


def bytes_to_text(raw: bytes, encoding: str) -> str:
    """The text that bytes are in a character set."""
    try:
        text = raw.decode(codec(encoding))
    except UnicodeDecodeError as fault:
        raise invalid(raw, fault.start, encoding) from None
    if "\0" in text:
        raise zero_byte(encoding)
    return text


def text_to_bytes(text: str, encoding: str) -> bytes:
    """The bytes of a text in a character set (pg_server_to_any)."""
    try:
        return text.encode(codec(encoding))
    except UnicodeEncodeError as fault:
        raise untranslatable(text[fault.start].encode("utf-8", "surrogateescape"), UTF8, encoding) from None


def untranslatable(raw: bytes, source: str, target: str) -> PgError:
    """The error for a character that another character set does not have."""
    return PgError(
        "22P05",
        f'character with byte sequence {_shown(raw)} in encoding "{source}" has no equivalent in encoding "{target}"',
    )


def invalid(raw: bytes, at: int, encoding: str) -> PgError:
    """The error for the bytes at `at`, which are no character, or one that UTF8 does not have."""
    if is_utf8(encoding):
        return invalid_bytes(raw, at)
    if encoding not in _WIDTHS:
        return untranslatable(raw[at : at + 1], encoding, UTF8)
    return _invalid_bytes(encoding, raw[at : at + (2 if raw[at] >= 0x80 else 1)])


def zero_byte(encoding: str) -> PgError:
    """The error for a byte 0, which no text has."""
    return _invalid_bytes(encoding, b"\0")


def _invalid_bytes(encoding: str, raw: bytes) -> PgError:
    name = UTF8 if encoding == SQL_ASCII else encoding
    return PgError("22021", f'invalid byte sequence for encoding "{name}": {_shown(raw)}')


def _shown(raw: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in raw)
