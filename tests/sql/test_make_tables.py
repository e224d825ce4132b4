"""The yacc rules of precedence, on small grammars; and that the shipped tables belong to the grammar."""

from __future__ import annotations

import ast
import inspect
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.datums import builder
from pgrepl.sql import nodes
from pgrepl.sql import parser as tables
from pgrepl.sql.actions import ActionError, translate
from pgrepl.sql.building import BUILDERS, build
from pgrepl.sql.make_tables import Grammar, GrammarConflict, fingerprint, make, plpgsql_source, read_directives, source
from pgrepl.sql.parser import Parser
from tests.house.trees import nodes_of, tree_of

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
    @build
    def t_infix(location: int, left: Any, operator: str, right: Any) -> str:
        return f"({left}{operator}{right})"

    @build
    def t_prefix(location: int, operator: str, operand: Any) -> str:
        return f"({operator}{operand})"

    @build
    def t_place(location: int, number: Any = None, name: Any = None) -> tuple[Any, ...]:
        return (location, number, name)

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
    unary = ARITHMETIC.replace("-> t_prefix", "%prec UMINUS -> t_prefix")
    assert run(unary + "%right UMINUS\n", "-1*2") == "((-1)*2)"


def test_a_conflict_without_precedence_raises() -> None:
    with pytest.raises(GrammarConflict, match="1 conflicts:\nshift/reduce at PLUS"):
        make(HEAD + '!expr: expr "+" expr -> t_infix | ICONST\n', ("start",))


def test_two_rules_for_one_text_raise() -> None:
    with pytest.raises(GrammarConflict, match=r"reduce/reduce at [$]END"):
        make(HEAD + "expr: one | two\none: ICONST\ntwo: ICONST\n", ("start",))


def test_a_misspelt_key_word_is_refused() -> None:
    with pytest.raises(GrammarConflict, match="the scanner has no SELCT"):
        make(HEAD + '!expr: "SELCT"\n', ("start",))


def test_an_alternative_with_several_children_needs_an_action() -> None:
    with pytest.raises(GrammarConflict, match="an alternative with 2 children needs an action"):
        make(HEAD + "expr: ICONST ICONST\n", ("start",))


def test_a_terminal_has_one_precedence() -> None:
    with pytest.raises(GrammarConflict, match="PLUS has two precedences"):
        read_directives("%left PLUS\n%right PLUS\n")


def test_directives_are_taken_out_of_the_text() -> None:
    assert read_directives("%left A B // why\n%statement p q\nrule: A %prec B -> x\n") == Grammar(
        "\n\nrule: A  -> action_0\nstatement: p\n  | q\n",
        {"A": (1, "left"), "B": (1, "left")},
        {"action_0": "B"},
        {"action_0": "x"},
    )


def test_an_absent_option_is_none_and_a_literal_is_no_child() -> None:
    grammar = 'expr: "SELECT" [ICONST] "FROM" [IDENT] -> t_place(number, name, @2)\n'
    assert run(grammar, "select from") == (7, None, None)
    assert run(grammar, "select 5 from x") == (7, 5, "x")


def test_an_action_without_builder_is_refused() -> None:
    with pytest.raises(LookupError, match="no builder t_unknown"):
        run("expr: ICONST -> t_unknown\n", "1")


@pytest.mark.parametrize(
    "action, made",
    [
        ("t_place", "t_place(at[-3], v[-3], v[-1])"),
        ("t_place(number, other, a=1)", "t_place(at[-3], number=v[-3], other=v[-1], a=1)"),
        ("t_place(number, _, @1, @3)", "t_place((at[-3], at[-1]), number=v[-3])"),
        ("RangeVar(name, schema, @3, inh=false)", "RangeVar(v[-3], v[-1], location=at[-1], inh=False)"),
        (
            "DropStmt(names, cascade, kind=ObjectType.VIEW)",
            "DropStmt(ObjectType.VIEW, tuple(v[-3] or ()), cascade=v[-1])",
        ),
        ('DefElem(_, value, name="a")', "DefElem('a', listed(v[-1]))"),
        ("AlterSeqStmt(_, options, relation=...)", "AlterSeqStmt(..., tuple(v[-1] or ()))"),
        ("AlterOwnerStmt(name=[name], new_owner=role)", "AlterOwnerStmt(name=(v[-3], ), new_owner=v[-1])"),
        ("replace(with_, node, local=true)", "replace(v[-1], with_=listed(v[-3]), local=True)"),
        ("[-1, first, none, second]", "(-1, v[-3], None, v[-1], )"),
    ],
)
def test_an_action_as_python(action: str, made: str) -> None:
    assert translate(action, 3, (-3, -1))[0] == made


def test_what_is_absent_leaves_a_field_as_it_is() -> None:
    assert translate("RangeVar(name, inh)", 1, (-1, 0))[0] == "RangeVar(v[-1])"


@pytest.mark.parametrize(
    "action, fault",
    [
        ("t_place(number, @2)", "there is no symbol 2"),
        ("t_place(number, other)", "it takes too many children"),
        ("RangeVar()", "it takes too few children"),
        ("RangeVar(named)", "RangeVar has no named, or has it already"),
        ("RangeVar(name, name=none)", "RangeVar has no name, or has it already"),
        ("RangeVar(name, inh=a.b)", "has no attribute 'a'"),
        ("Unknown(name)", "has no attribute 'Unknown'"),
        ("[name + 1]", "what is name \\+ 1"),
    ],
)
def test_an_action_that_fits_neither_its_alternative_nor_its_node_is_refused(action: str, fault: str) -> None:
    with pytest.raises(ActionError, match=fault):
        translate(action, 1, (-1,))


def test_a_state_with_a_single_reduction_needs_no_token() -> None:
    """So a fault that a rule finds is reported before a scanner's error behind it."""

    def refuse(location: int, *_: Any) -> None:
        raise PgError("42601", "refused", location=location)

    BUILDERS["t_place"] = refuse
    with pytest.raises(PgError, match="refused"):
        run('expr: "(" ICONST ")" -> t_place\n', "(1) 'unterminated")


# ------------------------------------------------------------------------------------------------ the shipped tables


def test_the_tables_belong_to_the_grammar() -> None:
    assert tables.load().fingerprint == fingerprint(source()), "run python -m pgrepl.sql.make_tables"
    assert tables.load(tables.PLPGSQL).fingerprint == fingerprint(plpgsql_source()), (
        "run python -m pgrepl.sql.make_tables"
    )


def test_every_action_of_the_grammar_is_there() -> None:
    every_action_is_there(Parser(tables.load()))


def test_every_action_of_plpgsql_is_there() -> None:
    import_module("pgrepl.plpgsql.function")  # it names the modules that register builders
    every_action_is_there(Parser(tables.load(tables.PLPGSQL), builder))


def every_action_is_there(shipped: Parser) -> None:
    """And what it calls takes the arguments that the action gives."""
    for rule, (_, length, action) in enumerate(shipped.tables.rules):
        assert shipped.reductions[rule][0] == length
        if isinstance(action, tuple):
            for call in (node for node in nodes_of(tree_of(action[0])) if isinstance(node, ast.Call)):
                name = ast.unparse(call.func)
                if name != "tuple":
                    called = getattr(nodes, name) if name[0].isupper() else shipped.reductions.builder(name)
                    inspect.signature(called).bind(*call.args, **{str(each.arg): None for each in call.keywords})


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
