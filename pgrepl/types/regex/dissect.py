"""The positions of capturing groups in a match (regexec.c's cdissect and its callees).

The left part of a concatenation matches the length that it prefers, as long as the right part matches the rest; so does
each repetition of an iteration. Without back references, the automata tell which divisions match, and nothing is tried
in vain. With them every division that the automata allow may have to be tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.types.regex.charsets import Node
from pgrepl.types.regex.parser import CAPTURES, REFERS, SubRegex

Span = tuple[int, int]
NOWHERE = (-1, -1)


class Expression(Protocol):
    @property
    def groups(self) -> int: ...
    @property
    def ignores_case(self) -> bool: ...


class Play(Protocol):
    """An expression matched against a text: where its parts match (matching.py)."""

    @property
    def regex(self) -> Expression: ...
    @property
    def text(self) -> str: ...

    def longest(self, part: SubRegex, begin: int, stop: int) -> int: ...
    def shortest(self, part: SubRegex, begin: int, stop: int, least: int = 0) -> int: ...
    def ends(self, part: SubRegex, begin: int, stop: int) -> list[int]: ...
    def whole(self, part: SubRegex, begin: int, end: int) -> bool: ...
    def begins(self, language: Node, first: int, end: int) -> Iterable[int]: ...


class Dissection:
    """The dissection of one match. `spans` are the group positions found so far."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.spans: list[Span] = [NOWHERE] * (play.regex.groups + 1)

    def dissect(self, part: SubRegex, begin: int, end: int) -> bool:
        """Find the groups of a part whose language matches from begin to end. False only if a back reference does not
        match."""
        check_for_interrupts()
        if part.flags & (CAPTURES | REFERS):
            done = getattr(self, f"_{part.kind}")(part, begin, end)
            if not done:
                return False
        if part.group:
            self.spans[part.group] = begin, end
        return True

    def _plain(self, part: SubRegex, begin: int, end: int) -> bool:
        return True

    def _wrapper(self, part: SubRegex, begin: int, end: int) -> bool:
        return self.dissect(part.parts[0], begin, end)

    def _alternation(self, part: SubRegex, begin: int, end: int) -> bool:
        return any(self.play.whole(branch, begin, end) and self.dissect(branch, begin, end) for branch in part.parts)

    def _concatenation(self, part: SubRegex, begin: int, end: int) -> bool:
        left, right = part.parts
        for middle in self._middles(part, begin, end):
            if self.dissect(left, begin, middle) and self.dissect(right, middle, end):
                return True
            self.forget(part)
        return False

    def _middles(self, part: SubRegex, begin: int, end: int) -> Iterable[int]:
        """The positions where the left part of a concatenation may end so that the right part matches the rest,
        preferred first."""
        play, (left, right) = self.play, part.parts
        first = play.shortest(left, begin, end) if left.prefers_short else play.longest(left, begin, end)
        if first >= 0 and play.whole(right, first, end):
            yield first
        begins = set(play.begins(right.language, begin, end))
        for middle in _ordered(play.ends(left, begin, end), left.prefers_short):
            if middle != first and middle in begins:
                yield middle

    def forget(self, part: SubRegex) -> None:
        if part.group:
            self.spans[part.group] = NOWHERE
        for child in part.parts:
            self.forget(child)

    # --- back references ----------------------------------------------------------------------------------------------

    def _reference(self, part: SubRegex, begin: int, end: int) -> bool:
        low, high = self.spans[part.reference]
        if low < 0:
            return False
        if low == high:
            return begin == end
        if begin == end:
            return part.low == 0
        count, rest = divmod(end - begin, high - low)
        if rest or count < part.low or (part.high is not None and count > part.high):
            return False
        text = self.play.text
        if not self.play.regex.ignores_case:
            return text[low:high] * count == text[begin:end]
        return _folded(text[low:high]) * count == _folded(text[begin:end])

    # --- iterations ---------------------------------------------------------------------------------------------------

    def _iteration(self, part: SubRegex, begin: int, end: int) -> bool:
        may_be_none = part.low == 0 and begin == end
        if may_be_none and part.parts[0].prefers_short:
            return True
        if part.flags & REFERS:
            return _Attempts(self, part, begin, end).succeed() or may_be_none
        if may_be_none and not self.play.whole(part.parts[0], begin, end):
            return True
        place = self._last_repetition(part, begin, end)
        return self.dissect(part.parts[0], place, end)

    def _last_repetition(self, part: SubRegex, begin: int, end: int) -> int:
        """The start of the last repetition. No repetition is empty, unless the whole text is."""
        play, child = self.play, part.parts[0]
        if part.high is None:
            good = set(play.begins(part.language, begin, end))
            last = at = begin
            while at < end:
                last = at
                nexts = [place for place in play.ends(child, at, end) if place > at and place in good]
                at = nexts[0] if child.prefers_short else nexts[-1]
            return last
        failed: set[tuple[int, int]] = set()

        def search(at: int, left: int) -> int | None:
            """The start of the last of at most `left` repetitions from a position to the end."""
            check_for_interrupts()
            for place in _ordered(play.ends(child, at, end), child.prefers_short):
                if place == end:
                    return at
                if place > at and left > 1 and (place, left - 1) not in failed:
                    match = search(place, left - 1)
                    if match is not None:
                        return match
            failed.add((at, left))
            return None

        match = search(begin, part.high)
        assert match is not None
        return match


class _Attempts:
    """The ways to divide a text among the repetitions of a part with back references, in PostgreSQL's order."""

    def __init__(self, dissection: Dissection, part: SubRegex, begin: int, end: int) -> None:
        self.dissection = dissection
        self.child = part.parts[0]
        self.begin, self.end = begin, end
        self.least = max(part.low, 1)
        most = end - begin if part.high is None else min(end - begin, part.high)
        self.most = max(most, self.least)

    def succeed(self) -> bool:
        return self._shortest_first() if self.child.prefers_short else self._longest_first()

    def _needs_empty(self, count: int, place: int) -> bool:
        """Whether the text left is too short for the repetitions still required."""
        return count < self.least and self.least - count >= self.end - place

    def _verified(self, places: list[int], verified: int) -> int:
        """The number of leading repetitions that match, back references included. Repetitions after the first mismatch
        are dropped."""
        for number in range(verified + 1, len(places)):
            self.dissection.forget(self.child)
            if not self.dissection.dissect(self.child, places[number - 1], places[number]):
                del places[number + 1 :]
                return number - 1
        return len(places) - 1

    def _longest_first(self) -> bool:
        longest = self.dissection.play.longest
        places = [self.begin]
        verified, limit = 0, self.end
        while True:
            check_for_interrupts()
            place = longest(self.child, places[-1], limit)
            count = len(places)
            if place < 0:
                back = True
            else:
                verified = min(verified, count - 1)
                places.append(place)
                back = True
                if place != self.end:
                    if count >= self.most:
                        places.pop()
                    elif place != places[-2] or self._needs_empty(count, place):
                        back, limit = False, self.end
                elif count >= self.least:
                    verified = self._verified(places, verified)
                    if verified == count:
                        return True
            if not back:
                continue
            while len(places) > 1:
                last, before = places[-1], places[-2]
                count = len(places) - 1
                limit = last - 1
                if last > before and (limit > before or self._needs_empty(count, before)):
                    break
                places.pop()
            else:
                return False
            places.pop()

    def _shortest_first(self) -> bool:
        play = self.dissection.play
        places = [self.begin]
        verified, limit = 0, self.begin
        while True:
            check_for_interrupts()
            count = len(places)
            if limit == places[-1] and limit != self.end:
                if count >= self.least or self.least - count < self.end - limit:
                    limit += 1
            if count >= self.most:
                limit = self.end
            place = play.shortest(self.child, places[-1], self.end, limit)
            back = True
            if place >= 0:
                verified = min(verified, count - 1)
                places.append(place)
                if place != self.end:
                    if count >= self.most:
                        places.pop()
                    else:
                        back, limit = False, place
                elif count >= self.least:
                    verified = self._verified(places, verified)
                    if verified == count:
                        return True
            if not back:
                continue
            while len(places) > 1 and places[-1] >= self.end:
                places.pop()
            if len(places) == 1:
                return False
            limit = places.pop() + 1


def _ordered(places: list[int], ascending: bool) -> Iterable[int]:
    return places if ascending else reversed(places)


def _folded(text: str) -> str:
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
