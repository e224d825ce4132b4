"""Types that Arrow does not compare by itself: what is computed of whole columns is what the evaluator says of each
row."""

from __future__ import annotations

from random import Random

import pytest

from pgrepl.expr.arrow.program import divided, program_of
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import compile
from pgrepl.types.lake_arrays import plain_array
from pgrepl.types.lake_forms import form
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
    "int4range": (["[1,5)", "empty", "(,5)", "[1,)", "(,)", "[2,5)"], EQUAL),
    "daterange": (["[2020-01-01,2020-02-01)", "empty", "(,2020-02-01)"], EQUAL),
    "tsrange": (['["2020-01-01 00:00:00","2020-01-02 00:00:00")', '("2020-01-01 00:00:00",)', "empty"], EQUAL),
    "int[]": (["{}", "{1}", "{1,2}", "{2,1}", "{1,NULL}", "{NULL,1}", "{NULL}"], EQUAL),
    "text[]": (["{}", "{a}", "{a,b}", '{"a b"}', "{NULL}"], EQUAL),
    "float8[]": (["{NaN}", "{1,NaN}", "{0}", "{-0}"], EQUAL),
    "mood[]": (["{sad,ok}", "{happy}", "{}"], EQUAL),
    "interval[]": (['{"1 mon"}', '{"30 days"}', "{}"], EQUAL),
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


def check(place: Place, words: list[str], conditions: list[str], *, by_columns: bool) -> None:
    """Evaluate conditions over the columns a and b of t both ways."""
    session, random = place.session, Random("".join(words))
    attributes = place.relation("t").attributes
    forms = {a.num: form(a.type, a.typmod) for a in attributes}
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
        assert not divided(found.expr)[1] or not by_columns, f"{condition} is evaluated row by row"
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
    "numrange": ["[1.0,2)", "[1,2)", "empty"],
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
