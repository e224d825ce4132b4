"""The interface of the regex engine: whether and where an expression matches a text, and where its groups are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from pgrepl.types.regex.automata import Alphabet, Dfa, Facts
from pgrepl.types.regex.charsets import Node, reverse
from pgrepl.types.regex.dissect import Dissection, Span
from pgrepl.types.regex.native import native
from pgrepl.types.regex.parser import SubRegex, parse
from pgrepl.types.regex.scanner import TOO_COMPLEX, invalid

_TRIES = 16  # beginnings that are tried one by one before all of a text are computed


class Match:
    """A match at a position of a text. Its groups are computed when asked for."""

    __slots__ = ("_begin", "_end", "_play", "_spans")

    def __init__(self, play: Play, begin: int, end: int, spans: list[Span] | None = None) -> None:
        self._play = play
        self._begin, self._end = begin, end
        self._spans = spans

    def start(self) -> int:
        return self._begin

    def end(self) -> int:
        return self._end

    def span(self, group: int = 0) -> Span:
        """The span of a group; (-1, -1) when it matched nothing."""
        if group == 0:
            return self._begin, self._end
        if self._spans is None:
            self._spans = self._play.dissected(self._begin, self._end)
        return self._spans[group]

    def group(self, group: int = 0) -> str | None:
        begin, end = self.span(group)
        return None if begin < 0 else self._play.text[begin:end]

    def groups(self) -> tuple[str | None, ...]:
        return tuple(self.group(number) for number in range(1, self._play.regex.groups + 1))


Found: TypeAlias = "Match | re.Match[str]"


class Regex:
    """A compiled expression. Its automata are built when first needed."""

    def __init__(self, pattern: str, flags: str) -> None:
        parsed = parse(pattern, flags)
        self.native = native(parsed)
        self.groups = parsed.groups
        self.tree: SubRegex = parsed.tree
        self.refers = parsed.refers
        self.ignores_case = parsed.ignore_case
        self.lookarounds = parsed.lookarounds
        self._alphabet = Alphabet()
        self._parts: dict[SubRegex, Dfa] = {}
        self._reversed: dict[int, tuple[Node, Dfa]] = {}
        self._looking: list[Dfa] | None = None
        self._searching: Dfa | None = None
        self._beginning: Dfa | None = None
        if not self.refers and self.native is None:
            self.searching  # noqa: B018 builds the automaton: a pattern that is too complex fails now

    def matches(self, text: str) -> bool:
        """Whether the expression matches anywhere in the text."""
        if self.native is not None and len(text) <= self.native.exists_upto:
            return self.native.exists.search(text) is not None
        if self.refers:
            return self.search(text) is not None
        return self.searching.find(text, 0, Play(self, text).facts) is not None

    def search(self, text: str, start: int = 0) -> Found | None:
        finds = self.finder(text) if start <= len(text) else None
        return Play(self, text).search(start) if finds is None else finds.search(text, start)

    def finder(self, text: str) -> re.Pattern[str] | None:
        """Python's `re` pattern, where it finds the same matches in this text."""
        native = self.native
        return native.finds if native is not None and len(text) <= native.finds_upto else None

    def each(self, text: str, start: int = 0) -> Iterator[Found]:
        """All matches, as setup_regexp_matches finds them: an empty match may also follow directly after a non-empty
        one."""
        finds = self.finder(text) if start <= len(text) else None
        return self._each(text, start) if finds is None else finds.finditer(text, start)

    def _each(self, text: str, start: int) -> Iterator[Match]:
        play = Play(self, text)
        while start <= len(text):
            match = play.search(start)
            if match is None:
                return
            yield match
            start = match.end() if match.end() > match.start() else match.end() + 1

    # --- automata -----------------------------------------------------------------------------------------------------

    @property
    def searching(self) -> Dfa:
        if self._searching is None:
            self._searching = Dfa(self.tree.language, self._alphabet, search=True)
        return self._searching

    @property
    def beginning(self) -> Dfa:
        """The DFA of the reversed expression: it finds where matches begin by reading the text backwards."""
        if self._beginning is None:
            self._beginning = Dfa(reverse(self.tree.language), self._alphabet, search=True)
        return self._beginning

    def of(self, part: SubRegex) -> Dfa:
        dfa = self._parts.get(part)
        if dfa is None:
            dfa = self._parts[part] = Dfa(part.language, self._alphabet)
        return dfa

    def reversed(self, language: Node) -> Dfa:
        entry = self._reversed.get(id(language))
        if entry is None:
            entry = self._reversed[id(language)] = language, Dfa(reverse(language), self._alphabet)
        return entry[1]

    @property
    def looking(self) -> list[Dfa]:
        """The DFA of each lookaround's condition; of a lookahead, reversed."""
        if self._looking is None:
            self._looking = [
                Dfa(reverse(look.node) if look.ahead else look.node, self._alphabet, search=True)
                for look in self.lookarounds
            ]
        return self._looking


class Play:
    """An expression matched against a text. Facts about the whole text are cached."""

    def __init__(self, regex: Regex, text: str) -> None:
        self.regex = regex
        self.text = text
        self._facts: list[int] | None = None
        self._backwards = ""
        self._begins: list[int] | None = None

    def search(self, start: int) -> Match | None:
        """The leftmost match that begins at `start` or later, with the length that the expression prefers."""
        if start > len(self.text):
            return None
        if self.regex.refers:
            return self._search_verified(start)
        bounds = self.regex.searching.find(self.text, start, self.facts)
        if bounds is None:
            return None
        tree = self.regex.tree
        for begin in self._candidates(*bounds):
            length = len(self.text)
            end = self.shortest(tree, begin, length) if tree.prefers_short else self.longest(tree, begin, length)
            if end >= 0:
                return Match(self, begin, end)
        raise AssertionError("a match that ends must begin")

    def _search_verified(self, start: int) -> Match | None:
        tree, length = self.regex.tree, len(self.text)
        for begin in self._all_begins(start):
            ends = self.ends(tree, begin, length)
            for end in ends if tree.prefers_short else reversed(ends):
                dissection = Dissection(self)
                if dissection.dissect(tree, begin, end):
                    return Match(self, begin, end, dissection.spans)
        return None

    def _candidates(self, cold: int, close: int) -> Iterator[int]:
        tries = range(cold, close + 1)
        yield from tries[:_TRIES]
        if len(tries) > _TRIES:
            yield from self._all_begins(cold + _TRIES)

    def _all_begins(self, start: int) -> Iterator[int]:
        """The positions where matches begin, whatever their length."""
        if self._begins is None:
            length = len(self.text)
            places = self.regex.beginning.ends(self.backwards, 0, length, self._facts_backwards())
            self._begins = [length - place for place in places]
        return (place for place in reversed(self._begins) if place >= start)

    def dissected(self, begin: int, end: int) -> list[Span]:
        dissection = Dissection(self)
        dissection.dissect(self.regex.tree, begin, end)
        return dissection.spans

    # --- parts --------------------------------------------------------------------------------------------------------

    def longest(self, part: SubRegex, begin: int, stop: int) -> int:
        return self.regex.of(part).longest(self.text, begin, stop, self.facts)

    def shortest(self, part: SubRegex, begin: int, stop: int, least: int = 0) -> int:
        """The first match end at `least` or later; -1 if there is none."""
        dfa = self.regex.of(part)
        if least <= begin:
            return next(iter(dfa.ends(self.text, begin, stop, self.facts, first=True)), -1)
        return next((end for end in dfa.ends(self.text, begin, stop, self.facts) if end >= least), -1)

    def ends(self, part: SubRegex, begin: int, stop: int) -> list[int]:
        return self.regex.of(part).ends(self.text, begin, stop, self.facts)

    def whole(self, part: SubRegex, begin: int, end: int) -> bool:
        return self.regex.of(part).whole(self.text, begin, end, self.facts)

    def begins(self, language: Node, first: int, end: int) -> Iterator[int]:
        """The positions where a match of a language may begin, at `first` or later, to end at `end`."""
        length = len(self.text)
        dfa = self.regex.reversed(language)
        return (
            length - place for place in dfa.ends(self.backwards, length - end, length - first, self._facts_backwards())
        )

    # --- the text -----------------------------------------------------------------------------------------------------

    @property
    def backwards(self) -> str:
        if not self._backwards:
            self._backwards = self.text[::-1]
        return self._backwards

    @property
    def facts(self) -> Facts | None:
        """The lookarounds that hold at each position of the text."""
        if self._facts is None and self.regex.lookarounds:
            length = len(self.text)
            self._facts = facts = [0] * (length + 1)
            for number, (look, dfa) in enumerate(zip(self.regex.lookarounds, self.regex.looking, strict=True)):
                if look.ahead:
                    places = [length - at for at in dfa.ends(self.backwards, 0, length, facts[::-1])]
                else:
                    places = dfa.ends(self.text, 0, length, facts)
                holds = set(range(length + 1)).difference(places) if look.negated else places
                for place in holds:
                    facts[place] |= 1 << number
        return self._facts

    def _facts_backwards(self) -> Facts | None:
        facts = self.facts
        return None if facts is None else facts[::-1]


@lru_cache(maxsize=512)
def compile_regex(pattern: str, flags: str = "") -> Regex:
    try:
        return Regex(pattern, flags)
    except RecursionError:
        raise invalid(TOO_COMPLEX) from None
