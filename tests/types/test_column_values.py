"""Texts that become columns together are the values that the input function reads, one by one, and have its errors;
columns are written as the output function writes each value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import PgType, range_by_oid
from pgrepl.types.lake.arrays import plain_array, storage_type
from pgrepl.types.lake.column_text import column_text, written
from pgrepl.types.lake.column_values import values_of
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.lake.structs import file_form
from pgrepl.types.style import STORED_STYLE, TextStyle
from pgrepl.types.text import reader, writer
from pgrepl.types.user_types import Field, Label, TypeData, UserTypes

STYLE = TextStyle(datestyle="ISO, MDY", timezone="GMT", intervalstyle="postgres")


def _type(oid: int, name: str, kind: str, category: str, elem: int = 0, array: int = 0, base: int = 0) -> PgType:
    subscript = "array_subscript_handler" if elem else "-"
    length = 4 if kind == "e" else -1
    return PgType(oid, name, "public", length, kind == "e", kind, category, False, ",", 0, elem, array, *["-"] * 7,
                  subscript, "i", "x" if elem else "p", False, base, -1, 0, 0)  # fmt: skip


USERS = UserTypes(
    (
        TypeData(_type(20000, "mood", "e", "E", array=20001), (Label("sad", 1, "sad"), Label("o k", 2, "ok"))),
        TypeData(_type(20001, "_mood", "b", "A", elem=20000)),
        TypeData(_type(20002, "pair", "c", "C", array=20003), fields=(
            Field(0, "a", oids.INT4, -1), Field(1, "b", oids.TEXT, -1), Field(3, "c", 20000, -1),
        ), width=4),
        TypeData(_type(20003, "_pair", "b", "A", elem=20002)),
        TypeData(_type(20004, "whole", "d", "N", base=oids.INT4)),
        TypeData(_type(20005, "nest", "c", "C", array=20006), fields=(
            Field(0, "p", 20002, -1), Field(1, "ps", 20003, -1), Field(2, "w", 20004, -1), Field(3, "t", 1009, -1),
            Field(4, "y", oids.BYTEA, -1), Field(5, "u", oids.UUID, -1), Field(6, "f", oids.FLOAT8, -1),
        ), width=7),
        TypeData(_type(20006, "_nest", "b", "A", elem=20005)),
    )
)  # fmt: skip
MOOD, MOODS, PAIR, PAIRS, WHOLE, NEST, NESTS = (USERS.type_of(oid) for oid in range(20000, 20007))

INTERVALS = (
    "00:00:00", "01:02:03", "1 day", "2 days", "1 days", "1 mon", "3 mons 4 days", "1 year", "2 years 11 mons 30 days",
    "13 mons", "-1 days", "-00:00:01", "-00:00:00", "1 day 00:00:00", "1 day -00:00:01", "-1 mons +1 day",
    "100:00:00.000001", "1 day 01:02:03.5", "01:02:03.50", "1:02:03", "P1Y", "@ 1 minute", "infinity",
    "9999999 years", "178956970 years", "2147483647 days", "1 hour", "12345:59:59.999999", "1 year 1 day",
    "1 day 1 year",
)  # fmt: skip
ARRAYS = (
    "{}", "{1}", "{1,2}", "{1,NULL,3}", "{null}", "{ 1 , 2 }", '{"1"}', '{1,"NULL"}', "{{1,2},{3,4}}", "[0:1]={1,2}",
    "[1:2]={1,2}", " {1}", "{1} ", "{-5,+7,007}", "{1,,2}", "{1,}", "{", "}", "{1", "", "{1}}", "{1}x", '{"1}', "{1 2}",
    "{2147483648}", '{1"2"}', "{\\1}",
)  # fmt: skip
TEXTS = (
    "{a,b}", '{"a b",c}', '{"",x}', "{ä,€}", '{"a,b","{c}"}', '{a,"b""c"}', '{a,"b\\"c"}', "{a\\,b}", "{a b}", "{a, b}",
    '{"NULL",NULL,NuLl}', '{" a "}', "{{a},{b}}", "{}", '{""}', '{a"b"}', '{"a"b}', "{a{b}", "{(1,x)}", "{\t}", "{''}",
)  # fmt: skip
ROWS = (
    "(1,a,sad)", "(,,)", '(1,"",)', '(1,"a b","o k")', '(1,"a,b)",sad)', '(1,"a""b",)', '(1,"a\\"b",)', "(1,a\\,b,)",
    "( 1 , a ,sad)", "(1, a b ,)", " (1,a,) ", '("1",a,)', '(1,a"b c"d,)', "(x,a,)", "(1,a,glad)", "(1,a)", "(1,a,,)",
    "(1,a,sad", "1,a,sad)", "", "()", "(2147483648,a,)", "(1,(a,)", "(1,NULL,)", '(1,"(",)', '(1,"""",)', '(1,"a""",)',
    '(1,"""a",)', '(1,"\\\\",)', '(1,"a\\\\""b",)', '(1,"a\\",)', '(1,"\v",)', "(1,\v,)", '(1,a"",)', '(1,""a,)',
    '(1,"a" ,)', '(1, "a",)', '(1,"a","o k"', '(1,"a"),)', '(1,a,sad"")', '(1,""","" ,)', '(1,"a\\,b",)', '(1,null,)',
)  # fmt: skip
WORDS: dict[tuple[int, int], tuple[str, ...]] = {
    (oids.INTERVAL, -1): INTERVALS,
    (1007, -1): ARRAYS,
    (1016, -1): ARRAYS,
    (1009, -1): (*TEXTS, *ARRAYS),
    (1231, -1): ("{1.50,NaN}", "{1e3}", "{0,-0.0}"),  # numeric[]
    (1182, -1): ("{2020-01-01,NULL}", '{"2020-01-01"}', "{infinity}", "{2020-02-30}"),  # date[]
    (1187, -1): ('{"1 day",01:00:00}', "{1 day}", '{"1 days"}'),  # interval[]
    (1001, -1): ('{"\\\\x00ff"}', "{abc}", '{""}'),  # bytea[]
    (1014, 7): ('{abc,"a  "}', "{abcd}", "{}"),  # char(3)[]
    (3904, -1): ("[1,5)", "[1,5]", "(1,5)", "empty", "EMPTY", "[1,1)", "[5,1)", "[,5)", "(,5)", "(,)", "[1,)", "[1,]",
                 "[ 1,5)", "[-5,0)", "[007,9)", '["1",5)', "[1,5", "[1,2147483648)", " [1,5) ",
                 "[999999999,1000000000)"),
    (3926, -1): ("[1,5)", "[-9223372036854775808,5)", "[10000000000,20000000000)"),
    (3906, -1): ("[1.5,2)", "(1.5,1.5]", "[1.5,1.5]", "[1.50,1.5]", "[2,1]", "(,2.5]", "[1,NaN]", "(1e3,)", "[1,2)"),
    (3908, -1): ('["2020-01-01 00:00:00","2020-01-02 00:00:00")', "[2020-01-01,2020-01-02)",
                 '("2020-01-01 00:00:00","2020-01-01 00:00:00.5"]', '["2020-02-30 00:00:00",)',
                 '(,"2020-12-31 23:59:59")',
                 '["2020-01-02 00:00:00","2020-01-01 00:00:00")', "empty", "[infinity,)"),
    (3910, -1): ('["2020-01-01 00:00:00+00","2020-01-02 00:00:00+00")', '["2020-01-01 00:00:00+01",)',
                 '["2020-01-01 00:00:00+00","2020-01-01 00:00:00.25+00"]'),
    (3912, -1): ("[2020-01-01,2020-02-01)", "[2020-01-01,2020-01-31]", "[2020-01-31,2020-01-31)", "(,2020-01-01)",
                 "[2020-02-30,)", "(2020-01-01,)", "[infinity,)", "[2019-04-31,)"),
    (oids.TIMETZ, -1): ("01:02:03+00", "01:02:03-00", "01:02:03+05:30", "24:00:00+00", "01:02:03.5-08", "1:02+3",
                        "01:02:03.50+00", "23:59:59.999999+14", "23:59:59+15:59", "01:02:03+00:30", "01:02:03",
                        "01:02:60+00"),
    (oids.TIMETZ, 2): ("01:02:03.456+00", "01:02:03+00"),
    (oids.BIT, 3): ("101", "b101", "xA", "1", "1010", "", "10a"),
    (oids.VARBIT, 3): ("101", "b101", "1", "1010", ""),
    (oids.VARBIT, -1): ("101", "x1F", "", "2"),
    (oids.MACADDR, -1): ("08:00:2b:01:02:03", "08:00:2B:01:02:03", "08002b:010203", "08:00:2b:01:02",
                         "zz:00:2b:01:02:03"),
    (oids.MACADDR8, -1): ("08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03", "x"),
    (oids.INET, -1): ("10.0.0.1", "10.0.0.1/24", "10.0.0.1/32", "10.0.0.1/33", "10.0.0.256", "010.0.0.1", "::1",
                      "::1/64",
                      "10.1", "10.0.0.1/00"),
    (oids.CIDR, -1): ("10.0.0.0/24", "10.0.0.1/24", "10.0.0.1", "10.0.0.1/32", "10.1.0.0/16", "10", "::/0",
                      "0.0.0.0/24"),
    (oids.BYTEA, -1): ("\\x", "\\x00ff", "\\x00FF", "\\x0", "\\xzz", "abc", "a\\\\b", "\\x 00", ""),
    (oids.TIME, -1): ("01:02:03", "24:00:00", "01:02:03.5", "23:59:60", "1:2:3", "25:00:00", "04:05 PM"),
    (oids.JSONB, -1): ('{"a": 1}', '{"b":1,"a":2}', "x"),
    (MOOD, -1): ("sad", "o k", "ok", "glad"),
    (MOODS, -1): ('{sad,"o k"}', "{}", "{sad,NULL}", "{o k}", "{glad}", "{ok}"),
    (PAIR, -1): ROWS,
    (PAIRS, -1): ('{"(1,a,sad)",NULL}', '{"(1,\\"a b\\",)"}', "{}", "{(1)}"),
    (WHOLE, -1): ("1", "x", "0x1F"),
    (NEST, -1): (
        '("(1,""a b"",sad)","{""(1,\\""a\\\\\\\\b\\"",)"",NULL}",7,"{""a b"",NULL,"""",""\\"" ""}","\\\\x00ff",'
        "00000000-0000-0000-0000-00000000000a,1.5)",
        "(,,,,,,)", '("(,,)",{},,{},,,Infinity)', '("(,"""","")",,,,,,)', "((),,,,,,)", '("(1,a,glad)",,,,,,)',
        "(,,,{null},,,)", '(,,,"{""null"",nUll}",,,)', '(,,x,,,,)', '(,"{""(1,(,)""}",,,,,)', '(,,,"{a,\v}",,,)',
        '(,,,"{""\v""}",,,)', '(,"{""(1,\\""\\""\\""\\"",)""}",,,,,)',
    ),
    (NESTS, -1): ('{"(,,,,,,)"}', '{"(\\"(1,\\"\\"a b\\"\\",)\\",,,,,,)",NULL}', "{}", '{"()"}'),
}  # fmt: skip


def outcome(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except PgError as error:
        return error.sqlstate, error.message, error.report.detail


def same(one: Any, other: Any) -> bool:
    return bool(one.equals(other)) if isinstance(one, pa.Array) and isinstance(other, pa.Array) else bool(one == other)


def kind_of(typoid: int, typmod: int) -> Any:
    return file_form(typoid, typmod) if is_row_type(typoid) else form(typoid, typmod)


def one_by_one(typoid: int, typmod: int, words: list[str | None]) -> Any:
    read, kind = reader(typoid), kind_of(typoid, typmod)
    found = plain_array(kind.to_array([None if w is None else read(w, typmod, STYLE) for w in words]))
    return found.cast(storage_type(kind.arrow()))


def together(typoid: int, typmod: int, words: list[str | None]) -> Any:
    kind = kind_of(typoid, typmod)
    return plain_array(values_of(pa.array(words, pa.string()), typoid, typmod, STYLE, kind)).cast(
        storage_type(kind.arrow())
    )


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: f"{int(kind[0])}-{kind[1]}")
def test_columns_of_texts_are_the_values_of_each(kind: tuple[int, int]) -> None:
    typoid, typmod = kind
    good: list[str | None] = [None]
    for word in WORDS[kind]:
        wanted = outcome(partial(one_by_one, typoid, typmod, [word]))
        assert same(outcome(partial(together, typoid, typmod, [word])), wanted), word
        if isinstance(wanted, pa.Array):
            good.append(word)
    random = Random(int(typoid))
    for _ in range(12):
        words = [random.choice(good) for _ in range(random.randrange(40))]
        found = together(typoid, typmod, words)
        found.validate()
        assert found.equals(one_by_one(typoid, typmod, words)), words


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: f"{int(kind[0])}-{kind[1]}")
def test_columns_are_written_as_each_value(kind: tuple[int, int]) -> None:
    typoid, typmod = kind
    good = [w for w in WORDS[kind] if isinstance(outcome(partial(one_by_one, typoid, typmod, [w])), pa.Array)]
    of = kind_of(typoid, typmod)
    array = one_by_one(typoid, typmod, [*good, None])
    write = writer(typoid)
    for style in (STYLE, TextStyle(datestyle="German", timezone="Europe/Berlin", intervalstyle="iso_8601")):
        for part in (array, array.slice(1), array.slice(0, 0)):
            wanted = [None if v is None else write(v, style) for v in of.from_array(part)]
            assert column_text(part, typoid, of, style).to_pylist() == wanted


@pytest.mark.parametrize(
    "kind", [k for k in WORDS if written(k[0]) and k != (oids.TIMETZ, 2)], ids=lambda kind: f"{int(kind[0])}-{kind[1]}"
)
def test_texts_that_are_known_to_be_written_so_stay_the_same(kind: tuple[int, int]) -> None:
    typoid, typmod = kind
    test, read, write = written(typoid), reader(typoid), writer(typoid)
    assert test is not None
    words = [*WORDS[kind], *[_changed(word, seed) for seed in range(30) for word in WORDS[kind]]]
    known = test(pa.array(words, pa.string()), typmod, STYLE).to_pylist()
    assert any(known)
    for word, so in zip(words, known, strict=True):
        if so:
            assert write(read(word, typmod, STYLE), STORED_STYLE) == word


def _changed(word: str, seed: int) -> str:
    random = Random(f"{word}{seed}")
    letters = list(word)
    for _ in range(random.randrange(1, 3)):
        at = random.randrange(len(letters) + 1)
        letters[at : at + random.randrange(2)] = random.choice(
            ["", "0", "1", "9", "5", ".", ":", "-", "+", ",", "s", " ", "\n"]
        )
    return "".join(letters)


def test_ranges_of_user_types_are_not_known() -> None:
    assert range_by_oid(3904) is not None and written(3904) is not None
    assert written(oids.TEXT) is None
