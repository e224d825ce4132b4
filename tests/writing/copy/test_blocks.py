"""What Arrow makes of a block of lines is what reading it line by line gives, or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.lake.column_values import values_of
from pgrepl.types.lake.forms import form
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text
from pgrepl.writing.copy import text_columns as module
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.fields import decoded
from pgrepl.writing.copy.reader import CopyColumn, CopyReader
from pgrepl.writing.copy.text_columns import Splitter, Unusual, blocks, header_end

TEXT = CopyOptions()
CSV = CopyOptions("csv", delimiter=",", null="", quote='"', escape='"')
STYLE = TextStyle(timezone="GMT")


def by_lines(raw: bytes, options: CopyOptions, columns: list[CopyColumn]) -> list[list[Any]]:
    return list(CopyReader("t", columns, options, decoded([raw], "UTF8"), STYLE).rows())


def split(raw: bytes, options: CopyOptions, columns: int) -> list[list[str | None]]:
    return [list(row) for row in zip(*[a.to_pylist() for a in Splitter(options, columns).split(raw)], strict=True)]


PIECES = ["a", "é", ",", "\t", '"', '""', "\n", "\r\n", "\\", "\\N", "\\.", "\\t", " ", "1", '"x"', '\n"a,b",c\n']


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join), st.booleans(), st.integers(1, 2))
@example('x,"a""b"\n"c\nd",\n', True, 2)
@example('a""b,c\n', True, 2)
@example('"a"b,c"d"\n', True, 2)
@example("a\tb\\\tc\n", False, 2)
@example("a\\\nb\n", False, 1)
@example("\\\\N\t\\N\n", False, 2)
@example("\\\\a\t\\N\nb\\\\\tc\\\\\\\\\n\\\\\t\n", False, 2)
@example("a\\\tb\n\\x\tc\n", False, 2)
@example("\n\n", True, 2)
@example('"a\n', True, 1)
@example('"x",', True, 2)
def test_arrow_sees_the_same_fields(text: str, csv: bool, columns: int) -> None:
    options = CSV if csv else TEXT
    try:
        found = split(text.encode(), options, columns)
    except Unusual:
        return
    assert found == by_lines(text.encode(), options, [CopyColumn(f"c{n}", oids.TEXT) for n in range(columns)])


@pytest.mark.parametrize(
    ("raw", "options", "rows"),
    [
        (b"1\tx\n2\t\\N\n", TEXT, [["1", "x"], ["2", None]]),
        (b"1\ta\\tb\\\\c\n", TEXT, [["1", "a\tb\\c"]]),
        (b'1,"a, b"\n2,\n3,""\n', CSV, [["1", "a, b"], ["2", None], ["3", ""]]),
        (b'1,"say ""a"""\r\n2,"x\r\ny"\r\n', CSV, [["1", 'say "a"'], ["2", "x\r\ny"]]),
    ],
)
def test_usual_files_are_not_unusual(raw: bytes, options: CopyOptions, rows: list[Any]) -> None:
    assert split(raw, options, 2) == rows


WORDS = {
    (oids.INT4, -1): ["1", "-1", "+1", "007", "0x1F", " 1", "1_0", "2147483648", "1e3", "", "-0"],
    (oids.INT2, -1): ["1", "-32768", "0xFF", "40000"],
    (oids.FLOAT8, -1): ["1e400", "1e-400", "inf", "nan", "1.", ".5", "+1", " 1", "1e5", "0", "-0", "0.1", "5e-324"],
    (oids.FLOAT4, -1): ["0.1", "1e-40", "1e39", "16777217"],
    (oids.NUMERIC, (8 << 16 | 2) + 4): ["1", "1.255", "-0", "1e3", "+5", ".5", "5.", "1E-1", "1000000", "x"],
    (oids.NUMERIC, -1): ["1", "-0", "-0.00", "007", "1.50", "1e3", "NaN", "-12.340", "."],
    (oids.BOOL, -1): ["t", "f", "true", "TRUE", "yes", "o", "on", "2", "1"],
    (oids.DATE, -1): ["2020-01-01", "2020-1-1", "0001-01-01", "20200101", "2020-02-30", "infinity", "01/02/2020",
                      "0000-01-01", "0099-12-31", "0100-01-01"],
    (oids.TIMESTAMP, -1): ["2020-01-01 12:30:59.123456", "2020-01-01T12:30:59", "2020-01-01", "2020-01-01 24:00:00",
                           "2020-01-01 12:30:60", "2020-01-01 12:30", "1900-01-01 00:00:00.5",
                           "0000-01-01 00:00:00"],
    (oids.TIMESTAMPTZ, -1): ["2020-01-01 12:30:59.5+00", "2020-01-01 12:30:59-05:30", "2020-01-01 12:30:59",
                             "2020-01-01 12:30:59+0530", "2020-01-01 12:30:59 Europe/Paris", "2020-01-01 12:30:59+16",
                             "0000-01-01 00:00:00+00", "0000-01-01 00:00:00", "0001-01-01 00:00:00+05"],
    (oids.UUID, -1): ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
                      "{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "a0eebc99"],
    (oids.VARCHAR, 7): ["abc", "abcd", "ab   ", "äöü"],
    (oids.BPCHAR, 7): ["a", "abc", "abcd"],
    (oids.INTERVAL, -1): ["1 day", "nonsense"],
    (1007, -1): ["{1,2}", "{1", "{}"],
}  # fmt: skip


@pytest.mark.parametrize("kind", WORDS)
def test_values_are_what_the_input_function_reads(kind: tuple[int, int]) -> None:
    """Each word alone, beside NULL, and all good ones together."""
    typoid, typmod = kind
    column = [CopyColumn("c", typoid, typmod)]

    def ours(words: list[str | None]) -> list[str | None]:
        array = values_of(pa.array(words, pa.string()), typoid, typmod, STYLE)
        assert array.type == form(typoid, typmod).to_array([]).type or array.type == getattr(
            form(typoid, typmod).arrow(), "storage_type", None
        )
        return [None if v is None else write_text(v, typoid) for v in form(typoid, typmod).from_array(array)]

    good: list[str | None] = []
    for word in WORDS[kind]:
        try:
            ((value,),) = by_lines(f"{word}\n".encode(), replace(TEXT, null="-"), column)
        except PgError:
            with pytest.raises(PgError):
                ours([word, None])
            continue
        good.append(word)
        assert ours([word, None]) == [write_text(value, typoid), None]
    ours(good)


@pytest.mark.parametrize("options", [TEXT, CSV], ids=["text", "csv"])
def test_blocks_end_between_lines(options: CopyOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIZE", 10)
    raw = b'1,"a\nb"\n2,"c\n\nd ""\n"\n3,x\n' * 5 + b"4,end"
    pieces = [raw[at : at + 3] for at in range(0, len(raw), 3)]
    found = list(blocks(pieces, options))
    assert b"".join(found) == raw and len(found) > 3
    for block in found[:-1]:
        assert block.endswith(b"\n") and (not options.csv or block.count(b'"') % 2 == 0)
    assert header_end(b'"a\nb",c\n1,2\n', CSV) == 8
