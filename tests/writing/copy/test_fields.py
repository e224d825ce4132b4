"""The fields of a line."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.fields import DEFAULT, splitter

TEXT = CopyOptions()
CSV = CopyOptions("csv", delimiter=",", null="", quote='"', escape='"')


def fields(line: str, options: CopyOptions, columns: int = 2) -> list[Any]:
    names = [f"c{number}" for number in range(columns)]
    return splitter(options, names, [number == 0 for number in range(columns)])(line)


@pytest.mark.parametrize(
    ("line", "options", "found"),
    [
        ("a\tb", TEXT, ["a", "b"]),
        ("", TEXT, [""]),
        ("\\N\t\\\\N", TEXT, [None, "\\N"]),
        ("\\N1\tx\\N", TEXT, ["N1", "xN"]),
        ("\\b\\f\\n\\r\\t\\v\\q\\\\", TEXT, ["\b\f\n\r\t\vq\\"]),
        ("\\1\\12\\101\\1012\\477", TEXT, ["\x01\nAA2?"]),
        ("\\x4\\x41\\x411\\xg", TEXT, ["\x04AA1xg"]),
        ("\\303\\251\\xe2\\x82\\xac", TEXT, ["é€"]),
        ("a\\\tb\tc", TEXT, ["a\tb", "c"]),
        ("a\\\nb\tc", TEXT, ["a\nb", "c"]),
        ("a\\", TEXT, ["a"]),
        ("a\\\\", TEXT, ["a\\"]),
        ("a||b", CopyOptions(delimiter="|", null=""), ["a", None, "b"]),
        ("\\", CopyOptions(delimiter="|", null=""), [None]),
        ("xA1A\\x4AyA\\A", CopyOptions(delimiter="A"), ["x", "1", "Jy", "A"]),
        ("null\tnull ", CopyOptions(null="null"), [None, "null "]),
        ("a,b", CSV, ["a", "b"]),
        (",", CSV, [None, None]),
        ('"",x', CSV, ["", "x"]),
        ('"a,b","c""d"', CSV, ["a,b", 'c"d']),
        ('a"b,c"d,e', CSV, ["ab,cd", "e"]),
        ('"a"b"c",d', CSV, ["abc", "d"]),
        ('"a\nb",', CSV, ["a\nb", None]),
        (' "a" ,b', CSV, [" a ", "b"]),
        ("\\N,a", CSV, ["\\N", "a"]),
        ('"NULL",NULL', CopyOptions("csv", delimiter=",", null="NULL", quote='"', escape='"'), ["NULL", None]),
        (r'"a\"b\\c\d",e', CopyOptions("csv", delimiter=",", null="", quote='"', escape="\\"), [r'a"b\c\d', "e"]),
        ("'it''s';x", CopyOptions("csv", delimiter=";", null="", quote="'", escape="'"), ["it's", "x"]),
    ],
)
def test_fields(line: str, options: CopyOptions, found: list[Any]) -> None:
    assert fields(line, options) == found


@pytest.mark.parametrize(
    ("options", "line", "found"),
    [
        (CopyOptions(default="D"), "D\tx", [DEFAULT, "x"]),
        (CopyOptions(default="\\D"), "\\D\t\\\\D", [DEFAULT, "\\D"]),
        (CopyOptions("csv", delimiter=",", null="", quote='"', escape='"', default="D"), 'D,"D"', [DEFAULT, "D"]),
        (CopyOptions(default="D"), "x\ty\tD", ["x", "y", "D"]),
    ],
)
def test_a_field_may_ask_for_its_columns_default(options: CopyOptions, line: str, found: list[Any]) -> None:
    assert fields(line, options) == found


@pytest.mark.parametrize(
    ("line", "options", "message", "detail"),
    [
        ('a,"b', CSV, "unterminated CSV quoted field", None),
        (
            "x\tD",
            CopyOptions(default="D"),
            "unexpected default marker in COPY data",
            'Column "c1" has no default value.',
        ),
        ("\\303(", TEXT, 'invalid byte sequence for encoding "UTF8": 0xc3 0x28', None),
        ("a\\0", TEXT, 'invalid byte sequence for encoding "UTF8": 0x00', None),
    ],
)
def test_fields_that_cannot_be_read(line: str, options: CopyOptions, message: str, detail: str | None) -> None:
    with pytest.raises(PgError) as caught:
        fields(line, options)
    assert (caught.value.message, caught.value.report.detail) == (message, detail)


def test_a_line_for_no_columns_is_empty() -> None:
    assert fields("", TEXT, columns=0) == []
    with pytest.raises(PgError, match="extra data after last expected column"):
        fields("x", TEXT, columns=0)
