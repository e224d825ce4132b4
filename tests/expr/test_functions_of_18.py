"""Executors compute what the release that is spoken says."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.expr import tree
from pgrepl.expr.exchange.worker import loaded, run_program
from pgrepl.expr.functions.registry import Context
from pgrepl.types import oids
from pgrepl.types.builtin import cast, procs_by_name
from pgrepl.types.lake.forms import form
from pgrepl.types.style import TextStyle
from tests.expr.test_function_forms import answers, program_of

NULL, NUMBER = "null", "5"
LATER = "\u1c89"  # which Unicode 16.0 has assigned


@pytest.mark.parametrize(
    ("release", "wanted"),
    [(17, [(None, "cannot cast jsonb null to type integer"), (5, None)]), (18, [(None, None), (5, None)])],
)
def test_a_cast_of_jsonb_s_null(release: int, wanted: list[Any]) -> None:
    context = Context(None, TextStyle(release=release))
    found = cast(oids.JSONB, oids.INT4)
    assert found is not None
    expr = tree.FuncExpr(oids.INT4, func=found.func, args=(tree.Var(oids.JSONB, attnum=1),))
    program, _ = program_of(expr, context)
    array = form(oids.JSONB, -1).to_array([NULL, NUMBER])
    made = run_program(program, [array])
    errors = made.field("e").to_pylist()
    assert [value for value, _ in wanted] == made.field("v").to_pylist()
    assert [error and wanted[n][1] in error for n, error in enumerate(errors)] == [e and True for _, e in wanted]
    assert [error for _, error in answers(expr, [(NULL,), (NUMBER,)], context)] == errors


@pytest.mark.parametrize("release", [17, 18])
@pytest.mark.parametrize("texts", [["", "é", None, "a\u0378"], ["é", LATER, "\uffff", f"{LATER}\u0378"]])
def test_which_characters_are_assigned(release: int, texts: list[str | None]) -> None:
    context = Context(None, TextStyle(release=release))
    (proc,) = procs_by_name("unicode_assigned")
    expr = tree.FuncExpr(oids.BOOL, func=proc.oid, args=(tree.Var(oids.TEXT, attnum=1),))
    program, _ = program_of(expr, context)
    made = run_program(program, [form(oids.TEXT, -1).to_array(texts)])
    wanted = [None if text is None else text in ("", "é") or (text == LATER and release == 18) for text in texts]
    assert made.field("v").to_pylist() == wanted
    assert [value for value, _ in answers(expr, [(text,) for text in texts], context)] == wanted
    assert loaded(program).by_columns is not None
