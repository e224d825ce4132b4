"""Random functions in PL/pgSQL: few variables, all control structures, errors on purpose, and calls of each."""

from __future__ import annotations

import random

_CONDITIONS = ("division_by_zero", "numeric_value_out_of_range", "raise_exception", "data_exception", "others")
_TEXTS = ("'a'", "'Bc'", "''", "'x y'", "'12'", "null::text")
_INTEGERS = ("0", "1", "2", "-3", "7", "100", "2147483647", "null::int")


class Writer:
    """Writes one function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.integers = ["a", "b", "i", "j"]
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.next_label = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    # --- expressions --------------------------------------------------------------------------------------------------

    def integer(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.pick(*self.integers, *_INTEGERS)
        one, other = self.integer(depth - 1), self.integer(depth - 1)
        return self.pick(
            f"({one} + {other})",
            f"({one} - {other})",
            f"{one} * {other}",
            f"{one} / {other}",
            f"{one} % {other}",
            f"abs({one})",
            f"length({self.text(depth - 1)})",
            f"coalesce({one}, {other})",
            f"greatest({one}, {other})",
            f"case when {self.boolean(depth - 1)} then {one} else {other} end",
            f"xs[{self.pick('1', '2', 'i')}]",
            f"(select max(k) from items where k < {one})",
            "r.k",
        )

    def text(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self.pick("s", "t", "s", *_TEXTS)
        one, other = self.text(depth - 1), self.text(depth - 1)
        return self.pick(
            f"{one} || {other}",
            f"upper({one})",
            f"substr({one}, 2)",
            f"left({one}, {self.pick('1', '2', '-1')})",
            f"({self.integer(depth - 1)})::text",
            f"coalesce({one}, {other})",
            f"format('%s-%s', {one}, {self.integer(depth - 1)})",
            "r.v",
        )

    def boolean(self, depth: int = 2) -> str:
        one, other = self.integer(max(depth - 1, 0)), self.integer(max(depth - 1, 0))
        if depth == 0 or self.random.random() < 0.5:
            return self.pick(f"{one} < {other}", f"{one} = {other}", f"{one} is null", "found", f"s = {self.text(0)}")
        left, right = self.boolean(depth - 1), self.boolean(depth - 1)
        return self.pick(
            f"({left} and {right})", f"({left} or {right})", f"not ({left})", f"{one} between 0 and {other}"
        )

    # --- statements ---------------------------------------------------------------------------------------------------

    def put(self, level: int, line: str) -> None:
        self.lines.append("  " * level + line)

    def body(self, level: int, depth: int, most: int = 4) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement(level, depth)

    def statement(self, level: int, depth: int) -> None:
        plain = [self.assign, self.assign, self.notice, self.query, self.dynamic, self.element, self.field]
        nested = [self.if_, self.case, self.for_, self.while_, self.foreach, self.rows, self.block]
        leaves = [self.raise_, self.leave] if self.loops else [self.raise_]
        chosen = self.random.random()
        kinds = nested if depth and chosen < 0.4 else leaves if chosen > 0.93 else plain
        self.random.choice(kinds)(level, depth)

    def assign(self, level: int, depth: int) -> None:
        name = self.pick("i", "j", "s", "n", "ok")
        values = {"s": self.text, "ok": self.boolean}
        value = values.get(name, self.integer)()
        self.put(level, f"{name} {self.pick(':=', '=')} {value};")

    def notice(self, level: int, depth: int) -> None:
        self.put(level, f"raise notice '% % % %', i, j, s, {self.pick('n', 'ok', 'xs', 'r', self.text(1))};")

    def element(self, level: int, depth: int) -> None:
        self.put(level, f"xs[{self.pick('1', '2', '3', '4')}] := {self.integer(1)};")

    def field(self, level: int, depth: int) -> None:
        name = self.pick("k", "v")
        self.put(level, f"r.{name} := {self.integer(1) if name == 'k' else self.text(1)};")

    def query(self, level: int, depth: int) -> None:
        self.put(
            level,
            self.pick(
                f"select count(*), max(v) into i, s from items where k > {self.integer(1)};",
                f"select * into r from items where k = {self.integer(0)};",
                f"select k into {self.pick('', 'strict ')}j from items where k = {self.pick('1', '2', '99')};",
                "perform 1 from items where k > i;",
                f"update items set v = {self.text(1)} where k = {self.pick('1', '2', 'i')};",
                "get diagnostics j = row_count;",
            ),
        )

    def dynamic(self, level: int, depth: int) -> None:
        value = self.integer(1)
        self.put(level, f"execute 'select $1 + ' || {self.pick('1', '2', 'i')} into j using {value};")

    def if_(self, level: int, depth: int) -> None:
        self.put(level, f"if {self.boolean()} then")
        self.body(level + 1, depth - 1, 2)
        if self.random.random() < 0.5:
            self.put(level, f"elsif {self.boolean(1)} then")
            self.body(level + 1, depth - 1, 2)
        if self.random.random() < 0.5:
            self.put(level, "else")
            self.body(level + 1, depth - 1, 2)
        self.put(level, "end if;")

    def case(self, level: int, depth: int) -> None:
        if self.random.random() < 0.5:
            self.put(level, f"case {self.integer(1)}")
            self.put(level, f"when {self.integer(0)}, {self.integer(0)} then")
        else:
            self.put(level, "case")
            self.put(level, f"when {self.boolean(1)} then")
        self.body(level + 1, depth - 1, 2)
        if self.random.random() < 0.8:
            self.put(level, "else")
            self.body(level + 1, depth - 1, 2)
        self.put(level, "end case;")

    def loop(self, level: int, depth: int, head: str) -> None:
        label = f"l{self.next_label}"
        self.next_label += 1
        self.put(level, f"<<{label}>> {head} loop")
        self.loops.append(label)
        self.body(level + 1, depth - 1, 3)
        self.loops.pop()
        self.put(level, f"end loop{self.pick('', ' ' + label)};")

    def for_(self, level: int, depth: int) -> None:
        head = self.pick(
            "for q in 1..3", "for q in reverse 3..1", "for q in 0..6 by 3", f"for q in 1..least(3, {self.integer(1)})"
        )
        self.loop(level, depth, head)

    def while_(self, level: int, depth: int) -> None:
        self.put(level, "w := 0;")
        self.put(level, f"while w < 3 and {self.boolean(1)} loop")
        self.put(level + 1, "w := w + 1;")
        self.loops.append("")
        self.body(level + 1, 0, 2)
        self.loops.pop()
        self.put(level, "end loop;")

    def foreach(self, level: int, depth: int) -> None:
        self.loop(level, depth, f"foreach i in array {self.pick('array[3, 1, 2]', 'xs', 'array[i, j]')}")

    def rows(self, level: int, depth: int) -> None:
        pairs = "for i, s in select k, v from items where k > 1 order by k"
        self.loop(level, depth, self.pick("for r in select * from items order by k", pairs))

    def block(self, level: int, depth: int) -> None:
        if self.random.random() < 0.5:
            self.put(level, "declare")
            self.put(level + 1, f"j {self.pick('', 'constant ')}int := {self.pick('1', 'a', 'b + 1')};")
        self.put(level, "begin")
        self.body(level + 1, depth - 1, 3)
        if self.random.random() < 0.8:
            self.put(level, "exception")
            self.put(level, f"when {self.pick(*_CONDITIONS)} then")
            self.put(level + 1, "raise notice 'caught % %', sqlstate, sqlerrm;")
            if self.random.random() < 0.2:
                self.put(level + 1, "raise;")
        self.put(level, "end;")

    def raise_(self, level: int, depth: int) -> None:
        message = self.pick("'m'", "s")
        self.put(
            level,
            self.pick(
                f"raise exception 'stop %', {self.integer(1)};",
                "raise division_by_zero;",
                f"raise exception using message = {message}, errcode = '22012', hint = 'h';",
                f"assert {self.boolean(1)}, 'wrong';",
                "return s;",
            ),
        )

    def leave(self, level: int, depth: int) -> None:
        label = self.pick("", *[label for label in self.loops if label])
        self.put(level, f"{self.pick('exit', 'continue')} {label} when {self.boolean(1)};".replace("  ", " "))


def function(seed: int) -> str:
    """A function and two calls of it."""
    writer = Writer(seed)
    writer.body(1, 3, 6)
    lines = [
        "create or replace function f(a int, b int, t text) returns text language plpgsql as $$",
        "declare",
        "  i int := 1; j int := b; s text := t; n numeric; w int; ok boolean; xs int[] := array[a, b]; r items;",
        "begin",
        *writer.lines,
        "  return format('%s %s %s %s %s %s %s', i, j, s, n, ok, xs, r);",
        "end $$;",
        "begin; select f(1, 2, 'text'); rollback;",
        "begin; select f(0, null, null); rollback;",
    ]
    return "\n".join(lines) + "\n"


def script(seeds: range) -> str:
    head = (
        "create table items (k int primary key, v text);\ninsert into items values (1, 'one'), (2, 'two'), (3, null);\n"
    )
    return head + "".join(f"\\echo {seed}\n{function(seed)}" for seed in seeds)
