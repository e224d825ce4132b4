from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.keywords import fold, truncate
from pgrepl.sql.scanner import scan, tokens


def lexed(text: str) -> list[tuple[str, Any]]:
    found = []
    for terminal, value, _, _ in tokens(text):
        if terminal == "$END":
            break
        found.append((terminal, value))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Select FooBar", [("SELECT", "select"), ("IDENT", "foobar")]),
        ("ÄÖ Straße", [("IDENT", "ÄÖ"), ("IDENT", "straße")]),
        ('"Foo ""Bar"', [("IDENT", 'Foo "Bar')]),
        ('U&"d\\0061t\\+00006f" U&"!0041" UESCAPE \'!\'', [("IDENT", "dato"), ("IDENT", "A")]),
        ("a$b$c _x1", [("IDENT", "a$b$c"), ("IDENT", "_x1")]),
        ("'it''s' ''", [("SCONST", "it's"), ("SCONST", "")]),
        ("'a' -- comment\n 'b'", [("SCONST", "ab")]),
        ("'a' 'b'", [("SCONST", "a"), ("SCONST", "b")]),
        (r"'back\slash'", [("SCONST", "back\\slash")]),
        (r"E'\b\f\n\r\t\v\q\\\'''\101\x42\u0043\U00000044'", [("SCONST", "\b\f\n\r\t\vq\\''ABCD")]),
        (r"E'\xc3\xa9' e'\ud83d\ude00'", [("SCONST", "é"), ("SCONST", "😀")]),
        (r"U&'\D83D\DE00 \\ x'", [("SCONST", "😀 \\ x")]),
        ("$$a'b$$ $x$ $$ $y$ $x$", [("SCONST", "a'b"), ("SCONST", " $$ $y$ ")]),
        ("b'01' X'1f' n'x'", [("BCONST", "b01"), ("XCONST", "x1f"), ("NCHAR", "nchar"), ("SCONST", "x")]),
        ("007 2147483647 2147483648", [("ICONST", 7), ("ICONST", 2147483647), ("FCONST", "2147483648")]),
        ("1_000 0x1_F 0o17 0B11", [("ICONST", 1000), ("ICONST", 31), ("ICONST", 15), ("ICONST", 3)]),
        ("0xFFFFFFFFFF", [("FCONST", "1099511627775")]),
        ("1.5 .5 1. 1e10 1_0.5E-3", [("FCONST", x) for x in ("1.5", ".5", "1.", "1e10", "10.5E-3")]),
        ("1..10", [("ICONST", 1), ("DOT_DOT", ".."), ("ICONST", 10)]),
        ("$1 $23", [("PARAM", 1), ("PARAM", 23)]),
        ("a::b:=c=>d", [("IDENT", "a"), ("TYPECAST", "::"), ("IDENT", "b"), ("COLON_EQUALS", ":="), ("IDENT", "c"),
                        ("EQUALS_GREATER", "=>"), ("IDENT", "d")]),
        ("<= >= <> != < >", [("LESS_EQUALS", "<="), ("GREATER_EQUALS", ">="), ("NOT_EQUALS", "<>"),
                             ("NOT_EQUALS", "<>"), ("LESSTHAN", "<"), ("MORETHAN", ">")]),
        ("*- @- +-+ <--x", [("STAR", "*"), ("MINUS", "-"), ("OP", "@-"), ("PLUS", "+"), ("MINUS", "-"), ("PLUS", "+"),
                            ("LESSTHAN", "<")]),
        ("+/*x*/- =- ~~*", [("PLUS", "+"), ("MINUS", "-"), ("EQUAL", "="), ("MINUS", "-"), ("OP", "~~*")]),
        ("a/* x /* y */ */b--c", [("IDENT", "a"), ("IDENT", "b")]),
        ("( ) [ ]", [("LPAR", "("), ("RPAR", ")"), ("LSQB", "["), ("RSQB", "]")]),
        (", ; : .", [("COMMA", ","), ("SEMICOLON", ";"), ("COLON", ":"), ("DOT", ".")]),
        ("{ \\", [("{", "{"), ("\\", "\\")]),
        ("not in NOT x", [("NOT_LA", "not"), ("IN", "in"), ("NOT", "not"), ("IDENT", "x")]),
        ("nulls first nulls", [("NULLS_LA", "nulls"), ("FIRST", "first"), ("NULLS", "nulls")]),
        ("with time with with", [("WITH_LA", "with"), ("TIME", "time"), ("WITH", "with"), ("WITH", "with")]),
        ("without time", [("WITHOUT_LA", "without"), ("TIME", "time")]),
        ("format json format", [("FORMAT_LA", "format"), ("JSON", "json"), ("FORMAT", "format")]),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: list[tuple[str, Any]]) -> None:
    assert lexed(text) == expected


@pytest.mark.parametrize(
    ("text", "sqlstate", "message", "position", "hint"),
    [
        ("a 'x", "42601", 'unterminated quoted string at or near "\'x"', 3, None),
        ("E'x\\", "42601", 'unterminated quoted string at or near "E\'x\\"', 1, None),
        ('"x', "42601", 'unterminated quoted identifier at or near ""x"', 1, None),
        ('1 ""', "42601", 'zero-length delimited identifier at or near """"', 3, None),
        ("/* /* */", "42601", 'unterminated /* comment at or near "/* /* */"', 1, None),
        ("$a$ $b$", "42601", 'unterminated dollar-quoted string at or near "$a$ $b$"', 1, None),
        ("b'01", "42601", 'unterminated bit string literal at or near "b\'01"', 1, None),
        ("x'01", "42601", 'unterminated hexadecimal string literal at or near "x\'01"', 1, None),
        ("12ab", "42601", 'trailing junk after numeric literal at or near "12ab"', 1, None),
        ("1e5$$", "42601", 'trailing junk after numeric literal at or near "1e5$$"', 1, None),
        ("0b0012", "42601", 'trailing junk after numeric literal at or near "0b0012"', 1, None),
        ("1e+", "42601", 'trailing junk after numeric literal at or near "1e+"', 1, None),
        ("1__0", "42601", 'trailing junk after numeric literal at or near "1__0"', 1, None),
        ("0x", "42601", 'invalid hexadecimal integer at or near "0x"', 1, None),
        ("0o_", "42601", 'invalid octal integer at or near "0o_"', 1, None),
        ("0b", "42601", 'invalid binary integer at or near "0b"', 1, None),
        ("$1a", "42601", 'trailing junk after parameter at or near "$1a"', 1, None),
        ("~" * 64, "42601", f'operator too long at or near "{"~" * 64}"', 1, None),
        (r"E'\u12'", "22025", "invalid Unicode escape", 3, r"Unicode escapes must be \uXXXX or \UXXXXXXXX."),
        (r"E'\ud83dx'", "42601", 'invalid Unicode surrogate pair at or near "x"', 9, None),
        (r"E'\udc00'", "42601", r'invalid Unicode surrogate pair at or near "\udc00"', 3, None),
        (r"E'\u0000'", "42601", r'invalid Unicode escape value at or near "\u0000"', 3, None),
        (r"E'\ud83d", "42601", "invalid Unicode surrogate pair at end of input", 9, None),
        (r"E'a\xe9b'", "22021", 'invalid byte sequence for encoding "UTF8": 0xe9 0x62', None, None),
        (r"E'\000'", "22021", 'invalid byte sequence for encoding "UTF8": 0x00', None, None),
        (r"U&'a\00'", "42601", "invalid Unicode escape", 5, r"Unicode escapes must be \XXXX or \+XXXXXX."),
        (r"U&'\d83d'", "42601", "invalid Unicode surrogate pair", 9, None),
        (r"U&'\0000'", "42601", "invalid Unicode escape value", 4, None),
        ("U&'' UESCAPE 1", "42601", 'UESCAPE must be followed by a simple string literal at or near "1"', 14, None),
        ("U&'' UESCAPE '+'", "42601", "invalid Unicode escape character at or near \"'+'\"", 14, None),
    ],
)  # fmt: skip
def test_errors(text: str, sqlstate: str, message: str, position: int | None, hint: str | None) -> None:
    with pytest.raises(PgError) as caught:
        lexed(text)
    assert caught.value.report == Report("ERROR", sqlstate, message, hint=hint, position=position)


def test_tokens_know_where_they_stand() -> None:
    assert [token[2:] for token in islice(scan("ab  'c' \n+"), 4)] == [(0, 2), (4, 7), (9, 10), (10, 10)]


def test_errors_come_when_their_token_is_reached() -> None:
    source = tokens("a b 'c")
    assert [next(source)[1], next(source)[1]] == ["a", "b"]
    with pytest.raises(PgError):
        next(source)


def test_long_names_are_cut_to_63_bytes_with_a_notice() -> None:
    notices: list[Report] = []
    long, accented = "x" * 70, "é" * 40
    source = tokens(f'{long} "{accented}"', notices.append)
    assert [token[1] for token in islice(source, 2)] == ["x" * 63, "é" * 31]
    assert notices == [
        Report("NOTICE", "42622", f'identifier "{long}" will be truncated to "{"x" * 63}"'),
        Report("NOTICE", "42622", f'identifier "{accented}" will be truncated to "{"é" * 31}"'),
    ]
    assert truncate("x" * 63) == "x" * 63


def test_only_ascii_is_folded() -> None:
    assert fold("ABCÄ") == "abcÄ"
