"""Random patterns and texts, and what a real PostgreSQL 17 makes of them, in `regexes.jsonl`.

    python -m tests.expr.make_regexes "host=/var/run/postgresql user=postgres"
    python -m tests.expr.make_regexes "host=/var/run/postgresql user=postgres" 20000 7   compares so many, from a seed

The server's locale must be C: patterns and texts are ASCII.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.types.asked import Answer, ask, load, save

ANSWERS = Path(__file__).with_name("regexes.jsonl")
RECORDED = 300

_ATOMS = (
    *"abcabx.^$1_ A", "[ab]", "[^a]", "[a-c]", "\\d", "\\w", "\\s", "\\y", "\\m", "\\M", "\\Y", "\\A", "\\Z", "\\W",
    "\\D", "\\n", "[[:alpha:]]", "[[:digit:]b]", "[\\W\\d]", "[^\\w]", "[[.a.]-[.c.]]", "[[=b=]]", "\\x62", "\\u0061",
)  # fmt: skip
_QUANTIFIERS = (
    "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}?", "{1,1}?", "{2}?", "{0}", "{1,}", "{0,2}", "{1,3}?",
    "{,2}", "{2,1}",
)  # fmt: skip
_GARBAGE = (
    *"()[]{}*+?|\\^$-:.=,1#", "(?", "[[:", ":]", "[[.", "\\x", "\\u12", "(?i)", "***:", "***=", "(?e)", "(?b)", "(?q)",
    "(?x)", "(?#", "[^", "\\c", "\\0", "\\12",
)  # fmt: skip
_SIMILAR = (*'aabbc%_|()*+?[]^$.\\#"{}1,-', '#"', "[ab]", "(a|b)", "a{2}")


class _Patterns:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, least: int, most: int, make: Callable[[], str]) -> str:
        return "".join(make() for _ in range(self.random.randint(least, most)))

    def regex(self, depth: int) -> str:
        count = self.random.choice((1, 1, 1, 1, 2, 2, 3))
        return "|".join(self.some(0, 4, lambda: self.quantified(depth)) for _ in range(count))

    def quantified(self, depth: int) -> str:
        atom = self.atom(depth)
        return atom + self.random.choice(_QUANTIFIERS) if self.random.random() < 0.4 else atom

    def atom(self, depth: int) -> str:
        kind = self.random.random()
        if depth and kind < 0.33:
            opening = self.random.choice(("(", "(", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!"))
            return opening + self.regex(depth - 1) + ")"
        if kind < 0.37:
            return self.random.choice(("\\1", "\\1", "\\2"))
        return self.random.choice("abc" if kind < 0.75 else _ATOMS)

    def garbled(self, pattern: str) -> str:
        at = self.random.randint(0, len(pattern))
        return pattern[:at] + self.random.choice(_GARBAGE) + pattern[at + self.random.randint(0, 1) :]

    def text(self) -> str:
        letters = self.random.choice(("abc", "abc", "aabbcABx1 \n_.[^-"))
        return self.some(0, 11, lambda: self.random.choice(letters))

    def flags(self) -> str:
        return self.some(0, 2, lambda: self.random.choice("iinpwsxgq")) if self.random.random() < 0.4 else ""

    def expression(self) -> str:
        pattern = self.regex(self.random.randint(0, 3))
        if self.random.random() < 0.1:
            pattern = self.garbled(pattern)
        replacement = self.some(0, 3, lambda: self.random.choice(("x", "\\1", "\\2", "\\&", "\\\\", "-", "\\9")))
        start, number = self.random.choice((1, 1, 2, 3, 20, 0)), self.random.choice((1, 1, 2, 0))
        group = self.random.choice((0, 0, 1, 2))
        text, regex, flags = quoted(self.text()), quoted(pattern), quoted(self.flags())
        similar = quoted(self.some(0, 7, lambda: self.random.choice(_SIMILAR)))
        like = quoted(self.some(0, 7, lambda: self.random.choice("aab%%_\\#cA")))
        return self.random.choice(
            (
                f"regexp_match({text}, {regex}, {flags})",
                f"regexp_match({text}, {regex})",
                f"regexp_matches({text}, {regex}, {flags})",
                f"regexp_matches({text}, {regex}, 'g')",
                f"regexp_replace({text}, {regex}, {quoted(replacement)}, {flags})",
                f"regexp_replace({text}, {regex}, {quoted(replacement)}, {start}, {number}, {flags})",
                f"regexp_split_to_array({text}, {regex}, {flags})",
                f"regexp_split_to_table({text}, {regex})",
                f"substring({text} from {regex})",
                f"regexp_count({text}, {regex}, {start}, {flags})",
                f"regexp_instr({text}, {regex}, {start}, {number}, {group % 2}, {flags}, {group})",
                f"regexp_substr({text}, {regex}, {start}, {number}, {flags}, {group})",
                f"regexp_like({text}, {regex}, {flags})",
                f"{text} ~ {regex}",
                f"{text} !~* {regex}",
                f"{text} SIMILAR TO {similar}",
                f"substring({text} SIMILAR {similar} ESCAPE '#')",
                f"{text} LIKE {like}",
                f"{text} ILIKE {like}",
                f"{text} NOT LIKE {like} ESCAPE '#'",
            )
        )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def expressions(seed: int) -> Iterator[str]:
    patterns = _Patterns(seed)
    while True:
        yield patterns.expression()


# What has been wrong before, and what backtracking never finishes.
KNOWN = (
    "regexp_match('llff', '^(l*){1,1}?(.*)(f*)$')",
    "regexp_match('ab', '$()|^\\1')",
    "regexp_match('aa', '(?=(a)\\1)')",
    "regexp_match('aa', '(?=(a))(a)')",
    "regexp_match('', '(a*)*')",
    "regexp_match('', '(a*?)*')",
    "regexp_match('abc', '(b){0}(a|(\\1))')",
    "E'a\\nb' ~ '(?n)a\\Wb'",
    "regexp_match('abcd', '(a|ab)(c|bcd)(d*)')",
    "regexp_match('XY1234Z', 'Y*?([0-9]{1,3})')",
    "regexp_match('a', '(x{255}){255}')",
    "repeat('a', 40) || 'b' ~ '^(a+)+$'",
    "repeat('a', 100000) LIKE '%a%a%a%a%a%a%b'",
    "repeat('a', 100000) || 'b' LIKE '%a%a%a%a%a%a%b'",
    "repeat('a', 20000) ~ '(a*)*(a*)*(a*)*b'",
    "length((regexp_match(repeat('a', 5000), '(a|aa)*(a*)*$'))[1])",
    "regexp_match(repeat('ab', 2000) || 'c', '(a|b|ab)*(b|bc)$')",
    "repeat('x', 300) SIMILAR TO '(x+x+)+y'",
    "regexp_count(repeat('aab', 3000), '(?=(a+)b)a')",
    "regexp_replace(repeat('ab ', 3000), '(\\w+)\\s+$', '')= repeat('ab ', 2999)",
)


def make(conninfo: str) -> None:
    stream = expressions(1)
    asked = [*KNOWN, *(next(stream) for _ in range(RECORDED))]
    answers = ask(conninfo, [({}, f"SELECT {expression}") for expression in asked])
    save(ANSWERS, ([expression, answer] for expression, answer in zip(asked, answers, strict=True)))


def recorded() -> list[tuple[str, Answer]]:
    return [(expression, answer) for expression, answer in load(ANSWERS)]


def compare(conninfo: str, count: int, seed: int) -> None:
    from tests.expr.test_regexes import answer_to

    stream = expressions(seed)
    asked = [next(stream) for _ in range(count)]
    answers = ask(conninfo, [({}, f"SELECT {expression}") for expression in asked])
    different = 0
    for expression, expected in zip(asked, answers, strict=True):
        found = answer_to(expression)
        if found != expected:
            different += 1
            print(f"{expression}\n    {expected}\n    {found}")
    print(f"{different} of {count} differ")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        compare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        make(sys.argv[1] if len(sys.argv) > 1 else "")
