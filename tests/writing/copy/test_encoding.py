"""Files in other character sets, and bytes that are in none."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import text_to_bytes as encoded
from pgrepl.writing.copy.fields import decoded


def text_of(raw: bytes, encoding: str, piece: int = 1) -> tuple[str, str | None]:
    """What could be read, and the error behind it."""
    found = ""
    try:
        for text in decoded((raw[at : at + piece] for at in range(0, len(raw), piece)), encoding):
            found += text
    except PgError as error:
        return found, error.message
    return found, None


@pytest.mark.parametrize("piece", [1, 2, 100])
@pytest.mark.parametrize(
    ("raw", "encoding", "text", "error"),
    [
        (b"a\xc3\xa9\xe2\x82\xac", "UTF8", "aé€", None),
        (b"ok\n\xffrest", "UTF8", "ok\n", 'invalid byte sequence for encoding "UTF8": 0xff'),
        (b"ok\xc3", "UTF8", "ok", 'invalid byte sequence for encoding "UTF8": 0xc3'),
        (b"a\0b", "UTF8", "a", 'invalid byte sequence for encoding "UTF8": 0x00'),
        (b"\xe9", "LATIN1", "é", None),
        (
            b"a\x81",
            "WIN1252",
            "a",
            'character with byte sequence 0x81 in encoding "WIN1252" has no equivalent in encoding "UTF8"',
        ),
        (b"\x82\xa0", "SJIS", "あ", None),
    ],
)
def test_all_text_before_an_invalid_byte_comes_first(
    raw: bytes, encoding: str, text: str, error: str | None, piece: int
) -> None:
    assert text_of(raw, encoding, piece) == (text, error)


def test_text_that_the_file_cannot_hold() -> None:
    assert encoded("é", "LATIN1") == b"\xe9"
    with pytest.raises(PgError) as caught:
        encoded("a€", "LATIN1")
    assert caught.value.message == (
        'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"'
    )


def test_a_character_set_without_conversion() -> None:
    with pytest.raises(PgError) as caught:
        encoded("a", "EUC_TW")
    assert caught.value.message == 'default conversion function for encoding "EUC_TW" to "UTF8" does not exist'
