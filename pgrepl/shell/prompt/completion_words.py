"""A statement that is being typed: its words, and the relations that it names with their aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import KEYWORDS, KeywordClass

_WORD = re.compile(
    r"""(?P<space>\s+|--[^\n]*\n|/\*.*?\*/)|(?P<open>--[^\n]*|/\*.*)|'(?:[^']|'')*'?|(?:[\w$]+|"(?:[^"]|"")*"?)(?:\.(?:[\w$]+|"(?:[^"]|"")*"?)?)*"""
    r"""|::|:['"]?\w*['"]?|\\[^\s\\]*|.""",
    re.DOTALL,
)
_NAME = re.compile(r'(?:\w|")')
_FIRST = {"FROM", "JOIN", "UPDATE", "INTO", "USING", "TABLE", "COPY"}  # a relation follows
_BEFORE_NAME = {"ONLY", "LATERAL"}
_QUERIES = {"SELECT", "VALUES", "WITH", "TABLE"}
_LAST = {  # the list of relations ends
    "WHERE", "GROUP", "ORDER", "HAVING", "WINDOW", "LIMIT", "OFFSET", "FETCH", "FOR", "UNION", "INTERSECT", "EXCEPT",
    "RETURNING", "SELECT", "SET", "VALUES",
}  # fmt: skip


@frozen
class Named:
    """A relation in a statement, as it is written there."""

    name: str
    alias: str  # what its columns are qualified with
    query: tuple[str, ...] = ()  # the words of one in parentheses, which has no name
    columns: tuple[str, ...] = ()  # their names behind the alias or the name of WITH


def split(text: str) -> tuple[list[str], str]:
    """The words of the text's last statement, and the one at the cursor; within a comment that is all of it."""
    words: list[str] = []
    ended = True
    for match in _WORD.finditer(text):
        if match["open"] is not None:
            return words, match["open"]
        ended = match["space"] is not None
        if ended:
            continue
        if match[0] == ";":
            words = []
            ended = True
        else:
            words.append(match[0])
            ended = re.match(r"\W+\Z", match[0]) is not None and match[0] not in ('"', "'", "\\", ":")
    return (words, "") if ended or not words else (words[:-1], words[-1])


def rest_of_statement(text: str) -> list[str]:
    """The words behind the cursor, up to the statement's end."""
    words = []
    for match in _WORD.finditer(text):
        if match[0] == ";":
            break
        if match["space"] is None and match["open"] is None:
            words.append(match[0])
    return words


def named_relations(words: Sequence[str]) -> list[Named]:
    """The relations in FROM, JOIN, UPDATE, INSERT INTO and USING, wherever in the statement."""
    relations = []
    lists: list[bool] = [False]  # by depth of parentheses: are we in a list of relations?
    begun: list[int] = []  # where each parenthesis begins; 0: that is no query in a list of relations
    at = 0
    is_index = len(words) > 2 and words[0].upper() == "CREATE" and "INDEX" in (words[1].upper(), words[2].upper())
    while at < len(words):
        word = words[at].upper()
        at += 1
        if word == "(":
            is_query = at > 1 and words[at - 2].upper() in {*_FIRST, *_BEFORE_NAME, ","} and lists[-1]
            begun.append(at if is_query and at < len(words) and words[at].upper() in _QUERIES else 0)
            lists.append(False)
        elif word == ")":
            lists[1:] = lists[1:-1]
            start, begun = begun[-1] if begun else 0, begun[:-1]
            if start:
                query = tuple(words[start : at - 1])
                alias, at = _alias(words, at)
                if alias:
                    columns, at = _column_names(words, at)
                    relations.append(Named("", alias, query, columns))
        elif word in _LAST:
            lists[-1] = False
        elif word in _FIRST or (word == "," and lists[-1]) or (word == "ON" and is_index):
            lists[-1] |= word != ","
            at += at < len(words) and words[at].upper() in _BEFORE_NAME
            if at < len(words) and _is_name(words[at]):
                name = words[at]
                alias, at = _alias(words, at + 1)
                relations.append(Named(name, alias or name.rpartition(".")[2]))
    return relations


def with_queries(words: Sequence[str]) -> list[Named]:
    """The queries of WITH, wherever in the statement."""
    queries = []
    for start in [at for at, word in enumerate(words) if word.upper() == "WITH"]:
        at = start + 1 + (words[start + 1 : start + 2] != [] and words[start + 1].upper() == "RECURSIVE")
        while at < len(words) and _is_name(words[at]):
            name = words[at]
            columns, at = _column_names(words, at + 1)
            while at < len(words) and words[at].upper() in ("AS", "NOT", "MATERIALIZED"):
                at += 1
            if words[at : at + 1] != ["("]:
                break
            end = closing(words, at)
            queries.append(Named(name, name, tuple(words[at + 1 : end]), columns))
            at = end + 2
            if words[at - 1 : at] != [","]:
                break
    return queries


def closing(words: Sequence[str], at: int) -> int:
    """The place of the parenthesis that closes the one here, or the end."""
    depth = 0
    for place in range(at, len(words)):
        depth += (words[place] == "(") - (words[place] == ")")
        if depth == 0:
            return place
    return len(words)


def output_names(query: Sequence[str]) -> list[str]:
    """The columns that a query's list gives, as far as they have names; `*` and `t.*` as they are."""
    at = 0
    if query and query[0].upper() == "WITH":
        at = next((n for n in range(len(query)) if query[n].upper() == "SELECT" and _depth(query, n) == 0), 0)
    names, item = list[str](), list[str]()
    for place in range(at + 1, len(query) + 1):
        word = query[place] if place < len(query) else ","
        outside = place == len(query) or _depth(query, place) == 0
        if outside and (word == "," or word.upper() in ("FROM", *_LAST)):
            names += _name_of(item)
            item = []
            if word != ",":
                break
        else:
            item.append(word)
    return names


def _depth(words: Sequence[str], at: int) -> int:
    before = words[:at]
    return list(before).count("(") - list(before).count(")")


def _name_of(item: Sequence[str]) -> list[str]:
    """The name of an item of a query's list: its alias, the column's or the function's."""
    if not item:
        return []
    if item[-1] == "*":
        return ["".join(item)] if len(item) == 1 or item[0].endswith(".") else []
    if len(item) == 1 or item[-2].upper() == "AS" or (_is_name(item[-1]) and re.match(r"[\w\")']", item[-2])):
        return [item[-1].rpartition(".")[2]] if re.match(r'["a-zA-Z_]', item[-1]) else []
    if item[1] == "(" and closing(item, 1) == len(item) - 1:
        return [item[0].rpartition(".")[2].lower()]
    return []


def _alias(words: Sequence[str], at: int) -> tuple[str, int]:
    if at < len(words) and words[at].upper() == "AS":
        at += 1
    if at < len(words) and _is_name(words[at]) and "." not in words[at]:
        return words[at], at + 1
    return "", at


def _column_names(words: Sequence[str], at: int) -> tuple[tuple[str, ...], int]:
    """Names in parentheses behind an alias or a name of WITH."""
    if words[at : at + 1] != ["("]:
        return (), at
    end = closing(words, at)
    return tuple(word for word in words[at + 1 : end] if _is_name(word)), end + 1


def _is_name(word: str) -> bool:
    return _NAME.match(word) is not None and KEYWORDS.get(word.lower()) not in (
        KeywordClass.RESERVED,
        KeywordClass.TYPE_FUNC_NAME,
    )


def plain(name: str) -> str:
    """A name as the catalog has it: without quotes, and folded where it had none."""
    return name[1:].removesuffix('"').replace('""', '"') if name.startswith('"') else name.lower()


def parts(name: str) -> list[str]:
    """The parts of a qualified name, as the catalog has them."""
    return [plain(part) for part in re.findall(r'"(?:[^"]|"")*"?|[^."]+', name)]


def fuzzy(name: str, typed: str) -> tuple[int, int] | None:
    """The fit of the letters that were typed, in their order, to a name: the less the better. None: they do not fit."""
    low, begun = name.replace('"', "").lower(), typed.replace('"', "").lower()
    if low.startswith(begun):
        return 0, 0
    return min(_spans(low, begun), key=lambda span: (span[1] > 0, span), default=None)


def _spans(name: str, typed: str) -> Iterator[tuple[int, int]]:
    """For each place where the first letter stands: the letters that are skipped behind it, and the place."""
    for start in [n for n, letter in enumerate(name) if letter == typed[:1]]:
        at = start
        for letter in typed[1:]:
            at = name.find(letter, at + 1)
            if at < 0:
                return
        yield 1 + at - start - len(typed) + 1, start
