"""A function has one meaning: no two families have the same one, so that it does not matter which is asked first; and
whoever computes it in another form computes a function that there is.

    python -m tests.expr.test_function_families        # the table of forms
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module

from pgrepl import backend
from pgrepl.expr import exchange, functions
from pgrepl.expr.arrow import program
from pgrepl.expr.functions.registry import COLUMNS, SPARK, Context, Family, source_of
from pgrepl.types.builtin import procs, procs_by_name

REGISTERING = (exchange, program)


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


def test_columns_and_spark_have_no_functions_of_their_own() -> None:
    known = {source_of(proc) for proc in procs}
    forms = COLUMNS.keys() | SPARK.keys()
    assert [source for source in forms if source not in known or functions.own(source) is None] == []
    assert len(SPARK) > 100


def table() -> Iterator[str]:
    """A line for each function that needs no catalog: its prosrc, and the forms that it has beside that of rows."""
    for source in sorted({source_of(proc) for proc in procs}):
        if functions.own(source) is not None:
            columns = "columns" if functions.columns_form(source) else ""
            yield f"{source:60} {columns:8} {'Spark' if functions.spark_form(source) else ''}".rstrip()


if __name__ == "__main__":
    print(*table(), sep="\n")
