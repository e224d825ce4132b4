"""A function has one meaning: no two families have the same one, so that it does not matter which is asked first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module

from pgrepl import backend
from pgrepl.expr import functions
from pgrepl.expr.functions.registry import Context, Family
from pgrepl.types.builtin import procs_by_name


def families() -> Iterator[Family]:
    for name in functions.FAMILIES:
        yield import_module(f"pgrepl.expr.functions.{name}").implements
    yield from backend.function_families()


def test_no_function_is_in_two_families() -> None:
    sources = Counter(source for family in families() for source, _ in family)
    assert sources["int4pl"] == 1
    assert [source for source, times in sources.items() if times > 1] == []


def test_what_the_catalog_answers_needs_a_session() -> None:
    (proc,) = procs_by_name("pg_get_userbyid")
    assert functions.find(proc, Context()) is None
    assert backend.HOOKS.catalog_function(proc.src) is not None
