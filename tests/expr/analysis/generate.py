"""Random expressions and queries over the tables of schema.sql: many mean something, many are wrong in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from pgrepl.types import builtin

COLUMNS = "a b c d ts tz tm tt iv f4 f8 s l g v ch u js jb by n o lsn ia ta na bi vb v2 q tc va ts3".split()
LITERALS = [
    "1", "0", "-5", "1.5", "1e10", "99999999999", "'x'", "'1'", "'2020-01-01'", "'{1,2}'", "'t'", "null", "true",
    "'1 day'", "b'101'", "date '2020-01-01'", "'10:00'::time", "interval '1 day'", "array[1,2]", "array['a']", "'0/1'",
    "''", "'a''b'", "now()", "current_date", "row(1,'x')", "'{\"a\":1}'", "1::numeric(5,2)", "'abc'::varchar(2)",
    "1.5::real", "5::smallint", "7::bigint",
]  # fmt: skip
TYPES = [
    "int", "smallint", "bigint", "numeric", "numeric(5,1)", "real", "float8", "text", "varchar", "varchar(3)",
    "char(3)", "char", "name", "bool", "date", "time", "timetz", "timestamp", "timestamptz", "timestamp(2)", "interval",
    "uuid", "json", "jsonb", "bytea", "oid", "pg_lsn", "int[]", "text[]", "numeric[]", "bit(3)", "varbit", "regclass",
    "varchar(3)[]", '"char"', "bpchar", "xid", "regtype",
]  # fmt: skip
COMMON = ["+", "-", "*", "/", "=", "<>", "<", ">", "<=", ">=", "||", "%", "~~", "~", "->", "->>", "@>", "&&", "#", "&"]
PREFIX = ["-", "+", "~", "@", "|/"]
TESTS = ["is null", "is not null", "is true", "is not false", "is unknown"]
# types whose values pgrepl does not read, and functions that servers of other versions have not
_FOREIGN_TYPES = {
    "tsquery", "tsvector", "jsonpath", "xml", "point", "lseg", "line", "box", "path", "polygon", "circle", "money",
    "txid_snapshot", "pg_snapshot", "aclitem", "refcursor", "internal", "cstring", "int2vector", "oidvector",
}  # fmt: skip


def _known(types: tuple[int, ...]) -> bool:
    found = [builtin.type_by_oid(t) for t in types if t]
    return all(t is not None and t.name.lstrip("_") not in _FOREIGN_TYPES and t.typtype != "r" for t in found)


OPERATORS = sorted(
    {o.name for o in builtin.operators if all(_known((p.left, p.right)) for p in builtin.operators_by_name(o.name))}
)
FUNCTIONS = sorted(
    {
        p.name
        for p in builtin.procs
        if p.kind == "f" and p.schema == "pg_catalog" and p.oid < 6000
        and not p.name.startswith(("pg_", "lo_", "binary_", "brin_", "unicode_", "icu_", "xml"))
        and p.name not in ("json_object", "timezone")
        and p.name.isidentifier() and all(_known(o.argtypes) for o in builtin.procs_by_name(p.name))
    }
)  # fmt: skip
AGGREGATES = [
    "sum",
    "avg",
    "min",
    "max",
    "count",
    "array_agg",
    "string_agg",
    "bool_and",
    "bit_or",
    "json_agg",
    "stddev",
]


@dataclass
class Expressions:
    random: Random

    def expression(self, depth: int) -> str:
        r = self.random
        if depth <= 0:
            return r.choice(COLUMNS) if r.random() < 0.6 else r.choice(LITERALS)
        forms, weights = zip(*_FORMS, strict=True)
        form = r.choices(forms, weights)[0]
        return str(form(self, depth))

    def part(self, depth: int) -> str:
        text = self.expression(depth - 1)
        return f"({text})" if " " in text and self.random.random() < 0.6 else text

    def several(self, counts: list[int], depth: int) -> str:
        return ", ".join(self.expression(depth - 1) for _ in range(self.random.choice(counts)))

    def binary(self, depth: int) -> str:
        operator = self.random.choice(COMMON if self.random.random() < 0.85 else OPERATORS)
        return f"{self.part(depth)} {operator} {self.part(depth)}"

    def prefix(self, depth: int) -> str:
        return f"{self.random.choice(PREFIX)} {self.part(depth)}"

    def call(self, depth: int) -> str:
        return f"{self.random.choice(FUNCTIONS)}({self.several([0, 1, 1, 1, 2, 2, 3, 4], depth)})"

    def aggregate(self, depth: int) -> str:
        return f"{self.random.choice(AGGREGATES)}({self.several([0, 1, 1, 2], depth)})"

    def cast(self, depth: int) -> str:
        return f"{self.part(depth)}::{self.random.choice(TYPES)}"

    def boolean(self, depth: int) -> str:
        if self.random.random() < 0.3:
            return f"not {self.part(depth)}"
        return f"{self.part(depth)} {self.random.choice(['and', 'or'])} {self.part(depth)}"

    def test(self, depth: int) -> str:
        if self.random.random() < 0.4:
            return f"{self.part(depth)} is {self.random.choice(['', 'not '])}distinct from {self.part(depth)}"
        return f"{self.part(depth)} {self.random.choice(TESTS)}"

    def membership(self, depth: int) -> str:
        return f"{self.part(depth)} {self.random.choice(['in', 'not in'])} ({self.several([1, 2, 3], depth)})"

    def between(self, depth: int) -> str:
        word = self.random.choice(["between", "not between", "between symmetric", "not between symmetric"])
        return f"{self.part(depth)} {word} {self.expression(0)} and {self.expression(0)}"

    def choice(self, depth: int) -> str:
        name = self.random.choice(["coalesce", "greatest", "least"])
        return f"{name}({self.several([1, 2, 3], depth)})"

    def nullif(self, depth: int) -> str:
        return f"nullif({self.several([2], depth)})"

    def case(self, depth: int) -> str:
        argument = self.expression(depth - 1) if self.random.random() < 0.4 else ""
        default = f"else {self.expression(depth - 1)}" if self.random.random() < 0.5 else ""
        return f"case {argument} when {self.expression(depth - 1)} then {self.expression(depth - 1)} {default} end"

    def array(self, depth: int) -> str:
        return f"array[{self.several([1, 2, 3], depth)}]"

    def array_operator(self, depth: int) -> str:
        word = self.random.choice(["any", "all"])
        return f"{self.part(depth)} {self.random.choice(COMMON)} {word} ({self.expression(depth - 1)})"

    def rows(self, depth: int) -> str:
        operator = self.random.choice(["=", "<", "<>", ">=", "is distinct from"])
        return f"({self.several([2], depth)}) {operator} ({self.several([2], depth)})"

    def subscript(self, depth: int) -> str:
        return f"{self.random.choice(['ia', 'ta', 'jb', 'na', 'va'])}[{self.expression(depth - 1)}]"

    def like(self, depth: int) -> str:
        word = self.random.choice(["like", "ilike", "not like", "similar to", "not similar to"])
        return f"{self.part(depth)} {word} {self.part(depth)}"

    def collate(self, depth: int) -> str:
        return f'{self.part(depth)} collate "{self.random.choice(["C", "POSIX", "default"])}"'

    def syntax(self, depth: int) -> str:
        one, two, three = (self.part(depth) for _ in range(3))
        field_name = self.random.choice(["year", "epoch", "day", "hour"])
        return self.random.choice(
            [
                f"extract({field_name} from {one})",
                f"{one} at time zone {two}",
                f"substring({one} from {two} for {three})",
                f"trim({one} from {two})",
                f"overlay({one} placing {two} from {three})",
            ]
        )

    def subquery(self, depth: int) -> str:
        column = self.expression(0)
        if self.random.random() < 0.5:
            return f"(select {column} from u limit 1)"
        return f"{self.part(depth)} in (select {column} from u)"


_FORMS = [
    (Expressions.binary, 25), (Expressions.prefix, 5), (Expressions.call, 12), (Expressions.cast, 11),
    (Expressions.boolean, 6), (Expressions.test, 3), (Expressions.membership, 4), (Expressions.between, 3),
    (Expressions.choice, 5), (Expressions.nullif, 2), (Expressions.case, 6), (Expressions.array, 2),
    (Expressions.array_operator, 2), (Expressions.rows, 2), (Expressions.subscript, 2), (Expressions.like, 2),
    (Expressions.collate, 1), (Expressions.syntax, 2), (Expressions.aggregate, 1), (Expressions.subquery, 2),
]  # fmt: skip


@dataclass
class Level:
    """What a query being written can refer to: relations with their columns."""

    relations: list[tuple[str, list[str]]] = field(default_factory=list)


@dataclass
class Queries:
    random: Random
    tables: dict[str, list[str]] = field(
        default_factory=lambda: {
            "t": "a b c d ts s l g v f8".split(),
            "u": "a b d x y z".split(),
            "w": "id a v n".split(),
            "s2.t": "a k".split(),
            "one": ["a"],
        }
    )

    def query(self) -> str:
        if self.random.random() > 0.2:
            return self.select(2)[0]
        common, columns = self.select(1)
        name = self.random.choice(["t", "common", "u"])
        inner = Queries(self.random, {**self.tables, name: columns})
        return f"with {name} as {self.random.choice(['', 'materialized '])}({common}) {inner.select(2)[0]}"

    def alias(self, letters: str) -> str:
        return self.random.choice(letters.split()) + str(self.random.randint(1, 9))

    def relation(self, level: Level, depth: int) -> str:
        r, x = self.random, self.random.random()
        if x < 0.6 or depth <= 0:
            return self.table(level)
        if x < 0.8:
            inner, columns = self.select(depth - 1, level if r.random() < 0.2 else None)
            alias = self.alias("s sub")
            level.relations.append((alias, columns))
            return f"({inner}) {alias}"
        alias = self.alias("f v")
        if x < 0.9:
            level.relations.append((alias, [alias]))
            return f"generate_series(1, {r.randint(1, 5)}) {alias}"
        level.relations.append((alias, ["column1", "column2"]))
        return f"(values (1, 'x'), (2, 'y')) {alias}"

    def table(self, level: Level) -> str:
        r = self.random
        name = r.choice(list(self.tables))
        columns = list(self.tables[name])
        if r.random() < 0.5:
            level.relations.append((name.split(".")[-1], columns))
            return name
        alias, renamed = self.alias("p q r"), ""
        if r.random() < 0.2:
            count = r.randint(1, min(3, len(columns)))
            columns[:count] = [f"c{r.randint(1, 5)}{number}" for number in range(count)]
            renamed = f"({', '.join(columns[:count])})"
        level.relations.append((alias, columns))
        return f"{name} {r.choice(['', 'as '])}{alias}{renamed}"

    def item(self, level: Level, depth: int) -> str:
        r = self.random
        if depth <= 0 or r.random() > 0.35:
            return self.relation(level, depth)
        left = self.item(level, depth - 1)
        before = len(level.relations)
        right = self.item(level, depth - 1)
        kind = r.choice(
            ["join", "left join", "right join", "full join", "cross join", "natural join", "natural left join"]
        )
        condition = ""
        if not kind.startswith(("cross", "natural")):
            condition = self.join_condition(level, before)
        text = f"{left} {kind} {right}{condition}"
        if r.random() < 0.3:
            text = f"({text})"
            if r.random() < 0.3:
                alias = self.alias("j")
                level.relations[:] = [(alias, [c for _, columns in level.relations for c in columns])]
                text += f" {alias}"
        return text

    def join_condition(self, level: Level, before: int) -> str:
        r = self.random
        if r.random() < 0.5:
            return f" on {self.condition(level, 1)}"
        left = {c for _, columns in level.relations[:before] for c in columns}
        shared = sorted({c for _, columns in level.relations[before:] for c in columns} & left) or ["a"]
        names = r.sample(shared, min(len(shared), r.choice([1, 1, 2])))
        alias = f" as {self.alias('ju')}" if r.random() < 0.1 else ""
        return f" using ({', '.join(names)}){alias}"

    def column(self, level: Level) -> str:
        r = self.random
        if not level.relations or r.random() < 0.01:
            return r.choice(["a", "b", "foo", "t.a"])
        alias, columns = r.choice(level.relations)
        name = r.choice(columns or ["a"])
        return name if r.random() < 0.12 else f"{alias}.{name}"

    def scalar(self, level: Level, depth: int) -> str:
        x, column = self.random.random(), self.column(level)
        if x < 0.6 or depth <= 0:
            return column
        if x < 0.7:
            return f"{self.scalar(level, depth - 1)} is null"
        if x < 0.76:
            return f"coalesce({column}::text, {self.column(level)}::text)"
        if x < 0.82:
            return f"lower({column}::text)"
        if x < 0.88:
            return f"case when {self.condition(level, depth - 1)} then {column} end"
        if x < 0.94:
            return f"({self.select(0, level, 1)[0]})"
        return self.random.choice(["1", "'x'", "null"])

    def condition(self, level: Level, depth: int) -> str:
        x, column = self.random.random(), self.column(level)
        if x < 0.5 or depth <= 0:
            return f"{column}::text {self.random.choice(['=', '<', '<>'])} {self.column(level)}::text"
        inner = self.condition(level, depth - 1)
        if x < 0.6:
            return f"{inner} and {self.condition(level, depth - 1)}"
        if x < 0.7:
            return f"({inner} or {self.condition(level, depth - 1)})"
        if x < 0.75:
            return f"not {inner}"
        if x < 0.82:
            return f"exists ({self.select(0, level)[0]})"
        if x < 0.9:
            return f"{column} in ({self.select(0, level, 1)[0]})"
        return f"{column} is not null"

    def grouped(self, level: Level, count: int) -> tuple[list[str], str]:
        r = self.random
        keys = [self.scalar(level, 1) for _ in range(r.choice([1, 1, 2]))]
        column = self.column(level)
        choices = [
            *keys,
            f"count({column})",
            "count(*)",
            f"max({column})",
            f"string_agg({column}::text, ',' order by {column} {r.choice(['', 'desc'])})",
            column if r.random() < 0.3 else "count(*)",
        ]
        listed = ", ".join(keys)
        if r.random() < 0.2:
            listed = r.choice(
                [f"rollup ({listed})", f"cube ({listed})", f"grouping sets (({listed}), ())", f"({listed})"]
            )
        having = " having count(*) > 1" if r.random() < 0.3 else ""
        return [r.choice(choices) for _ in range(count)], f" group by {listed}{having}"

    def select(self, depth: int, outer: Level | None = None, count: int | None = None) -> tuple[str, list[str]]:
        r = self.random
        own = Level()
        items = [self.item(own, depth) for _ in range(r.choice([1, 1, 1, 2]) if r.random() < 0.95 else 0)]
        level = Level(own.relations + outer.relations) if outer is not None and r.random() < 0.5 else own
        size = count or r.choice([1, 2, 2, 3])
        grouping = ""
        if r.random() < 0.25:
            targets, grouping = self.grouped(own, size)
        else:
            targets = [self.scalar(level, 2) for _ in range(size)]
            if r.random() < 0.1:
                window = f"partition by {self.column(own)} order by {self.column(own)} {r.choice(['', 'desc'])}"
                targets[0] = f"row_number() over ({window})"
        columns = [f"o{number}" for number in range(size)]
        star = bool(items) and not grouping and count is None and r.random() < 0.08
        shown = "*" if star else ", ".join(f"{t} as {n}" for t, n in zip(targets, columns, strict=True))
        text = f"select {r.choice(['', '', '', '', 'distinct '])}{shown}"
        if items:
            text += " from " + ", ".join(items)
        if r.random() < 0.4:
            text += " where " + self.condition(level, 2)
        text += grouping
        if star:
            columns = [c for _, names in own.relations for c in names]
        return self.ordered(text, own, depth, outer, size, count is None), columns

    def ordered(self, text: str, level: Level, depth: int, outer: Level | None, size: int, whole: bool) -> str:
        r = self.random
        if whole and r.random() < 0.3:
            keys = ["1", "o0", self.column(level), f"{self.column(level)} desc", "2", "lower(o0::text)"]
            return f"{text} order by {', '.join(r.choice(keys) for _ in range(r.choice([1, 2])))}"
        if r.random() < 0.1:
            return f"{text} limit 5"
        if whole and r.random() < 0.15:
            other = self.select(max(depth - 1, 0), outer, size)[0]
            operator = r.choice(["union", "union all", "intersect", "except", "except all"])
            return f"{text} {operator} {f'({other})' if 'limit' in other else other}"
        return text


def expressions(seed: int, count: int) -> list[str]:
    made = Expressions(Random(seed))
    return [f"select ({made.expression(made.random.choice([1, 2, 2, 3]))}) as x from t" for _ in range(count)]


def queries(seed: int, count: int) -> list[str]:
    made = Queries(Random(seed))
    return [made.query() for _ in range(count)]
