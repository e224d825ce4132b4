"""Columns of rows become columns of other rows as their texts would, value by value, with what these refuse."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array, storage_type
from pgrepl.types.lake.column_values import through_text
from pgrepl.types.lake.nested_words import words_of
from pgrepl.types.lake.structs import file_form
from pgrepl.types.style import TextStyle
from pgrepl.types.text import reader, writer
from pgrepl.types.user_types import Field, Label, TypeData, UserTypes
from tests.types.test_column_values import _type, outcome

WIRE = TextStyle(extra_float_digits=3)


def types(labels: str, a: int, b: int, typmod: int) -> UserTypes:
    """A row type with an attribute of each kind, an array of it, and a domain over it."""
    named = tuple([Label(name, n, f"old {name}" if name == "sad" else name) for n, name in enumerate(labels.split())])
    return UserTypes(
        (
            TypeData(_type(20000, "mood", "e", "E", array=20001), named),
            TypeData(_type(20001, "_mood", "b", "A", elem=20000)),
            TypeData(_type(20002, "inside", "c", "C", array=20003), fields=(
                Field(0, "x", oids.INT4, -1), Field(1, "m", 20000, -1), Field(2, "ms", 20001, -1),
            ), width=3),
            TypeData(_type(20003, "_inside", "b", "A", elem=20002)),
            TypeData(_type(20004, "row", "c", "C", array=20005), fields=(
                Field(0, "a", a, -1), Field(1, "i", 20002, -1), Field(3, "ii", 20003, -1), Field(4, "b", b, typmod),
                Field(5, "f", oids.FLOAT8, -1), Field(6, "z", oids.TIMESTAMPTZ, -1), Field(7, "u", oids.UUID, -1),
            ), width=8),
            TypeData(_type(20005, "_row", "b", "A", elem=20004)),
            TypeData(_type(20006, "named", "d", "C", base=20004)),
        )
    )  # fmt: skip


SOURCE = types("sad ok", oids.INT4, oids.TEXT, -1)
TARGETS = {
    "the same": SOURCE,
    "another of the same": types("ok sad", oids.INT4, oids.TEXT, -1),
    "fewer labels": types("ok", oids.INT4, oids.TEXT, -1),
    "text": types("sad ok happy", oids.TEXT, oids.VARCHAR, 8),
    "numbers": types("sad ok", oids.NUMERIC, oids.INT8, -1),
}
ROWS = (
    '(1,"(2,sad,""{ok,NULL}"")","{""(3,ok,)"",NULL}",12,1.5,"2024-02-29 12:00:00+00",'
    "00000000-0000-0000-0000-00000000000a)",
    "(,,,,,,)", "(7,,{},x,NaN,infinity,)", '(1,"(,,{})",,"a ""b\\\\, 12345",0.1,,)', '(1,"(,sad,""{sad,sad}"")",,3,,,)',
)  # fmt: skip
ARRAYS = ("{}", *["{" + '"' + row.replace("\\", "\\\\").replace('"', '\\"') + '",NULL}' for row in ROWS])


def values(typoid: int, words: list[str | None]) -> tuple[Any, Any]:
    kind, read = file_form(typoid, -1), reader(typoid)
    return kind, plain_array(kind.to_array([None if word is None else read(word, -1, WIRE) for word in words]))


def shown(array: Any, target: int) -> str:
    """The values, with NaN."""
    array.validate(full=True)
    kind = file_form(target, -1)
    return repr(kind.from_array(array.cast(storage_type(kind.arrow()))))


def one_by_one(source: int, array: Any, given: Any, target: int) -> str:
    write, read, kind = writer(source), reader(target), file_form(target, -1)
    texts = [None if value is None else write(value, WIRE) for value in given.from_array(array)]
    made = kind.to_array([None if text is None else read(text, -1, WIRE) for text in texts])
    return shown(plain_array(made), target)


def together(source: int, array: Any, given: Any, target: int, style: TextStyle) -> str:
    return shown(through_text(array, (source, -1), given, (target, -1), file_form(target, -1), style), target)


@pytest.mark.parametrize("style", [WIRE, TextStyle(datestyle="German", extra_float_digits=3)], ids=["wire", "German"])
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("oid", [20004, 20005, 20006])
def test_rows_become_other_rows_as_through_their_texts(oid: int, name: str, style: TextStyle) -> None:
    texts = ROWS if oid != 20005 else ARRAYS
    source, target = SOURCE.type_of(oid), TARGETS[name].type_of(oid)
    good: list[str | None] = [None]
    for text in texts:
        given, array = values(source, [text])
        wanted = outcome(partial(one_by_one, source, array, given, target))
        assert outcome(partial(together, source, array, given, target, style)) == wanted, text
        if isinstance(wanted, str):
            good.append(text)
    given, array = values(source, [*good, None, *good])
    for part in (array, array.slice(1), array.slice(0, 0)):
        assert together(source, part, given, target, style) == one_by_one(source, part, given, target)


WORDS = [
    ("{", ['{a,"b c"}', "{}", '{"a\\"b\\\\","\\\\\\""}', '{"{,}"}'], [["a", "b c"], [], ['a"b\\', '\\"'], ["{,}"]]),
    (
        "(",
        ['(,"""",)', '("a\\\\b","x""""y")', '("""")', '("","(,)")'],
        [["", '"', ""], ["a\\b", 'x""y'], ['"'], ["", "(,)"]],
    ),
]


@pytest.mark.parametrize(("opening", "texts", "wanted"), WORDS)
def test_words_that_the_output_functions_quote_are_found(
    opening: str, texts: list[str], wanted: list[list[str]]
) -> None:
    closing = {"{": "}", "(": ")"}[opening]
    found = words_of(pa.array(["x", *texts, "", "x"], pa.large_string()), opening, closing, doubled=opening == "(")
    assert found.is_plain.tolist() == [False, *[True] * len(texts), False, False]
    assert found.counts.tolist() == [0, *map(len, wanted), 0, 0]
    assert found.words.to_pylist() == [word for row in wanted for word in row]
