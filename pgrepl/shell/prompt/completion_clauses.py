"""What may follow in a query: by the clause that the cursor is in, and by whether an operand stands before it.

Parentheses are levels of their own: a query with clauses, or a list of expressions in a clause of the level outside.
The answer is as a rule's (completion_rules.txt): phrases of key words, and kinds of names in angle brackets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_QUERY = {"SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "TABLE"}
_BEFORE_QUERY = {  # statements with a query in them, and the words that it follows
    "COPY": set[str](), "CREATE": {"AS"}, "DECLARE": {"FOR"}, "EXPLAIN": {"EXPLAIN", "ANALYZE", "VERBOSE", "()"},
    "PREPARE": {"AS"},
}  # fmt: skip
_CLAUSES = {
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "UNION",
    "INTERSECT", "EXCEPT", "RETURNING", "SET", "VALUES", "INTO", "USING", "ON", "INSERT", "UPDATE", "DELETE", "WITH",
    "TABLE", "JOIN",
}  # fmt: skip
_OPERATOR = re.compile(r"[^\w\"'$)\]]+\Z")
_UNFINISHED = {  # an operand follows
    "AND", "OR", "NOT", "BY", "IN", "LIKE", "ILIKE", "BETWEEN", "IS", "CASE", "WHEN", "THEN", "ELSE", "DISTINCT", "ALL",
    "ANY", "SOME", "FROM", "AS", "SIMILAR", "TO", "ESCAPE", "COLLATE", "SYMMETRIC", "OVER", "FILTER", "WHERE",
}  # fmt: skip

_SETS = ("EXCEPT", "INTERSECT", "UNION", "UNION ALL")
_ROWS = ("FETCH FIRST", "FOR SHARE", "FOR UPDATE", "LIMIT", "OFFSET")
_JOINS = ("CROSS JOIN", "FULL JOIN", "INNER JOIN", "JOIN", "LEFT JOIN", "NATURAL JOIN", "RIGHT JOIN")
_JOINING = ("LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "OUTER")
_CONDITION = (
    "AND", "BETWEEN", "COLLATE", "ILIKE", "IN (", "IS DISTINCT FROM", "IS FALSE", "IS NOT DISTINCT FROM", "IS NOT NULL",
    "IS NULL", "IS TRUE", "LIKE", "NOT BETWEEN", "NOT ILIKE", "NOT IN (", "NOT LIKE", "OR", "SIMILAR TO",
)  # fmt: skip
OPERANDS = (
    "ALL", "ANY", "ARRAY[", "CASE", "CAST(", "COALESCE(", "CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER",
    "EXISTS (", "EXTRACT(", "FALSE", "GREATEST(", "INTERVAL", "LEAST(", "LOCALTIMESTAMP", "NOT", "NULL", "NULLIF(",
    "OVERLAY(", "POSITION(", "ROW(", "SUBSTRING(", "TRIM(", "TRUE",
)  # fmt: skip
_TESTS = (
    "DISTINCT FROM", "FALSE", "NOT DISTINCT FROM", "NOT FALSE", "NOT NULL", "NOT TRUE", "NOT UNKNOWN", "NULL", "TRUE",
    "UNKNOWN",
)  # fmt: skip
_AFTER_FROM = ("GROUP BY", "HAVING", "ORDER BY", "WHERE", "WINDOW", *_ROWS, *_SETS)
_SHORT_FROM = ("CROSS JOIN", "GROUP BY", "JOIN", "LEFT JOIN", "LIMIT", "ORDER BY", "WHERE")
_AFTER_VALUES = ("ORDER BY", *_ROWS, *_SETS)
_STATEMENTS = ("DELETE FROM", "INSERT INTO", "MERGE INTO", "SELECT", "TABLE", "UPDATE", "VALUES (")


@dataclass
class _Level:
    """What is open at a parenthesis, or the statement itself."""

    opener: str = ""  # the word before the parenthesis
    statement: str = ""  # SELECT, INSERT, …; empty: a list of expressions
    clause: str = ""
    words: list[str] = field(default_factory=list)  # of the clause; an inner parenthesis is one word
    join: str = ""  # the word before JOIN

    def begin(self, clause: str) -> None:
        self.join = self.words[-1].upper() if clause == "JOIN" and self.words else ""
        self.clause, self.words = clause, []


def query_following(words: Sequence[str], *, typed: bool) -> tuple[str, ...] | None:
    """The candidates behind these words; None: they are in no query. `typed`: a part of the next word is there."""
    levels = _levels(words)
    here = levels[-1]
    if not any(level.statement for level in levels):
        return None
    if here.statement:
        return _in_query(here, typed)
    return _in_list(here, levels[-2], typed)


def _levels(words: Sequence[str]) -> list[_Level]:
    levels = [_Level()]
    before = _BEFORE_QUERY.get(words[0].upper(), set()) if words else set()
    for at, word in enumerate(words):
        here, big = levels[-1], word.upper()
        last = here.words[-1].upper() if here.words else ""
        if word == "(":
            levels.append(_Level(opener=words[at - 1].upper() if at else ""))
        elif word == ")":
            if len(levels) > 1:
                levels.pop()
                levels[-1].words.append("()")
        elif big in _QUERY and not here.statement and (at == 0 or last in before or len(levels) > 1 > len(here.words)):
            here.statement = big
            here.begin(big)
        elif here.statement and big in _CLAUSES and _begins_clause(here, big, last):
            if here.statement == "WITH" and big in _QUERY and big != "WITH":
                here.statement = big
            here.begin(big)
        else:
            here.words.append(word)
    return levels


def _begins_clause(here: _Level, word: str, last: str) -> bool:
    if word == "FROM":
        return last != "DISTINCT" or here.clause == "SELECT"
    if word in ("UPDATE", "SET"):
        return not (here.clause == "FOR" or (here.clause == "ON" and word == "UPDATE"))
    if word == "ON":
        return here.clause != "SELECT"
    if word == "TABLE":
        return here.statement in ("INSERT", "WITH") or here.clause in ("UNION", "INTERSECT", "EXCEPT")
    if word == "FOR":
        return here.clause not in ("SELECT",)
    return True


def _is_operand(words: Sequence[str]) -> bool:
    """Is the last word one that an operator may follow?"""
    if not words:
        return False
    last = words[-1]
    if last == "*":  # all columns, unless something stands before it
        return len(words) == 1 or words[-2] in (",", "DISTINCT") or words[-2].endswith(".")
    return not (last.upper() in _UNFINISHED or _OPERATOR.match(last) or last.endswith("."))


def _item(words: Sequence[str]) -> list[str]:
    """The words behind the last comma."""
    at = max((n for n, word in enumerate(words) if word == ","), default=-1)
    return list(words[at + 1 :])


def _operand(typed: bool, item: Sequence[str] = ()) -> tuple[str, ...]:
    last = _big(item[-2:])
    if last[-1:] == ["IS"]:
        return _TESTS
    if last[-1:] == ["NOT"] and last[0] == "IS":
        return tuple(test.removeprefix("NOT ") for test in _TESTS if test.startswith("NOT "))
    if last[-1:] == ["NOT"] and _is_operand(item[:-1]):
        return ("BETWEEN", "ILIKE", "IN (", "LIKE", "SIMILAR TO")
    return ("<expression>", "<operand>") if typed else ("<expression>",)


def _in_case(words: Sequence[str]) -> bool:
    big = [word.upper() for word in words]
    return big.count("CASE") > big.count("END")


def _in_list(here: _Level, outer: _Level, typed: bool) -> tuple[str, ...]:
    words, opener = here.words, here.opener
    item = _item(words)
    if opener == "CAST" and item and item[-1].upper() == "AS":
        return ("<type>",)
    if outer.statement == "INSERT" and outer.clause == "INTO" and len(outer.words) == 1:
        return ("<column>",) if not item else ()
    if outer.clause == "USING" and not outer.words and outer.statement != "DELETE":
        return ("<shared>",) if not item else ()
    if outer.statement == "INSERT" and outer.clause == "ON" and _big(outer.words[-1:]) == ["CONFLICT"]:
        return ("<column>",) if not item else ()
    if outer.statement == "INSERT" and outer.clause == "VALUES" and not _is_operand(item):
        return ("DEFAULT", "<function>", "<operand>") if typed else ("DEFAULT",)
    if outer.clause == "WITH":
        return ("DELETE FROM", "INSERT INTO", "SELECT", "UPDATE", "VALUES (") if not words else ()
    if outer.clause in ("FROM", "JOIN") and not (outer.words and _is_call(outer)):
        return ("SELECT", "VALUES (", "WITH") if not words else ()
    if not words and opener in ("OVER",):
        return ("ORDER BY", "PARTITION BY")
    if not words and opener == "FILTER":
        return ("WHERE",)
    if words and words[-1].upper() in ("ORDER", "PARTITION", "GROUP"):
        return ("BY",)
    if opener == "EXISTS":
        return ("SELECT", "VALUES (", "WITH") if not words else ()
    if not _is_operand(item):
        queries = ("SELECT", "VALUES", "WITH") if not words and (typed or opener in _AS_QUERY) else ()
        return (*queries, *_operand(typed, item))
    if opener == "CAST":
        return ("AS",)
    more: tuple[str, ...] = ("FROM",) if opener in ("EXTRACT", "SUBSTRING", "TRIM", "OVERLAY") else ()
    more += ("ORDER BY",) if typed or opener == "OVER" else ()
    return _behind_operand(item, typed, (*more, "ASC", "DESC") if "BY" in _big(words) else more)


_AS_QUERY = {"FROM", "JOIN", "EXISTS", "AS", "LATERAL", ",", "IN", "ANY", "ALL", "(", "MATERIALIZED"}


def _is_call(outer: _Level) -> bool:
    return bool(re.match(r'[\w"]', outer.words[-1])) and outer.words[-1].upper() not in ("LATERAL", "ONLY")


def _big(words: Sequence[str]) -> list[str]:
    return [word.upper() for word in words]


def _behind_operand(words: Sequence[str], typed: bool, more: tuple[str, ...]) -> tuple[str, ...]:
    if _in_case(words):
        more = ("ELSE", "END", "THEN", "WHEN") + (more if typed else ())
    return (*_CONDITION, *more) if typed else ("AND", "OR", *more) if more else ()


def _in_query(here: _Level, typed: bool) -> tuple[str, ...]:
    clause, words = here.clause, here.words
    big = _big(words)
    last = big[-1] if big else ""
    if clause == "USING" and not words and here.statement != "DELETE":  # of a join, with its columns
        return ("(",)
    if clause in ("FROM", "JOIN", "USING"):
        return _in_from(here, typed)
    if clause == "WITH":
        return _in_with(big)
    if clause in ("INSERT", "INTO", "VALUES", "ON") and here.statement == "INSERT" and clause != "SELECT":
        return _in_insert(here, big, typed)
    if clause == "UPDATE":
        return ("<table>", "ONLY") if last in ("", "ONLY") else ("SET",) if not typed else ("AS", "SET")
    if clause == "DELETE":
        return ("FROM",)
    if clause == "TABLE":
        return ("<relation>",) if not words else _AFTER_VALUES
    if clause in ("UNION", "INTERSECT", "EXCEPT"):
        return ("ALL", "SELECT", "TABLE", "VALUES (") if not words else ("SELECT", "TABLE", "VALUES (")
    if clause == "FOR":
        return ("KEY SHARE", "NO KEY UPDATE", "SHARE", "UPDATE") if not words else ("NOWAIT", "OF", "SKIP LOCKED")
    if clause in ("GROUP", "ORDER") and not words:
        return ("BY",)
    if clause == "FETCH":
        return ("FIRST", "NEXT") if not words else ("ROW ONLY", "ROWS ONLY", "ROWS WITH TIES")
    if clause in ("LIMIT", "OFFSET"):
        return ("FETCH FIRST", "FOR UPDATE", "LIMIT", "OFFSET") if _is_operand(words) else ("ALL",) if typed else ()
    if clause == "SET":
        return _in_set(here, typed)
    if clause == "VALUES":
        return _AFTER_VALUES if last == "()" else ("(",)
    return _in_expressions(here, typed)


def _in_from(here: _Level, typed: bool) -> tuple[str, ...]:
    item = _item(here.words)
    last = item[-1].upper() if item else ""
    if last in ("", "LATERAL", "ONLY"):
        return ("<table>", "ONLY") if here.statement == "DELETE" and here.clause == "FROM" else _relations(typed)
    if last in _JOINING:
        return ("JOIN", "OUTER JOIN") if last in ("LEFT", "RIGHT", "FULL") else ("JOIN",)
    if last == "AS":
        return ()
    return _after_relation(here, typed)


def _relations(typed: bool) -> tuple[str, ...]:
    return ("<relation>", "<with>", "<set function>", "LATERAL", "ONLY") if typed else ("<relation>", "<with>")


def _after_relation(here: _Level, typed: bool) -> tuple[str, ...]:
    if here.statement == "DELETE":
        return ("RETURNING", "USING", "WHERE") if here.clause == "FROM" else ("RETURNING", "WHERE")
    joined = ("ON", "USING (") if here.clause == "JOIN" and here.join not in ("CROSS", "NATURAL") else ()
    if here.statement == "UPDATE":
        return (*joined, *_JOINS, "RETURNING", "WHERE")
    if joined and not typed:
        return joined
    return (*joined, "AS", "TABLESAMPLE", *_JOINS, *_AFTER_FROM) if typed else _SHORT_FROM


def _in_with(big: list[str]) -> tuple[str, ...]:
    item = _item(big)
    if not item:
        return ("RECURSIVE",) if not big else ()
    if item[-1] in ("AS", "MATERIALIZED"):
        return ("(", "MATERIALIZED (", "NOT MATERIALIZED (") if item[-1] == "AS" else ("(",)
    if item[-1] == "()" and "AS" in item:
        return _STATEMENTS
    return ("AS (",) if item[-1] != "RECURSIVE" else ()


def _in_insert(here: _Level, big: list[str], typed: bool) -> tuple[str, ...]:
    clause, last = here.clause, big[-1] if big else ""
    if clause == "INSERT":
        return ("INTO",)
    if clause == "INTO":
        if not big:
            return ("<table>",)
        if last == "()":
            return ("OVERRIDING", "SELECT", "TABLE", "VALUES (", "WITH")
        aliased = ("AS", "OVERRIDING", "WITH") if typed else ()
        return ("(", "DEFAULT VALUES", "SELECT", "TABLE", "VALUES (", *aliased)
    if clause == "VALUES":
        return ("ON CONFLICT", "RETURNING") if last == "()" or last == "DEFAULT" else ("(",)
    if not big:
        return ("CONFLICT",)
    if last == "CONFLICT":
        return ("(", "DO NOTHING", "DO UPDATE SET", "ON CONSTRAINT")
    if last == "DO":
        return ("NOTHING", "UPDATE SET")
    if last == "NOTHING":
        return ("RETURNING",)
    return ("DO NOTHING", "DO UPDATE SET", "WHERE") if last == "()" else ()


def _in_set(here: _Level, typed: bool) -> tuple[str, ...]:
    item = _item(here.words)
    if not item:
        return ("<column>", "(") if typed else ("<column>",)
    if "=" not in item:
        return ("=",)
    if not _is_operand(item):
        more = ("EXCLUDED.",) if here.statement == "INSERT" else ()
        return (*_operand(typed), "DEFAULT", *more) if typed else (*_operand(typed), *more)
    if here.statement == "INSERT":
        return (*_CONDITION, "RETURNING", "WHERE") if typed else ("RETURNING", "WHERE")
    return (*_CONDITION, "FROM", "RETURNING", "WHERE") if typed else ("FROM", "RETURNING", "WHERE")


def _in_expressions(here: _Level, typed: bool) -> tuple[str, ...]:
    """SELECT, WHERE, ON, GROUP BY, HAVING, ORDER BY, RETURNING, WINDOW."""
    clause, words = here.clause, here.words
    item = _item(words)
    if clause == "ON" and words and (not item or item[-1].upper() in _JOINING):
        return _in_from(here, typed)
    item = item[1:] if item and item[0].upper() == "BY" else item
    if not _is_operand(item):
        first = ("DISTINCT",) if clause == "SELECT" and not words else ()
        joined = ("<condition>",) if clause == "ON" and not words else ()
        return (*joined, *first, *_operand(typed, item))
    if clause == "ON" and here.statement != "INSERT":
        if not typed:
            return ("AND", *_SHORT_FROM, "OR")
        return _behind_operand(item, typed, (*_JOINS, *_AFTER_FROM))
    return _behind_clause(here, item, typed)


def _behind_clause(here: _Level, item: list[str], typed: bool) -> tuple[str, ...]:
    clause = here.clause
    if clause == "SELECT":
        called = ("FILTER (", "OVER (") if item[-1] == "()" else ()
        if _in_case(item):
            return _behind_operand(item, typed, ())
        return (*_CONDITION, "AS", "FROM", *called, *_AFTER_FROM) if typed else ("AS", "FROM", *called)
    if clause == "RETURNING":
        return (*_CONDITION, "AS") if typed else ("AS",)
    if clause == "ORDER":
        kinds = ("ASC", "DESC", "NULLS FIRST", "NULLS LAST", *_ROWS)
        return (*_CONDITION, *kinds, *_SETS) if typed else kinds
    if here.statement in ("UPDATE", "DELETE", "INSERT") and clause == "WHERE":
        return _behind_operand(item, typed, ("RETURNING",))
    if clause == "GROUP":
        return ("HAVING", "ORDER BY", *_ROWS, *_SETS) if typed else ("HAVING", "LIMIT", "ORDER BY")
    after = ("GROUP BY", "LIMIT", "ORDER BY") if clause == "WHERE" else ("LIMIT", "ORDER BY")
    return _behind_operand(item, typed, (*_AFTER_FROM,) if typed else after)
