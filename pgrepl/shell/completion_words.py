"""A statement that is being typed: its words, and the relations that it names with their aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgrepl.frozen import frozen
from pgrepl.sql.keywords import KEYWORDS, KeywordClass

_WORD = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|'(?:[^']|'')*'?|(?:[\w$]+|"(?:[^"]|"")*"?)(?:\.(?:[\w$]+|"(?:[^"]|"")*"?)?)*"""
    r"""|::|:['"]?\w*['"]?|\\[^\s\\]*|.""",
    re.DOTALL,
)
_NAME = re.compile(r'(?:\w|")')
_FIRST = {"FROM", "JOIN", "UPDATE", "INTO", "USING", "TABLE", "COPY"}  # a relation follows
_BEFORE_NAME = {"ONLY", "LATERAL"}
_LAST = {  # the list of relations ends
    "WHERE", "GROUP", "ORDER", "HAVING", "WINDOW", "LIMIT", "OFFSET", "FETCH", "FOR", "UNION", "INTERSECT", "EXCEPT",
    "RETURNING", "SELECT", "SET", "VALUES",
}  # fmt: skip


@frozen
class Named:
    """A relation in a statement, as it is written there."""

    name: str
    alias: str  # what its columns are qualified with


def split(text: str) -> tuple[list[str], str]:
    """The words of the text's last statement, and the one at the cursor."""
    words: list[str] = []
    ended = True
    for found in _WORD.finditer(text):
        ended = found["space"] is not None
        if ended:
            continue
        if found[0] == ";":
            words = []
            ended = True
        else:
            words.append(found[0])
            ended = re.match(r"\W+\Z", found[0]) is not None and found[0] not in ('"', "'", "\\", ":")
    return (words, "") if ended or not words else (words[:-1], words[-1])


def rest_of_statement(text: str) -> list[str]:
    """The words behind the cursor, up to the statement's end."""
    words = []
    for found in _WORD.finditer(text):
        if found[0] == ";":
            break
        if found["space"] is None:
            words.append(found[0])
    return words


def named_relations(words: Sequence[str]) -> list[Named]:
    """The relations in FROM, JOIN, UPDATE, INSERT INTO and USING, wherever in the statement."""
    found = []
    lists: list[bool] = [False]  # by depth of parentheses: are we in a list of relations?
    at = 0
    while at < len(words):
        word = words[at].upper()
        at += 1
        if word == "(":
            lists.append(False)
        elif word == ")":
            lists[1:] = lists[1:-1]
        elif word in _LAST:
            lists[-1] = False
        elif word in _FIRST or (word == "," and lists[-1]):
            lists[-1] |= word != ","
            at += at < len(words) and words[at].upper() in _BEFORE_NAME
            if at < len(words) and _is_name(words[at]):
                name = words[at]
                alias, at = _alias(words, at + 1)
                found.append(Named(name, alias or name.rpartition(".")[2]))
    return found


def _alias(words: Sequence[str], at: int) -> tuple[str, int]:
    if at < len(words) and words[at].upper() == "AS":
        at += 1
    if at < len(words) and _is_name(words[at]) and "." not in words[at]:
        return words[at], at + 1
    return "", at


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
    spans = list(_spans(low, begun))
    return min(spans) if spans else None


def _spans(name: str, typed: str) -> Iterator[tuple[int, int]]:
    """For each place where the first letter stands: the letters that are skipped behind it, and the place."""
    for start in [n for n, letter in enumerate(name) if letter == typed[:1]]:
        at = start
        for letter in typed[1:]:
            at = name.find(letter, at + 1)
            if at < 0:
                return
        yield 1 + at - start - len(typed) + 1, start
