"""The character set of what the shell reads and prints: that of the client's encoding, as psql's pset.encoding.

Bytes that are no characters become lone surrogates, and are printed as the bytes they were.
"""

from __future__ import annotations

import codecs

_UTF8 = "utf-8"
_now = [_UTF8]  # Python's name of it


def decoded(raw: bytes) -> str:
    return raw.decode(_now[0], "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text; a character that the encoding does not have is a question mark."""
    if text.isascii():
        return text.encode()
    return text.encode(_now[0], "surrogateescape" if _now[0] == _UTF8 else _QUESTION)


def follow(codec: str) -> None:
    """Read and print in another character set from now on."""
    _now[0] = codec


def is_utf8() -> bool:
    return _now[0] == _UTF8


_QUESTION = "pgrepl_shell"


def _bytes_or_question_marks(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    wrong = error.object[error.start : error.end]
    return b"".join([bytes([ord(c) - 0xDC00]) if "\udc80" <= c <= "\udcff" else b"?" for c in wrong]), error.end


codecs.register_error(_QUESTION, _bytes_or_question_marks)
