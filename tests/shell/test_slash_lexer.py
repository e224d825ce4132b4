"""The words of backslash commands."""

from __future__ import annotations

import pytest

from pgrepl.shell.scripts.lexer import Lexer, Quoting, Stop
from pgrepl.shell.scripts.slash_lexer import Argument, SlashLexer, UnterminatedQuote, Word, dequote_identifier

VALUES = {"x": "a b", "q": "it's"}


def lookup(name: str, quoting: Quoting) -> str | None:
    value = VALUES.get(name)
    return value if value is None or quoting == "plain" else f"<{quoting} {value}>"


def reader(line: str) -> SlashLexer:
    lexer = Lexer(lookup, lambda warning: None)
    lexer.begin(line)
    assert lexer.scan()[0] is Stop.BACKSLASH
    return SlashLexer(lexer, lambda: lambda command: f"[{command}]")


def words(line: str, kind: Argument = Argument.NORMAL, *, semicolon: bool = False) -> list[str]:
    slash = reader("\\c " + line)
    assert slash.command() == "c"
    found = []
    while (word := slash.argument(kind, semicolon=semicolon)) is not None:
        found.append(word.text)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("  a\tb  ", ["a", "b"]),
        ("'a b' \"c d\"", ["a b", '"c d"']),
        ("'it''s' a'b c'd", ["it's", "ab cd"]),
        (r"'\n\t\b\r\f\q\\' '\101\x42\7'", ["\n\t\b\r\fq\\", "AB\x07"]),
        (r"'caf\303\251'", ["café"]),
        ("''", [""]),
        (":x :'x' :\"x\" :{?x} :{?y} :y", ["a b", "<literal a b>", "<identifier a b>", "TRUE", "FALSE", ":y"]),
        ("p:x:", ["pa b:"]),
        ("`ls :x :'q'`", ["[ls a b <shell it's>]"]),
        ("a|b |c", ["a|b", "|c"]),
        ("été:x", ["étéa b"]),
        ("a;b; ;", ["a;b;", ";"]),
    ],
)
def test_words(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_trailing_semicolons_are_stripped_where_asked_unless_quoted() -> None:
    assert words("a;; 'b;' c';';", semicolon=True) == ["a", "b;", "c;"]


def test_a_backslash_ends_the_words() -> None:
    slash = reader("\\c a\\b")
    slash.command()
    assert slash.argument() == Word("a", "")
    assert slash.argument() is None
    slash.end()
    assert slash.lexer.scan()[0] is Stop.BACKSLASH


def test_two_backslashes_end_the_command() -> None:
    slash = reader("\\c a \\\\ select 1;")
    slash.command()
    assert [slash.argument(), slash.argument()] == [Word("a", ""), None]
    slash.end()
    assert (slash.lexer.scan()[0], slash.lexer.query.text) == (Stop.SEMICOLON, "select 1;")


def test_the_kind_of_quote_is_known() -> None:
    slash = reader("\\c '-n' -n \"a\" `b` :x")
    slash.command()
    assert [slash.argument().quote for _ in range(5)] == ["'", "", '"', "`", ":"]  # type: ignore[union-attr]


@pytest.mark.parametrize("line", ["'abc", '"abc', "`abc", "a'b c"])
def test_a_quote_must_end_on_its_line(line: str) -> None:
    slash = reader("\\c " + line)
    slash.command()
    with pytest.raises(UnterminatedQuote):
        slash.argument()
    assert slash.argument() is None


def test_whole_lines_and_pipes() -> None:
    assert words("  ls 'a' \\b ; ", Argument.WHOLE_LINE) == ["ls 'a' \\b ; "]
    assert words("ls a ; ", Argument.WHOLE_LINE, semicolon=True) == ["ls a"]
    assert words("|sort -u ; x", Argument.FILE_OR_PIPE) == ["|sort -u ; x"]
    assert words("file x", Argument.FILE_OR_PIPE) == ["file", "x"]


def test_identifiers() -> None:
    assert words('FOO"Bar""x"BAZ "a b"', Argument.SQL_IDENTIFIER) == ['fooBar"xbaz', "a b"]
    assert words('FOO "Bar"', Argument.SQL_IDENTIFIER_HACK) == ["FOO", "Bar"]
    assert dequote_identifier('É"É"', fold=True) == "ÉÉ"
