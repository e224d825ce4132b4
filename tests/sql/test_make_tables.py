"""The yacc rules of precedence, on small grammars; and that the shipped tables belong to the grammar."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.datums import builder
from pgrepl.sql import parser as tables
from pgrepl.sql.building import BUILDERS, build
from pgrepl.sql.make_tables import (
    Grammar,
    GrammarConflict,
    fingerprint,
    make,
    plpgsql_source,
    read_directives,
    source,
)
from pgrepl.sql.parser import Parser

HEAD = """
%declare ICONST IDENT
start: expr
"""


def parser(grammar: str) -> Parser:
    return Parser(make(HEAD + grammar, ("start",)))


def run(grammar: str, text: str) -> Any:
    return parser(grammar).parse("start", text, None)


@pytest.fixture(autouse=True)
def _builders() -> Any:
    @build("t_infix")
    def infix(location: int, left: Any, operator: str, right: Any) -> str:
        return f"({left}{operator}{right})"

    @build("t_prefix")
    def prefix(location: int, operator: str, operand: Any) -> str:
        return f"({operator}{operand})"

    @build("t_place", at=2)
    def place(location: int, *children: Any) -> tuple[Any, ...]:
        return (location, *children)

    yield
    for name in ("t_infix", "t_prefix", "t_place"):
        del BUILDERS[name]


ARITHMETIC = """
%left PLUS MINUS
%left STAR
%right CIRCUMFLEX
%nonassoc EQUAL
!expr: expr "+" expr -> t_infix | expr "*" expr -> t_infix | expr "^" expr -> t_infix | expr "=" expr -> t_infix
  | "-" expr -> t_prefix | ICONST
"""


def test_a_tighter_operator_binds_first() -> None:
    assert run(ARITHMETIC, "1+2*3+4") == "((1+(2*3))+4)"


def test_left_and_right_associativity() -> None:
    assert run(ARITHMETIC, "1*2*3") == "((1*2)*3)"
    assert run(ARITHMETIC, "1^2^3") == "(1^(2^3))"


def test_nonassoc_is_an_error_that_default_reductions_do_not_swallow() -> None:
    assert run(ARITHMETIC, "1=2+3") == "((1=2)+3)"
    with pytest.raises(PgError) as caught:
        run(ARITHMETIC, "1=2=3")
    assert (caught.value.message, caught.value.report.position) == ('syntax error at or near "="', 4)


def test_an_alternative_has_the_precedence_of_its_last_terminal_unless_told_otherwise() -> None:
    assert run(ARITHMETIC, "-1*2") == "(-(1*2))"
    assert run(ARITHMETIC + "%right UMINUS\n%prec UMINUS t_prefix\n", "-1*2") == "((-1)*2)"


def test_a_conflict_without_precedence_raises() -> None:
    with pytest.raises(GrammarConflict, match="1 conflicts:\nshift/reduce at PLUS"):
        make(HEAD + '!expr: expr "+" expr -> t_infix | ICONST\n', ("start",))


def test_two_rules_for_one_text_raise() -> None:
    with pytest.raises(GrammarConflict, match=r"reduce/reduce at [$]END"):
        make(HEAD + "expr: one | two\none: ICONST\ntwo: ICONST\n", ("start",))


def test_a_misspelt_key_word_is_refused() -> None:
    with pytest.raises(GrammarConflict, match="the scanner has no SELCT"):
        make(HEAD + '!expr: "SELCT"\n', ("start",))


def test_an_alternative_with_several_children_needs_an_alias() -> None:
    with pytest.raises(GrammarConflict, match="an alternative with 2 children needs an alias"):
        make(HEAD + "expr: ICONST ICONST\n", ("start",))


def test_a_terminal_has_one_precedence() -> None:
    with pytest.raises(GrammarConflict, match="PLUS has two precedences"):
        read_directives("%left PLUS\n%right PLUS\n")


def test_directives_are_taken_out_of_the_text() -> None:
    assert read_directives("%left A B // why\n%prec B x y\n%statement p q\nrule: A\n") == Grammar(
        "\n\n\nrule: A\nstatement: p\n  | q\n", {"A": (1, "left"), "B": (1, "left")}, {"x": "B", "y": "B"}
    )


def test_an_absent_option_is_none_and_a_literal_is_no_child() -> None:
    grammar = 'expr: "SELECT" [ICONST] "FROM" [IDENT] -> t_place\n'
    assert run(grammar, "select from") == (7, None, None)
    assert run(grammar, "select 5 from x") == (7, 5, "x")


def test_an_alias_without_builder_is_refused() -> None:
    with pytest.raises(LookupError, match="no builder for the alias t_unknown"):
        run("expr: ICONST -> t_unknown\n", "1")


def test_a_builder_cannot_ask_for_the_place_of_a_symbol_that_is_not_there() -> None:
    with pytest.raises(AssertionError, match="t_place is built at symbol 2 of 1"):
        run("expr: ICONST -> t_place\n", "1")


def test_a_state_with_a_single_reduction_needs_no_token() -> None:
    """So a fault that a rule finds is reported before a scanner's error behind it."""

    def refuse(location: int, *_: Any) -> None:
        raise PgError("42601", "refused", location=location)

    BUILDERS["t_place"] = (refuse, 1)
    with pytest.raises(PgError, match="refused"):
        run('expr: "(" ICONST ")" -> t_place\n', "(1) 'unterminated")


# ------------------------------------------------------------------------------------------------ the shipped tables


def test_the_tables_belong_to_the_grammar() -> None:
    assert tables.load().fingerprint == fingerprint(source()), "run python -m pgrepl.sql.make_tables"
    assert tables.load(tables.PLPGSQL).fingerprint == fingerprint(plpgsql_source()), (
        "run python -m pgrepl.sql.make_tables"
    )


def test_every_alias_of_the_grammar_has_a_builder() -> None:
    shipped = Parser(tables.load())
    for rule in range(len(shipped.tables.rules)):
        assert shipped.reductions[rule][0] == shipped.tables.rules[rule][1]


def test_every_alias_of_plpgsql_has_a_builder() -> None:
    import_module("pgrepl.plpgsql.function")  # it names the modules that register builders
    shipped = Parser(tables.load(tables.PLPGSQL), builder)
    for rule in range(len(shipped.tables.rules)):
        assert shipped.reductions[rule][0] == shipped.tables.rules[rule][1]


def test_the_tables_load_while_python_counts_to_a_million() -> None:
    """Each command pays it: some 6 of 15 ms, on machines of any speed."""

    def seconds(work: Callable[[], object]) -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    def count() -> None:
        for _ in range(1_000_000):
            pass

    times = [(seconds(tables.load.__wrapped__), seconds(count)) for _ in range(9)]
    assert min(loaded for loaded, _ in times) < min(counted for _, counted in times)


@pytest.mark.slow
def test_making_the_tables_again_gives_the_same() -> None:
    assert make(source()) == tables.load()
