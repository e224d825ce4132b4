"""The joined grammar against PostgreSQL's own parser: accepted or refused alike, with one message at one token."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgrepl.ground.errors import PgError
from pgrepl.sql.parser import parse, parse_expression
from tests.sql.corpus import EXPRESSIONS, QUERIES, STATEMENTS
from tests.sql.deparse import deparse
from tests.sql.reference import known_difference, mutants, ours, their_tree, theirs


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_of_the_corpus_is_accepted_by_both(statement: str) -> None:
    assert (ours(statement), theirs(statement)) == (None, None)


def differing(seed: int, count: int) -> list[tuple[str, object, object]]:
    texts = [text for text in islice(mutants(STATEMENTS, seed), count) if not known_difference(text)]
    assert len(texts) > count * 0.9
    return [(text, ours(text), theirs(text)) for text in texts if ours(text) != theirs(text)]


def test_mutated_statements_fail_with_the_same_message_at_the_same_token() -> None:
    assert differing(seed=17, count=2_500) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_more_mutated_statements_fail_alike(seed: int) -> None:
    assert differing(seed, count=20_000) == []


PIECES = """
' " $ $$ $a$ E' e' U&' U&" b' x' n' \\ \\u \\U \\x \\0 0 1 9 _ . .. e E x o b + - * / /* */ -- ~ ! @ # % ^ & | ` ? < > =
: :: := => ( ) [ ] , ; a Z é 日 UESCAPE '!' d800 dc00 0041 \\+ 00000041 \\d83d \\de00 not in nulls first with time
format json { } 0x 0b 0o 1_0
"""
SPACES = [" ", "\n", "\t", "\r", "\f", "\v", "\x01", "\x7f", "\u00a0"]
LEXICAL = st.lists(st.sampled_from(PIECES.split()) | st.sampled_from(SPACES), max_size=9).map("".join)


@given(LEXICAL)
@settings(max_examples=250, deadline=None)
def test_any_characters_are_scanned_alike(text: str) -> None:
    statement = f"SELECT {text}\n)"
    assume(not known_difference(statement))
    assert ours(statement) == theirs(statement)


def test_a_string_may_hold_every_character_but_nul() -> None:
    for code in (1, 9, 0x7F, 0x80, 0xFFFF, 0x10000, 0x10FFFF):
        assert ours(f"SELECT '{chr(code)}' \"{chr(code)}\" 1") == theirs(f"SELECT '{chr(code)}' \"{chr(code)}\" 1")


OPERATORS = st.sampled_from("+ - * / % ^ < > = <= >= <> || ~ @> AND OR OPERATOR(pg_catalog.+)".split())


SUFFIXES = [
    "IS NULL", "ISNULL", "NOTNULL", "IS NOT TRUE", "IN (1, 2)", "NOT IN (a)", "::int", 'COLLATE "C"', "IS JSON", "[1]",
    "AT TIME ZONE 'UTC'", "AT LOCAL", "BETWEEN 1 AND 2", "NOT BETWEEN SYMMETRIC a AND b", "LIKE 'x'", "SIMILAR TO 'x'",
    "NOT LIKE 'x' ESCAPE 'y'", "IS DISTINCT FROM b", "= ANY (b)", "IS NFC NORMALIZED",
]  # fmt: skip


def expressions() -> st.SearchStrategy[str]:
    """Random expressions without parentheses, so that precedence decides what they mean."""
    leaves = st.sampled_from(["a", "b.c", "1", "'x'", "NULL", "f(a)", "$1", "ARRAY[1]", "(SELECT 1)", "ROW(1, 2)"])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.tuples(inner, OPERATORS, inner).map(" ".join)
        prefix = st.tuples(st.sampled_from(["-", "+", "NOT", "@", "~"]), inner).map(" ".join)
        suffix = st.tuples(inner, st.sampled_from(SUFFIXES)).map(" ".join)
        return binary | prefix | suffix

    return st.recursive(leaves, grow, max_leaves=8)


@given(expressions())
@settings(max_examples=250, deadline=None)
def test_precedence_is_postgresqls(text: str) -> None:
    statement = f"SELECT {text}"
    assert ours(statement) == theirs(statement)
    if theirs(statement) is None and "JSON" not in text:
        assert their_tree(f"SELECT {deparse(parse_expression(text))}") == their_tree(statement)


@pytest.mark.parametrize("statement", [f"SELECT {text}" for text in EXPRESSIONS] + QUERIES)
def test_a_query_printed_means_the_same_to_postgresql(statement: str) -> None:
    node = parse(statement)[0].stmt
    try:
        text = deparse(node)
    except PgError as error:
        assert error.sqlstate == "0A000"
        return
    assert their_tree(text) == their_tree(statement)
