"""PostgreSQL's own parser as the judge: what it says of a text, what we say, and where version 18 differs from 17.

pglast carries the parser of PostgreSQL 18 (and of libpg_query, which has a rule of its own for parameters). Where its
answer differs from that of a 17 server, the difference is one of `DIFFERENCES`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from pglast import parser as pglast

from pgrepl.ground.errors import PgError
from pgrepl.sql.parser import parse
from pgrepl.sql.scanner import scan

Answer = tuple[str, "int | None"] | None
"""The message and the cursor (0-based), or None: the text is accepted."""

DIFFERENCES = {
    "generated columns may be virtual": re.compile(r"ALWAYS\s+AS\s*\((?![^()]*\)\s*STORED\b)", re.I),
    "NOT NULL is a table constraint": re.compile(r"(\(|,|ADD|CONSTRAINT\s+\S+)\s+NOT\b", re.I),
    "ANALYZE and VACUUM take ONLY and *": re.compile(r"^\s*(ANALY[ZS]E|VACUUM)\b.*(\bONLY\b|\*)", re.I | re.S),
    "constraints may be NOT ENFORCED": re.compile(r"\bENFORCED\b", re.I),
    "RETURNING WITH (OLD AS o)": re.compile(r"\bRETURNING\s+WITH\b", re.I),
    "a parameter may stand for a key word (libpg_query)": re.compile(r"[$][0-9]"),
}
NEWLY_LOCATED = ("unrecognized partitioning strategy", "unrecognized JSON encoding")
"""Messages that 17 gives without a cursor and 18 with one."""


def theirs(text: str) -> Answer:
    try:
        pglast.parse_sql_json(text)
    except pglast.ParseError as error:
        message, location = error.args
        if message.endswith("at end of input"):
            location = len(text)  # where PostgreSQL has its cursor; pglast says None
        return message, None if message.startswith(NEWLY_LOCATED) else location
    return None


def ours(text: str) -> Answer:
    try:
        parse(text)
    except PgError as error:
        position = error.report.position
        return error.report.message, None if position is None else position - 1
    return None


def known_difference(text: str) -> bool:
    return any(pattern.search(text) for pattern in DIFFERENCES.values())


def their_tree(text: str) -> Any:
    """PostgreSQL's raw tree, without locations and without the underscores in numbers."""
    return _without_locations(json.loads(pglast.parse_sql_json(text))["stmts"])


def _without_locations(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_locations(item) for item in tree]
    if isinstance(tree, dict):
        return {
            key: value.replace("_", "") if key == "fval" and isinstance(value, str) else _without_locations(value)
            for key, value in tree.items()
            if not key.endswith(("location", "_start", "_end")) and key != "stmt_len"
        }
    return tree


def token_texts(text: str) -> list[str]:
    texts = []
    for terminal, _, start, end in scan(text):
        if terminal == "$END":
            return texts
        texts.append(text[start:end])
    raise AssertionError("the scanner gives $END for ever")


def mutants(statements: list[str], seed: int) -> Iterator[str]:
    """Statements with tokens dropped, doubled, replaced and swapped."""
    random_ = random.Random(seed)
    split = [token_texts(statement) for statement in statements]
    pool = sorted({token for tokens in split for token in tokens})
    while True:
        tokens = list(random_.choice(split))
        for _ in range(random_.choice((1, 1, 1, 2, 3))):
            mutate(tokens, pool, random_)
        yield " ".join(tokens)


def mutate(tokens: list[str], pool: list[str], random_: random.Random) -> None:
    if not tokens:
        return
    place, other = random_.randrange(len(tokens)), random_.randrange(len(tokens))
    kind = random_.randrange(4)
    if kind == 0:
        del tokens[place]
    elif kind == 1:
        tokens.insert(place, tokens[place])
    elif kind == 2:
        tokens[place] = random_.choice(pool)
    else:
        tokens[place], tokens[other] = tokens[other], tokens[place]
