"""The automata of a pattern: its NFA (Thompson's construction), and the DFA, whose states are computed when a text
first reaches them.

Whether a match ends may depend on the character behind it, so a state tells of the position before the character that
led to it, as in PostgreSQL's engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.types.regex.charsets import Alternatives, Chars, CharSet, Look, Neighbour, Node, Repeat
from pgrepl.types.regex.charsets import Sequence as SequenceNode
from pgrepl.types.regex.scanner import TOO_COMPLEX, invalid

MAX_NFA_STATES = 40_000
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
        bits = self._bits.get(char)
        if bits is None:
            bits = sum(1 << number for of, number in self._numbers.items() if char in of)
            self._bits[char] = bits
        return bits


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
        if len(self.reads) >= MAX_NFA_STATES:
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
        if isinstance(node, SequenceNode):
            for part in reversed(node.nodes):
                target = self._to(part, target)
            return target
        if isinstance(node, Repeat):
            return self._repeat(node, target)
        state = self._state()
        if isinstance(node, Alternatives):
            for part in node.nodes:
                self._step(state, self._to(part, target))
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


# --- dfa --------------------------------------------------------------------------------------------------------------


MAX_DFA_STATES = 3_000  # kept; when more are needed, all are dropped
_SLICE = 512  # characters between two checks for interrupts

ENDED, DEAD, COLD = 1, 2, 4  # a match ended before the last character; none can end later; nothing has begun yet

Facts = Sequence[int]  # for each position, the lookarounds that hold there, as bits


class State(dict[object, "State"]):
    """A DFA state: maps the next character to the next state; with lookarounds, the character and the lookarounds that
    hold."""

    __slots__ = ("core", "dfa", "flag", "previous")

    def __init__(self, dfa: Dfa, core: frozenset[int], previous: int, flag: int) -> None:
        self.dfa = dfa
        self.core = core
        self.previous = previous
        self.flag = flag

    def __missing__(self, key: object) -> State:
        char, facts = key if isinstance(key, tuple) else (key, 0)
        state = self.dfa.step(self, char, facts)
        self[key] = state
        return state


class Dfa:
    def __init__(self, language: Node, alphabet: Alphabet, *, search: bool = False) -> None:
        """`search`: a match may begin anywhere from the start on."""
        self.nfa = Nfa(language, alphabet)
        self.alphabet = alphabet
        self.search = search
        self._states: dict[tuple[frozenset[int], int, int], State] = {}
        self._by_sets: dict[tuple[frozenset[int], int, int, int], tuple[frozenset[int], int, int]] = {}
        self._beginning = frozenset({self.nfa.start})

    # --- building -----------------------------------------------------------------------------------------------------

    def begin(self, before: str) -> State:
        """The start state at a position that follows this character."""
        return self._state(self._beginning, self.alphabet.bits(before) & self.nfa.behind, COLD if self.search else 0)

    def _state(self, core: frozenset[int], previous: int, flag: int) -> State:
        key = core, previous, flag
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MAX_DFA_STATES:
                self._forget()
            state = self._states[key] = State(self, core, previous, flag)
        return state

    def _forget(self) -> None:
        for state in self._states.values():
            state.clear()
        self._states = {}
        self._by_sets = {}

    def step(self, state: State, char: str, facts: int) -> State:
        """The next state for a character; the empty string stands for the end of the text."""
        sets = self.alphabet.bits(char)
        key = state.core, state.previous, sets, facts
        move = self._by_sets.get(key)
        if move is None:
            move = self._by_sets[key] = self._move(state, sets, facts)
        return self._state(*move)

    def _move(self, state: State, sets: int, facts: int) -> tuple[frozenset[int], int, int]:
        nfa = self.nfa
        reached = self._reach(state.core, state.previous, sets, facts)
        core = {target for target in reached if target >= 0}
        flag = ENDED if -1 in reached else 0
        if self.search:
            if not core:
                flag |= COLD
            core.add(nfa.start)
        if not core:
            flag |= DEAD
        return frozenset(core), sets & nfa.behind, flag

    def _reach(self, core: frozenset[int], previous: int, sets: int, facts: int) -> set[int]:
        """The states after the next character; -1: a match ends before it."""
        nfa = self.nfa
        steps, reads, final = nfa.steps, nfa.reads, nfa.final
        seen = set(core)
        waiting = list(core)
        reached = set()
        while waiting:
            origin = waiting.pop()
            read = reads[origin]
            if read is not None:
                if read[0] & sets:
                    reached.add(read[1])
            elif origin == final:
                reached.add(-1)
            for condition, target in steps[origin]:
                if target in seen:
                    continue
                if condition is not None:
                    if condition.look >= 0:
                        if not facts >> condition.look & 1:
                            continue
                    elif not (sets if condition.ahead else previous) & condition.sets:
                        continue
                seen.add(target)
                waiting.append(target)
        return reached

    # --- playing ------------------------------------------------------------------------------------------------------

    def ends(self, text: str, begin: int, stop: int, facts: Facts | None, *, first: bool = False) -> list[int]:
        """The end positions of matches that begin at a position, up to `stop`, in order; only the first, if asked."""
        ends: list[int] = []
        state = self.begin(text[begin - 1] if begin else "")
        at = begin
        for piece in self._pieces(text, begin, stop, facts):
            for key in piece:
                state = state[key]
                flag = state.flag
                if flag:
                    if flag & ENDED:
                        ends.append(at)
                        if first:
                            return ends
                    if flag & DEAD:
                        return ends
                at += 1
        return ends

    def longest(self, text: str, begin: int, stop: int, facts: Facts | None) -> int:
        """The end of the longest match; -1 if there is none."""
        end = -1
        state = self.begin(text[begin - 1] if begin else "")
        at = begin
        for piece in self._pieces(text, begin, stop, facts):
            for key in piece:
                state = state[key]
                flag = state.flag
                if flag:
                    if flag & ENDED:
                        end = at
                    if flag & DEAD:
                        return end
                at += 1
        return end

    def whole(self, text: str, begin: int, end: int, facts: Facts | None) -> bool:
        return self.longest(text, begin, end, facts) == end

    def find(self, text: str, begin: int, facts: Facts | None) -> tuple[int, int] | None:
        """For a searching DFA: a position before which no match begins, and the first position where one ends."""
        state = self.begin(text[begin - 1] if begin else "")
        cold = at = begin
        for piece in self._pieces(text, begin, len(text), facts):
            for key in piece:
                state = state[key]
                flag = state.flag
                if flag:
                    if flag & ENDED:
                        return cold, at
                    cold = at + 1
                at += 1
        return None

    def _pieces(self, text: str, begin: int, stop: int, facts: Facts | None) -> Iterator[Iterable[object]]:
        """The keys of the transitions: the characters up to the one behind `stop`, which may decide an end there."""
        length = len(text)
        last = min(stop + 1, length)
        asks = facts is not None and self.nfa.looks
        for at in range(begin, last, _SLICE):
            check_for_interrupts()
            upto = min(at + _SLICE, last)
            piece = text[at:upto]
            yield zip(piece, facts[at:upto], strict=True) if asks and facts is not None else piece
        if stop == length:
            yield ("",) if not asks or facts is None else (("", facts[length]),)
