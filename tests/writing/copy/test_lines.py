"""Where the lines of a COPY file end, however it comes in pieces."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.lines import CopyLines

TEXT = CopyOptions()
CSV = CopyOptions("csv", delimiter=",", null="", quote='"', escape='"')
ESCAPED = CopyOptions("csv", delimiter=",", null="", quote='"', escape="\\")


def lines(text: str, options: CopyOptions = TEXT, *, piece: int = 1000, from_client: bool = False) -> list[object]:
    """Each line with its number; an error with the number it happened at."""
    pieces = (text[at : at + piece] for at in range(0, len(text), piece))
    reader = CopyLines(pieces, options, from_client=from_client)
    found: list[object] = []
    try:
        for line in reader:
            found.append((reader.number, line))
    except PgError as error:
        found.append((reader.number, error.message, error.report.hint))
    return found


RETURN = ("literal carriage return found in data", 'Use "\\r" to represent carriage return.')
NEWLINE = ("literal newline found in data", 'Use "\\n" to represent newline.')
UNQUOTED_RETURN = ("unquoted carriage return found in data", "Use quoted CSV field to represent carriage return.")


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        ("", TEXT, []),
        ("\n", TEXT, [(1, "")]),
        ("a\nb", TEXT, [(1, "a"), (2, "b")]),
        ("a\nb\n\nc\n", TEXT, [(1, "a"), (2, "b"), (3, ""), (4, "c")]),
        ("a\r\nb\r\n", TEXT, [(1, "a"), (2, "b")]),
        ("a\rb\r", TEXT, [(1, "a"), (2, "b")]),
        ("a\nb\r\n", TEXT, [(1, "a"), (2, *RETURN)]),
        ("a\r\nb\nc", TEXT, [(1, "a"), (2, *NEWLINE)]),
        ("a\rb\n", TEXT, [(1, "a"), (2, *NEWLINE)]),
        ("a\r\nb\rc\r\n", TEXT, [(1, "a"), (2, *RETURN)]),
        ("a\\\nb\nc\n", TEXT, [(1, "a\\\nb"), (2, "c")]),
        ("x\na\\\nb\n", TEXT, [(1, "x"), (2, "a\\\nb")]),
        ("a\\\\\nb\n", TEXT, [(1, "a\\\\"), (2, "b")]),
        ("a\\", TEXT, [(1, "a\\")]),
        ("a\n\\.\nb\n", TEXT, [(1, "a")]),
        ("a\nb\\.\nc\n", TEXT, [(1, "a"), (2, "b"), (3, "c")]),
        ("a\n\\\\.\nb\n", TEXT, [(1, "a"), (2, "\\\\."), (3, "b")]),
        ("a\n\\.b\n", TEXT, [(1, "a"), (2, "end-of-copy marker corrupt", None)]),
        ("a\n\\.", TEXT, [(1, "a"), (2, "end-of-copy marker corrupt", None)]),
        ("a\r\n\\.\n", TEXT, [(1, "a"), (2, "end-of-copy marker does not match previous newline style", None)]),
        ("a\n\\.\r\n", TEXT, [(1, "a"), (2, "end-of-copy marker does not match previous newline style", None)]),
        ("a\r\n\\.\r\nb", TEXT, [(1, "a")]),
        ('a,"b\nc",d\ne\n', CSV, [(1, 'a,"b\nc",d'), (2, "e")]),
        ('x\na,"b\nc",d\ne\n', CSV, [(1, "x"), (3, 'a,"b\nc",d'), (4, "e")]),
        ('x\n"a""\n"\ny\n', CSV, [(1, "x"), (3, '"a""\n"'), (4, "y")]),
        ('x\r\n"a\r\nb"\r\ny\r\n', CSV, [(1, "x"), (3, '"a\r\nb"'), (4, "y")]),
        ('x\n"a\rb"\ny\r', CSV, [(1, "x"), (2, '"a\rb"'), (3, *UNQUOTED_RETURN)]),
        ('x\n"open\n', CSV, [(1, "x"), (3, '"open\n')]),
        ("x\n\\.\ny\n", CSV, [(1, "x")]),
        ("x\n\\.y\nz\n", CSV, [(1, "x"), (2, "\\.y"), (3, "z")]),
        ("x\ny\\.\n", CSV, [(1, "x"), (2, "y\\.")]),
        ("x\n\\.", CSV, [(1, "x"), (2, "\\.")]),
        ('x\n"a\\"\nb"\nc\n', ESCAPED, [(1, "x"), (3, '"a\\"\nb"'), (4, "c")]),
        ('x\n"a\\\\"\nb\n', ESCAPED, [(1, "x"), (2, '"a\\\\"'), (3, "b")]),
    ],
)
def test_lines(text: str, options: CopyOptions, found: list[object], piece: int) -> None:
    assert lines(text, options, piece=piece) == found


def test_a_file_goes_on_behind_a_marker_that_ends_a_line_of_data_and_a_client_does_not() -> None:
    assert lines("a\\.\nb\n") == [(1, "a"), (2, "b")]
    assert lines("a\\.\nb\n", from_client=True) == [(1, "a")]


def test_a_quote_that_is_open_in_one_piece_may_close_in_another() -> None:
    text = "first\n" + '"a\n' * 5 + "plain\n" * 5
    assert lines(text, CSV, piece=7) == lines(text, CSV)
