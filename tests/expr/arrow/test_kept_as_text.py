"""Types that Arrow does not compare by itself: what is computed of whole columns is what the evaluator says of each
row."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest

from pgrepl.expr.arrow.compiler import with_rows
from pgrepl.expr.arrow.program import divided, program_of
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.lake.structs import file_form, kept_form
from pgrepl.types.text import read_text
from tests.expr.conftest import Place

ORDERED, EQUAL = ("=", "<>", "<", "<=", ">", ">="), ("=", "<>")
TYPES = {
    "mood": (["sad", "ok", "happy"], ORDERED),
    "interval": (["1 mon", "30 days", "720:00:00", "1 day", "24:00:00", "00:00:00", "1 year 2 mons 3 days 04:05:06.07",
                  "00:00:00.000001", "9 mons", "99999 years", "00:00:00.1"], ORDERED),
    "timetz": (["12:00:00+00", "13:00:00+01", "12:00:00.5+00", "07:30:00-04:30", "00:00:00+14", "23:59:59.999999-14"],
               ORDERED),
    "bit(4)": (["0000", "1010", "1011", "1111"], ORDERED),
    "varbit": (["", "0", "1", "10", "100000001", "1000000001", "01111111"], ORDERED),
    "macaddr": (["08:00:2b:01:02:03", "08:00:2b:01:02:04", "ff:00:00:00:00:00"], ORDERED),
    "macaddr8": (["08:00:2b:01:02:03:04:05", "ff:00:00:00:00:00:00:00"], ORDERED),
    "inet": (["10.0.0.1", "10.0.0.1/24", "10.0.0.2/24", "192.168.1.1"], EQUAL),
    "int4range": (["[1,5)", "empty", "(,5)", "[1,)", "(,)", "[2,5)", "[-10,-5)", "[-5,7)", "[1,50)"], ORDERED),
    "daterange": (["[2020-01-01,2020-02-01)", "empty", "(,2020-02-01)"], ORDERED),
    "tsrange": (['["2020-01-01 00:00:00","2020-01-02 00:00:00")', '("2020-01-01 00:00:00",)', "empty"], ORDERED),
    "int8range": (["[1,5)", "[-999999999999999999,)", "(,999999999999999999)", "[10,50)"], ORDERED),
    "numrange": (["[1.0,2)", "[1,2)", "empty", "(1,2]", "[1,2]", "[1.50,1.5]", "[-0.5,0)", "(,1)", "[1,)", "(-1,-0.2)"],
                 ORDERED),
    "tstzrange": (['["2020-02-29 00:00:00+00","2020-03-01 00:00:00.5+00")', '["2020-02-29 00:00:00+00",)', "empty"],
                  ORDERED),
    "int4range[]": (['{"[1,5)"}', '{"[1,5)",empty}', "{NULL}", "{}"], ORDERED),
    "int[]": (["{}", "{1}", "{1,2}", "{2,1}", "{1,NULL}", "{NULL,1}", "{NULL}", "{1,2,NULL}", "{1,2,3}",
               "{1,NULL,3}"], ORDERED),
    "text[]": (["{}", "{a}", "{a,b}", '{"a b"}', "{NULL}"], ORDERED),
    "float8[]": (["{NaN}", "{1,NaN}", "{0}", "{-0}"], ORDERED),
    "mood[]": (["{sad,ok}", "{happy}", "{}"], ORDERED),
    "interval[]": (['{"1 mon"}', '{"30 days"}', "{}"], ORDERED),
}  # fmt: skip
ODD = {  # values that are compared one by one
    "interval": ["-1 days", "infinity", "178000000 years", "1 mon -1 days"],
    "inet": ["::1"],
    "timetz": ["24:00:00+00"],
    "daterange": ["[infinity,)", "[0044-03-15 BC,)"],
}
MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN glad AS mood CHECK (VALUE <> 'sad')",
    "CREATE DOMAIN year AS int NOT NULL CHECK (VALUE > 1900 AND VALUE < 3000)",
)


def check(place: Place, words: list[str], conditions: list[str], *, by_columns: bool, forms: Any = None) -> None:
    """Evaluate conditions over the columns a and b of t both ways."""
    session, random = place.session, Random("".join(words))
    attributes = place.relation("t").attributes
    forms = forms or {a.num: (file_form if is_row_type(a.type) else form)(a.type, a.typmod) for a in attributes}
    rows = [tuple(random.choice([*words, None]) for _ in attributes) for _ in range(60)]
    rows += [(word, word) for word in words]
    values = [
        [None if w is None else read_text(w, a.type, a.typmod, session.text_style) for w in column]
        for a, column in zip(attributes, zip(*rows, strict=True), strict=True)
    ]
    columns = {a.num: plain_array(forms[a.num].to_array(v)) for a, v in zip(attributes, values, strict=True)}
    for condition in conditions:
        expr = place.analyzed(condition)
        evaluate = compile(expr, Context(session))
        wanted = [evaluate(row) is True for row in zip(*values, strict=True)]
        found = program_of(expr, Context(session))
        assert found is not None, condition
        assert not divided(with_rows(found.expr, forms))[1] or not by_columns, f"{condition} is evaluated row by row"
        assert found.test(forms)(columns, len(rows)).to_pylist() == wanted, condition


def conditions(kind: str, words: list[str], signs: tuple[str, ...]) -> list[str]:
    one, other = (f"'{word}'::{kind}" for word in (words[0], words[-1]))
    found = [f"a {sign} {other}" for sign in signs] + [f"{one} {sign} a" for sign in signs]
    found += [f"a {sign} b" for sign in signs]
    found += ["a IS DISTINCT FROM b", f"a IS NOT DISTINCT FROM {one}", f"NOT a = {one}", f"a = {one} OR b <> {other}"]
    if "[]" not in kind:
        found += [f"a IN ({one}, {other})", f"a NOT IN ({one}, NULL)", f"a = ANY (ARRAY[{one}, {other}])"]
    return found


@pytest.mark.parametrize(("kind", "words"), {
    "cidr": ["10.0.0.0/24", "10.1.0.0/16", "10.0.0.1/32"],
    "char(3)[]": ["{a,b}", "{ab}"],
    "numeric(6,2)[]": ["{1.50,2}", "{1.5}"],
    "numrange": ["[1.0,2)", "[NaN,)", "[1234567890123,)"],
    "int4range": ["[1,5)", "[1234567890,)"],
}.items())  # fmt: skip
def test_what_is_compared_one_by_one(place: Place, kind: str, words: list[str]) -> None:
    place.run(f"CREATE TABLE t (a {kind}, b {kind})")
    check(place, words, conditions(kind, words, ORDERED), by_columns=False)


@pytest.mark.parametrize("kind", TYPES)
def test_comparisons(place: Place, kind: str) -> None:
    words, signs = TYPES[kind]
    place.run(*MADE, f"CREATE TABLE t (a {kind}, b {kind})")
    check(place, words, conditions(kind, words, signs), by_columns=True)
    if kind in ODD:
        check(place, words + ODD[kind], conditions(kind, words + ODD[kind], signs), by_columns=False)


ROWS = {
    "pair": ["(1,a)", "(1,)", "(,a)", "(,)", "(2,a)", '(1,"a ")'],
    "near": ["(1,a)", "(,)", "(2,a)"],
    "many": ['(sad,"1 mon","{1,NULL}",1.50,NaN,"ab ","[1,5)",11111111-1111-1111-1111-111111111111,12:00:00+00)',
             '(sad,"30 days","{1,NULL}",1.50,NaN,"ab","[1,5)",11111111-1111-1111-1111-111111111111,12:00:00+00)',
             '(ok,"30 days","{1,NULL}",1.50,NaN,"ab","[1,5)",11111111-1111-1111-1111-111111111111,12:00:00+00)',
             '(ok,"30 days","{1}",1.50,0,"ab",empty,11111111-1111-1111-1111-111111111112,13:00:00+01)',
             '(ok,"30 days","{1}",1.50,-0,"ab",empty,11111111-1111-1111-1111-111111111112,13:00:00+01)',
             "(,,,,,,,,)"],
    "deep": ['("(1,a)",t)', '("(,)",t)', "(,t)", "(,)", '("(1,a)",)', '("(1,b)",f)'],
}  # fmt: skip
MADE_ROWS = (
    *MADE,
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN near AS pair CHECK ((VALUE).a IS NULL OR (VALUE).a < 5)",
    "CREATE TYPE many AS (a mood, b interval, c int[], d numeric(5,2), e float8, f char(4), g int4range, h uuid, "
    "i timetz)",
    "CREATE TYPE deep AS (a pair, b bool)",
)


@pytest.mark.parametrize("kind", ROWS)
def test_rows(place: Place, kind: str) -> None:
    words = ROWS[kind]
    place.run(*MADE_ROWS, f"CREATE TABLE t (a {kind}, b {kind})")
    asked = conditions(kind, words, EQUAL) + ["a IS NULL", "a IS NOT NULL", "NOT a IS NULL", "(a).a IS NULL"]
    asked += [f"a = '{word}'::{kind}" for word in words] + ["(a).b = (b).b", "(a).a IS DISTINCT FROM (b).a"]
    asked += ["b IS NULL OR a = b", f"(a = '{words[0]}'::{kind}) IS NULL", "(a <> b) IS NOT TRUE"]
    check(place, words, asked, by_columns=True)


def test_rows_that_are_made(place: Place) -> None:
    place.run(*MADE_ROWS, "CREATE TABLE t (a pair, b pair)")
    asked = [
        "a = ROW(1, 'a')::pair",
        "ROW(1, NULL)::pair <> b",
        "a = ROW((b).a, 'a')::pair",
        "ROW((a).a, (b).a) IS NULL",
    ]
    asked += [
        "a IN (ROW(1, 'a')::pair, '(2,a)')",
        "a <> ALL (ARRAY['(1,a)', NULL]::pair[])",
        "ROW((a).a, 1)::pair IS NOT NULL",
    ]
    asked += ["a = ROW(1 / (b).a, 'a')::pair"]
    check(place, ROWS["pair"], asked[:3] + asked[4:], by_columns=True)
    check(place, ROWS["pair"], asked, by_columns=False)


class Kept(NamedTuple):
    """A field of a column."""

    name: str
    type: str
    place: int
    fields: tuple[Any, ...] = ()


def test_rows_after_their_type_has_changed(place: Place) -> None:
    """The names of fields have been exchanged, one has been dropped, and one is new."""
    place.run("CREATE TYPE pair AS (a int, b int, c text)", "CREATE TABLE t (a pair, b pair)")
    place.run("ALTER TYPE pair RENAME ATTRIBUTE a TO x", "ALTER TYPE pair RENAME ATTRIBUTE b TO a")
    place.run("ALTER TYPE pair RENAME ATTRIBUTE x TO b", "ALTER TYPE pair DROP ATTRIBUTE c")
    place.run("ALTER TYPE pair ADD ATTRIBUTE c int")
    fields = (Kept("a", "int32", 0), Kept("b", "int32", 1), Kept("c", "varchar", 2), Kept("c_1", "int32", 3))
    kinds = [tuple(sorted(fields, key=lambda kept: kept.place * turn)) for turn in (1, -1)]
    types = [a.type for a in place.relation("t").attributes]
    forms = {n: kept_form(t, -1, None, "struct", kind) for n, (t, kind) in enumerate(zip(types, kinds, strict=True), 1)}
    asked = ["a = '(1,2,)'::pair", "(a).a = 2", "(a).b = 2", "a = b", "(b).c = 3", "a = ROW(2, 1, 3)::pair"]
    check(place, ["(1,2,)", "(2,1,)", "(2,1,3)", "(,,)"], asked, by_columns=True, forms=forms)


def test_rows_that_no_struct_holds(place: Place) -> None:
    place.run(*MADE_ROWS, "CREATE TABLE t (a pair, b pair)")
    forms = {a.num: kept_form(a.type, -1, None, "varchar", ()) for a in place.relation("t").attributes}
    check(place, ROWS["pair"], conditions("pair", ROWS["pair"], EQUAL), by_columns=False, forms=forms)


@pytest.mark.parametrize("way", ["a < b", "a *= b", "a = ROW(1, 'a'::text)"])
def test_rows_that_are_compared_one_by_one(place: Place, way: str) -> None:
    place.run(*MADE_ROWS, "CREATE TABLE t (a pair, b pair)")
    check(place, ROWS["pair"], [way], by_columns=False)


@pytest.mark.parametrize("kind", ["int", "text", "mood", "interval", "float8"])
def test_any_and_all_of_a_column_of_arrays(place: Place, kind: str) -> None:
    words = {
        "int": ["{}", "{1}", "{1,2}", "{NULL,2}", "{NULL}"],
        "text": ["{}", "{a}", "{a,b}", "{NULL,a}"],
        "mood": ["{}", "{sad}", "{sad,ok}", "{NULL,ok}"],
        "interval": ["{}", '{"1 mon"}', '{"30 days",NULL}'],
        "float8": ["{}", "{NaN}", "{1,NaN,NULL}", "{1}"],
    }[kind]
    one = {"text": "'a'", "mood": "'sad'::mood", "interval": "'30 days'::interval"}.get(kind, f"1::{kind}")
    signs = ("=", "<>", "<", ">=")
    place.run(*MADE, f"CREATE TABLE t (a {kind}[], b {kind}[])")
    asked = [f"{one} {sign} {which} (a)" for sign in signs for which in ("ANY", "ALL")]
    asked += [f"NULL::{kind} = ANY (a)", "(a[1] = ANY (b)) IS NULL", f"({one} = ANY (a)) IS NOT FALSE"]
    check(place, words, [each for each in asked if "a[1]" not in each], by_columns=True)
    check(place, words, asked, by_columns=False)


def test_labels_that_were_renamed_are_compared_by_their_place(place: Place) -> None:
    place.run(*MADE, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "ALTER TYPE mood ADD VALUE 'glad' BEFORE 'sad'")
    place.run("CREATE TABLE t (a mood, b mood)")
    words = ["glad", "sad", "fine", "happy"]
    check(place, words, conditions("mood", words, ORDERED), by_columns=True)


def test_casts_to_domains_raise_only_where_they_are_evaluated(place: Place) -> None:
    place.run(*MADE, "CREATE TABLE t (a int, b int)")
    asked = ["a IS NULL OR a < 0 OR a::year > 1950", "CASE WHEN a > 1900 THEN a::year = 2000 ELSE false END"]
    check(place, ["-5", "1901", "2000", "2999"], asked, by_columns=True)
    check(place, ["-5", "7", "1901", "2000"], asked[1:], by_columns=True)
