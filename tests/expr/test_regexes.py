"""LIKE, SIMILAR TO and regular expressions are worth what PostgreSQL 17 said (`regexes.jsonl`, by `make_regexes`), and
none takes longer than its text allows."""

from __future__ import annotations

import signal
import time
from functools import cache

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.expr.functions.pattern import like
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.types.regex.matching import Regex, compile_regex
from pgrepl.types.regex.native import ANY_LENGTH
from tests.expr import test_evaluate_answers
from tests.expr.make_regexes import KNOWN, RECORDED, recorded
from tests.types.asked import Answer


@cache
def session() -> Session:
    import tempfile
    from pathlib import Path

    made = open_session(open_catalog(Path(tempfile.mkdtemp()) / "catalog.db"))
    made.transaction.begin_statement()
    return made


def answer_to(expression: str) -> Answer:
    return test_evaluate_answers.answer_to(session(), expression)


def test_answers_are_postgresqls() -> None:
    asked = recorded()
    assert len(asked) == len(KNOWN) + RECORDED
    answers = [(expression, answer_to(expression)) for expression, _ in asked]
    assert answers == asked


def test_no_text_takes_longer_than_its_length_allows() -> None:
    many = "a" * 100_000
    began = time.process_time()
    assert not compile_regex("(a*)*(a*)*(a*)*b").matches(many)
    assert not compile_regex("^(a+)+$").matches(many + "b")
    assert not compile_regex("a*a*a*a*a*b").matches(many)
    assert not compile_regex("(x+x+)+y|a+\\d").matches(many)
    assert not compile_regex("(?=a*b)a").matches(many)
    assert not like(many, "%a%a%a%a%a%a%b")
    assert not like(many, "%a_a%_aa%a_b%", ignore_case=True)
    found = compile_regex("(a*)(a|b)*(a?)$").search(many)
    assert found is not None
    assert found.span(1) == (0, 100_000)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("pattern", "exists", "finds"),
    [
        ("foo", True, True),
        ("^foo.*bar$", True, False),
        ("[0-9]+", False, True),
        ("(\\d+)-(\\d+)", False, True),
        ("(?:a|b)+", None, None),
        ("a*b?c", False, True),
        ("(a+)+b", None, None),
        ("(?=a)b", None, None),
        ("(a)\\1", None, None),
    ],
)
def test_what_is_left_to_pythons_own_engine(pattern: str, exists: bool | None, finds: bool | None) -> None:
    """`exists`: in texts of any length; `finds`: where matches are, too."""
    native = compile_regex(pattern).native
    if native is None:
        assert (exists, finds) == (None, None)
    else:
        assert (native.exists_upto == ANY_LENGTH, native.finds is not None) == (exists, finds)


@pytest.mark.parametrize("pattern", ["foo|bar", "^[^@]+@[^@]+\\.com", "[a-c]+x", "(ab)?c|d", "\\yfoo\\y", "a{2,3}b*"])
def test_both_engines_find_the_same(pattern: str) -> None:
    own = Regex(pattern, "")
    own.native = None
    other = compile_regex(pattern)
    for text in ["", "foo", "xbar", "me@host.com", "abcx", "abdc", "a foo b", "aaaabbb", "aabb aab ab"]:
        assert own.matches(text) == other.matches(text)
        assert [found.span() for found in own.each(text)] == [found.span() for found in other.each(text)]


def test_a_search_with_back_references_is_interrupted() -> None:
    """It is the one thing that no automaton bounds."""
    expression = compile_regex("^(a*)(a*)(a*)(a*)(a*)\\1\\2\\3\\4\\5b$")

    def rings(*_: object) -> None:
        interrupts.interrupt(interrupts.user_request())

    before = signal.signal(signal.SIGALRM, rings)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(PgError, match="canceling statement due to user request"):
            expression.matches("a" * 501 + "b")
    finally:
        signal.signal(signal.SIGALRM, before)
        interrupts.begin()
