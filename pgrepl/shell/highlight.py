"""Syntax highlighting at the prompt: key words, strings, numbers, comments, variables, backslash commands."""

from __future__ import annotations

import re
from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from pgrepl.sql.keywords import KEYWORDS, KeywordClass

STYLE = Style.from_dict(
    {
        "keyword": "bold ansiblue",
        "string": "ansigreen",
        "number": "ansicyan",
        "comment": "ansibrightblack",
        "variable": "ansimagenta",
        "command": "bold ansicyan",
    }
)

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z))
    | (?P<string>(?:\b[eEbBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|\Z)|\$(?P<tag>[A-Za-z_]\w*|)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<name>"(?:[^"]|"")*(?:"|\Z))
    | (?P<variable>:(?:'\w+'|"\w+"|\{\?\w+\}|(?<!::)\w+))
    | (?P<command>\\[^\s\\;:]+)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    """,
    re.VERBOSE | re.DOTALL,
)
# key words that are not reserved and yet highlighted, as statements about tables and replication have them
_SHAPING = frozenset(
    """add alter always attach begin by cascade comment commit connection copy create database default delete detach
    disable drop enable execute explain full generated grant identity if index insert key nothing of off owner partition
    partitions password privileges publication read refresh release rename replica reset restrict revoke role rollback
    row savepoint schema sequence session set show skip start stored subscription table tables temporary transaction
    truncate update vacuum values view with work write""".split()
)


def _is_keyword(word: str) -> bool:
    lower = word.lower()
    return KEYWORDS.get(lower) is KeywordClass.RESERVED or lower in _SHAPING


def fragments(text: str) -> StyleAndTextTuples:
    """The text in pieces, each with its style."""
    out: StyleAndTextTuples = []
    at = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup if found.lastgroup != "tag" else "string"
        if kind == "word":
            kind = "keyword" if _is_keyword(found[0]) else None
        if kind is None or kind == "name":
            continue
        if found.start() > at:
            out.append(("", text[at : found.start()]))
        out.append((f"class:{kind}", found[0]))
        at = found.end()
    if at < len(text):
        out.append(("", text[at:]))
    return out


class StatementLexer(Lexer):
    """prompt_toolkit's lexer. It reads the whole text at once, so that strings and comments may span lines."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for style, text, *_ in fragments(document.text):
            for number, part in enumerate(text.split("\n")):
                if number:
                    lines.append([])
                if part:
                    lines[-1].append((style, part))
        return lambda number: lines[number] if number < len(lines) else []
