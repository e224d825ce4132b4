"""Definition and utility statements against PostgreSQL: what a 17 server refuses and how, and what its parser takes."""

from __future__ import annotations

import csv
import re
from itertools import islice
from pathlib import Path

import pytest

from pgrepl.ground.errors import PgError, Report
from pgrepl.sql.parser import parse
from tests.sql.ddl_corpus import STATEMENTS
from tests.sql.reference import Answer, known_difference, mutants, ours, theirs

REFUSED = list(
    csv.DictReader(Path(__file__).with_name("ddl_refused.tsv").open(), delimiter="\t", quoting=csv.QUOTE_NONE)
)
"""Statements and a 17 server's whole answer to each."""

NEW_IN_18 = re.compile(
    r"""
    NOT\s+ENFORCED | \bENFORCED | \bVIRTUAL\b | \bPERIOD\b | \bOVERLAPS\b   # words
    | ALTER\s+CONSTRAINT                                                    # also INHERIT, NO INHERIT
    | AS\s*\([^)]*\)(?!\s*STORED)                                           # STORED may be left out
    | (\(|,|ADD|CONSTRAINT\s+\S+)\s*NOT\b                                   # NOT NULL as a table constraint
    """,
    re.I | re.X,
)
LOCATED_IN_18 = (
    "constraints cannot be marked", "for hash partition must be specified", "CREATE OR REPLACE CONSTRAINT TRIGGER",
    "CREATE ASSERTION", "OUT and INOUT arguments", "multiple LIMIT clauses", "multiple OFFSET clauses",
    "an ordered-set aggregate with a VARIADIC",
)  # fmt: skip
"""Messages whose cursor 18 has and 17 has not, or has elsewhere."""


def test_the_corpus_is_large() -> None:
    assert len(STATEMENTS) + len(REFUSED) >= 800


@pytest.mark.parametrize("case", REFUSED, ids=[case["statement"] for case in REFUSED])
def test_a_statement_is_refused_as_a_17_server_refuses_it(case: dict[str, str]) -> None:
    with pytest.raises(PgError) as caught:
        parse(case["statement"])
    assert caught.value.report == Report(
        "ERROR",
        case["sqlstate"],
        case["message"],
        case["detail"] or None,
        case["hint"] or None,
        position=int(case["cursor"]) if case["cursor"] else None,
    )


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_well_formed_statement_is_taken_by_both(statement: str) -> None:
    assert (ours(statement), theirs(statement)) == (None, None)


def test_refused_statements_are_refused_alike_by_postgresqls_parser() -> None:
    differing = [case["statement"] for case in REFUSED if differs(case["statement"])]
    assert differing == []


def answer_of_17(answer: Answer) -> Answer:
    if answer is not None and any(part in answer[0] for part in LOCATED_IN_18):
        return answer[0], None
    return answer


def same_in_18(text: str) -> bool:
    return not (known_difference(text) or NEW_IN_18.search(text))


def differs(text: str) -> bool:
    return same_in_18(text) and answer_of_17(ours(text)) != answer_of_17(theirs(text))


def differing(seed: int, count: int) -> list[tuple[str, Answer, Answer]]:
    texts = [text for text in islice(mutants(STATEMENTS, seed), count) if same_in_18(text)]
    assert len(texts) > count * 0.9
    return [(text, ours(text), theirs(text)) for text in texts if differs(text)]


def test_mutated_statements_fail_with_the_same_message_at_the_same_token() -> None:
    assert differing(seed=5, count=4_000) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 210))
def test_many_more_mutated_statements_fail_alike(seed: int) -> None:
    assert differing(seed, count=20_000) == []
