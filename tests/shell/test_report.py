"""Errors and notices as libpq words them."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import Report
from pgrepl.shell.formats.table import error_position, message_text

FULL = Report(
    "ERROR", "23505", "duplicate", "detail", "hint", "context", 8, schema="s", table="t", column="c", datatype="d",
    constraint="k",
)  # fmt: skip


def test_the_verbosities() -> None:
    query = "insert into t"
    assert message_text(FULL, query, "default", "errors") == (
        "ERROR:  duplicate\nLINE 1: insert into t\n               ^\nDETAIL:  detail\nHINT:  hint\nCONTEXT:  context\n"
    )
    assert message_text(FULL, query, "terse", "errors") == "ERROR:  duplicate at character 8\n"
    assert message_text(FULL, query, "sqlstate", "errors") == "ERROR:  23505\n"
    assert message_text(FULL, query, "verbose", "never") == (
        "ERROR:  23505: duplicate\nLINE 1: insert into t\n               ^\nDETAIL:  detail\nHINT:  hint\n"
        "SCHEMA NAME:  s\nTABLE NAME:  t\nCOLUMN NAME:  c\nDATATYPE NAME:  d\nCONSTRAINT NAME:  k\n"
    )


def test_a_notice_shows_its_context_only_when_asked() -> None:
    notice = Report("NOTICE", "00000", "note", context="context")
    assert message_text(notice, None, "default", "errors") == "NOTICE:  note\n"
    assert message_text(notice, None, "default", "always") == "NOTICE:  note\nCONTEXT:  context\n"


def test_a_place_without_its_query_is_a_number() -> None:
    assert (
        message_text(FULL, None, "default", "never")
        == "ERROR:  duplicate at character 8\nDETAIL:  detail\nHINT:  hint\n"
    )


@pytest.mark.parametrize(
    ("query", "place", "shown"),
    [
        ("select x", 8, "LINE 1: select x\n               ^\n"),
        ("select x", 9, "LINE 1: select x\n                ^\n"),
        ("select x", 10, ""),
        ("select x", 0, ""),
        ("a\nb x\nc", 5, "LINE 2: b x\n          ^\n"),
        ("a\r\nb x\r\nc", 6, "LINE 2: b x\n          ^\n"),
        ("a\rb x", 5, "LINE 2: b x\n          ^\n"),
        ("a\n", 2, "LINE 1: a\n         ^\n"),
        ("a\n", 3, "LINE 2: \n        ^\n"),
        ("a\tx", 3, "LINE 1: a x\n          ^\n"),
        ("日本 x", 4, "LINE 1: 日本 x\n             ^\n"),
        ("e\u0301 x", 4, "LINE 1: e\u0301 x\n           ^\n"),
        ("x" + "y" * 70, 1, "LINE 1: x" + "y" * 59 + "...\n        ^\n"),
        ("y" * 70 + "x", 71, "LINE 1: ..." + "y" * 59 + "x\n" + " " * 70 + "^\n"),
        ("y" * 50 + "x" + "z" * 50, 51, "LINE 1: " + "y" * 50 + "x" + "z" * 9 + "...\n" + " " * 58 + "^\n"),
        ("y" * 51 + "x" + "z" * 50, 52, "LINE 1: ..." + "y" * 50 + "x" + "z" * 9 + "...\n" + " " * 61 + "^\n"),
    ],
)
def test_the_caret(query: str, place: int, shown: str) -> None:
    assert error_position(query, place) == shown
