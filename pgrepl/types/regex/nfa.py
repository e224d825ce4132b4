"""The NFA of a pattern (Thompson's construction), with conditions on the steps that read no character."""

from __future__ import annotations

from typing import NamedTuple

from pgrepl.interrupts import check_for_interrupts
from pgrepl.types.regex.charsets import CharSet
from pgrepl.types.regex.scanner import TOO_COMPLEX, invalid
from pgrepl.types.regex.syntax import Alternatives, Chars, Look, Neighbour, Node, Repeat, Sequence

MAX_STATES = 40_000
EDGE = 1  # the bit of the text's edge, beside the bits of character sets


class Alphabet:
    """The character sets of a pattern, numbered. The automata see a character only as the sets it belongs to."""

    def __init__(self) -> None:
        self._numbers: dict[CharSet, int] = {}
        self._bits: dict[str, int] = {"": EDGE}

    def bit(self, of: CharSet) -> int:
        number = self._numbers.get(of)
        if number is None:
            number = self._numbers[of] = len(self._numbers) + 1
            self._bits = {"": EDGE}
        return 1 << number

    def bits(self, char: str) -> int:
        """The sets that a character belongs to; the empty string stands for the edge of the text."""
        found = self._bits.get(char)
        if found is None:
            found = sum(1 << number for of, number in self._numbers.items() if char in of)
            self._bits[char] = found
        return found


class Condition(NamedTuple):
    """A condition of an empty step: the neighbouring character is in one of the sets, or a lookaround holds."""

    ahead: bool = False
    sets: int = 0
    look: int = -1


class Nfa:
    """An NFA. States are numbers; `reads` has the character sets that a state reads, and the next state."""

    def __init__(self, language: Node, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self.reads: list[tuple[int, int] | None] = []
        self.steps: list[list[tuple[Condition | None, int]]] = []
        self.behind = 0  # sets that conditions test on the character before
        self.looks = 0  # lookarounds that conditions test, as bits
        self.final = self._state()
        self.start = self._to(language, self.final)

    def _state(self) -> int:
        if len(self.reads) >= MAX_STATES:
            raise invalid(TOO_COMPLEX)
        if len(self.reads) % 1024 == 0:
            check_for_interrupts()
        self.reads.append(None)
        self.steps.append([])
        return len(self.reads) - 1

    def _step(self, origin: int, target: int, condition: Condition | None = None) -> None:
        self.steps[origin].append((condition, target))

    def _to(self, node: Node, target: int) -> int:
        """The state from which the language leads to another state."""
        if isinstance(node, Chars):
            state = self._state()
            self.reads[state] = self.alphabet.bit(node.of), target
            return state
        if isinstance(node, Sequence):
            for each in reversed(node.nodes):
                target = self._to(each, target)
            return target
        if isinstance(node, Repeat):
            return self._repeat(node, target)
        state = self._state()
        if isinstance(node, Alternatives):
            for each in node.nodes:
                self._step(state, self._to(each, target))
        elif isinstance(node, Look):
            self.looks |= 1 << node.number
            self._step(state, target, Condition(look=node.number))
        else:
            assert isinstance(node, Neighbour)
            sets = (EDGE if node.edge else 0) | (self.alphabet.bit(node.of) if node.of is not None else 0)
            if not node.ahead:
                self.behind |= sets
            self._step(state, target, Condition(node.ahead, sets))
        return state

    def _repeat(self, node: Repeat, target: int) -> int:
        if node.high is None:
            loop = self._state()
            self._step(loop, target)
            self._step(loop, self._to(node.node, loop))
            target = loop
        else:
            last = target
            for _ in range(node.high - node.low):
                state = self._state()
                self._step(state, self._to(node.node, target))
                self._step(state, last)
                target = state
        for _ in range(node.low):
            target = self._to(node.node, target)
        return target
