"""Documents in which a condition on json or jsonb cannot be true are left out, and no others."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pgrepl.expr.arrow.operations import hint
from pgrepl.expr.arrow.program import program_of
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form
from pgrepl.types.text import read_text
from tests.expr.conftest import Place

ITEMS = ["8", "8.0", "8.50", "-8", "80", "0", "8e1", "0.8e1", "80e-1", "1e-1", '"8"', '"a"', '"b c"', '"\\"q"', '"é"',
         '"\\u00e9"', '""', "true", "null", '"true"', "[]", "{}", '["a", 8]', '{"a": 8}',
         '{"a": "8", "k": [1, {"a": true}]}']  # fmt: skip
ASKED = ["a", "8", "8.5", "8.50", "é", "b c", '"q', "", "true", "null", '["a", 8]', "80", "0.1"]


def documents(random: Random) -> list[str]:
    """Each of the items by itself, and in objects and arrays."""
    found = list(ITEMS)
    for _ in range(25):
        one, other = random.choice(ITEMS), random.choice(ITEMS)
        key = random.choice(['"a"', '"k"', '"\\u0061"', '"8"'])
        found += [f'{{{key}: {one}, "x": {other}}}', f"[{one}, {other}]", f'{{"k": {{"a": {one}}}}}']
    return found


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def conditions() -> list[str]:
    texts = [f"{way} = {literal(text)}" for text in ASKED for way in ("a->>'a'", "a->'k'->>'a'", "a->>1", "b->>'a'")]
    tests = [f"a {sign} {literal(text)}::jsonb" for text in ITEMS for sign in ("=", "@>")]
    tests += [
        f"a @> {literal(text)}" for text in ('{"a": 8}', '["a"]', '{"k": {"a": 8.5}}', '[{"a": 8}]', '{"a": "é"}')
    ]
    return (
        texts
        + tests
        + [f"a ? {literal(text)}" for text in ASKED]
        + ["'{\"a\": 8}'::jsonb <@ a", "a ? 'a' AND k / k = 1"]
    )


def test_what_is_left_out(place: Place) -> None:
    place.run("CREATE TABLE t (a jsonb, b json, k int)")
    attributes, texts = place.relation("t").attributes, [*documents(Random(3)), None]
    style = place.session.text_style
    rows: list[tuple[Any, ...]] = [
        (*[None if text is None else read_text(text, a.type, -1, style) for a in attributes[:2]], 1) for text in texts
    ]
    forms = {a.num: form(a.type, a.typmod) for a in attributes}
    columns = {a.num: plain_array(forms[a.num].to_array([row[a.num - 1] for row in rows])) for a in attributes}
    spelled = {**columns, 1: pa.array(texts, pa.string())}  # as another writer may have
    spared = 0
    for condition in conditions():
        expr = place.analyzed(condition)
        evaluate, found = compile(expr, Context(place.session)), program_of(expr, Context(place.session))
        assert found is not None
        wanted = [evaluate(row) is True for row in rows]
        assert found.test(forms)(columns, len(rows)).to_pylist() == wanted, condition
        assert found.test(forms)(spelled, len(rows)).to_pylist() == wanted, condition
        sieve = hint(found.expr)
        spared += 0 if sieve is None else sum(left is False for left in sieve.run(columns).to_pylist())
        assert sieve is None or found.is_quick
    assert spared > 4_000


@pytest.mark.parametrize(
    "condition", ["a @> '{}'", "a ? b::text", "(a->>'a')::int = 1", "a->>'a' <> 'x'", "NOT a ? 'a'"]
)
def test_conditions_of_which_nothing_is_known(place: Place, condition: str) -> None:
    place.run("CREATE TABLE t (a jsonb, b json, k int)")
    assert hint(place.analyzed(condition)) is None
