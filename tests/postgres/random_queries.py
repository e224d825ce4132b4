"""Typed SELECTs over tables of many types, made of random choices.

    text = Queries(random.Random(seed)).query()

Whatever is made has one right answer, up to the order of its rows: what depends on an order (LIMIT, DISTINCT ON, frames
of ROWS, array_agg) sorts by everything there is, numerics that are compared have one scale, sums of floats are exact,
and nothing fails but for what `risky` adds. The random choices may be hypothesis's, which then shrinks the query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

SCHEMA = """
CREATE TABLE t (k int PRIMARY KEY, i int, b bigint, n numeric(6,2), s text, o bool, d date, a int[]);
CREATE TABLE u (k int, i int, f double precision, s varchar(8), ts timestamp, w text[]);
CREATE TABLE v (k int, n numeric(6,2), iv interval, o bool, j jsonb);
CREATE TABLE p (k int, s text, i int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (3);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (3) TO (MAXVALUE);
CREATE TABLE e (k int, s text);
INSERT INTO t VALUES (1, 5, 10, 1.50, 'x', true, '2024-01-01', '{1,2,3}'), (2, NULL, 20, -2.25, 'y', false, NULL, '{}'),
    (3, 7, NULL, NULL, 'it''s', NULL, '2024-02-29', NULL), (4, 5, 10, 1.50, NULL, true, 'infinity', '{3,NULL,1}'),
    (5, -3, 9000000000, 0.00, 'x', false, '1999-12-31', '{2}'), (6, 0, -7, 99.99, 'ü', NULL, '2024-01-01', '{1,2}');
INSERT INTO u VALUES (1, 5, 0.5, 'x', '2024-01-01 10:00', '{a,b}'), (1, 6, 1.25, 'yy', NULL, '{}'),
    (2, NULL, NULL, NULL, '2024-01-01 10:00', NULL), (4, 7, -3, 'x', '-infinity', '{x,NULL}'),
    (9, 5, 'Infinity', 'zz', '2024-03-01 00:00:00.5', '{b}'), (NULL, 1, 'NaN', '', '2023-12-31 23:59:59', '{a}');
INSERT INTO v VALUES (1, 1.50, '1 day', true, '{"a": 1}'), (3, NULL, '36:00', false, '[1, 2]'),
    (5, -2.25, '1 mon', NULL, 'null'), (5, 3.00, NULL, true, '"x"'), (7, 0.50, '-1 day 2:00', false, NULL);
INSERT INTO p VALUES (1, 'x', 5), (2, NULL, 3), (3, 'y', NULL), (4, 'x', 5), (8, 'z', 1);
"""

COLUMNS = {
    "t": "k int, i int, b bigint, n numeric, s text, o bool, d date, a int[]",
    "u": "k int, i int, f float8, s text, ts timestamp, w text[]",
    "v": "k int, n numeric, iv interval, o bool",
    "p": "k int, s text, i int",
    "e": "k int, s text",
}
TYPES = ("int", "bigint", "numeric", "text", "bool", "date", "timestamp", "interval", "float8", "int[]", "text[]")
EASY = ("int", "int", "int", "text", "text", "bool", "numeric", "bigint", "date")
CONSTANTS = {
    "int": ["0", "1", "2", "5", "-3", "7"],
    "bigint": ["10::bigint", "-7::bigint", "9000000000"],
    "numeric": ["1.50", "-2.25", "0.00", "3.14"],
    "text": ["'x'", "'y'", "''", "'it''s'", "'abc'"],
    "bool": ["true", "false"],
    "date": ["date '2024-01-01'", "date '1999-12-31'"],
    "timestamp": ["timestamp '2024-01-01 10:00'", "timestamp '2023-12-31 23:59:59'"],
    "interval": ["interval '1 day'", "interval '36:00'"],
    "float8": ["0.5::float8", "'-2'::float8"],
    "int[]": ["'{1,2,3}'::int[]", "'{}'::int[]", "ARRAY[2, NULL]"],
    "text[]": ["'{a,b}'::text[]", "ARRAY['x', NULL]"],
}

EXPRESSIONS = {
    "int": [
        "(<int> + <int>)", "(<int> - <.int>)", "(<int> % 3)", "(<int> % -4)", "(<int> / 2)", "(<int> / -3)",
        "abs(<int>)",
        "length(<text>)", "ascii(<text>)", "strpos(<text>, <text>)", "greatest(<int>, <int>)", "least(<int>, <.int>)",
        "(<bool>)::int", "num_nulls(<int>, <text>)", "cardinality(<int[]>)", "array_position(<int[]>, <int>)",
        "(<int[]>)[<.int>]", "extract(day FROM <timestamp>)::int", "width_bucket(<numeric>, -5, 100, 4)",
    ],
    "bigint": ["(<int>::bigint)", "(<bigint> / 2)", "(<int> + <.bigint>)", "length(<text>)::bigint"],
    "numeric": [
        "round(<numeric> * 2, 2)", "round(<numeric> * -1.1, 2)", "round(<int> / 4.0, 2)",
        "round(<numeric> + <numeric>, 2)",
        "round(<int>::numeric, 2)", "trunc(<numeric>, 2)", "round(<numeric> / 3, 2)",
    ],
    "text": [
        "(<text> || <text>)", "upper(<text>)", "left(<text>, 2)", "coalesce(<text>, '-')",
        "replace(<text>, 'x', 'zz')",
        "concat(<text>, <int>)", "repeat(<text>, 2)", "to_char(<date>, 'YYYY-MM-DD')",
        "array_to_string(<text[]>, ',', '*')",
        "md5(<text>)", "format('%s-%L', <int>, <text>)", "split_part(<text>, 's', 1)", "lpad(<text>, 3, '.')",
        "(<int>)::text", "(<date>)::text", "(<bool>)::text", "(<int[]>)::text", "(<numeric>)::text",
        "(<float8>)::text",
        "(<timestamp>)::text", "substr(<text>, 2)", "concat_ws('/', <text>, <text>)", "to_json(<text>)::text",
    ],
    "date": ["(<date> + 1)", "(<date> - 30)", "least(<date>, <date>)", "(<timestamp>)::date"],
    "timestamp": ["(<date>)::timestamp", "(<timestamp> + <.interval>)", "date_trunc('month', <timestamp>)"],
    "interval": ["(<interval> * 2)", "(<interval> + interval '1 hour')", "make_interval(days => <int>)"],
    "float8": ["(<float8> * 2)", "(<int>::float8)", "(<float8> + 1)"],
    "int[]": ["(<int[]> || <int>)", "array_remove(<int[]>, <int>)", "ARRAY[<int>, <int>]", "(<int[]>)[1:2]"],
    "text[]": ["string_to_array(<text>, 's')", "(<text[]> || <text[]>)", "ARRAY[<text>]"],
}  # fmt: skip
AGGREGATES = {
    "int": ["min(<int>)", "max(<int>)", "bit_or(<int>)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY <int>)",
            "mode() WITHIN GROUP (ORDER BY <int>)", "(rank(2) WITHIN GROUP (ORDER BY <int>))::int"],
    "bigint": ["count(*)", "count(<distinct><int>)", "sum(<distinct><int>)", "max(<bigint>)",
    "count(<distinct><text>)"],
    "numeric": ["round(avg(<distinct><int>), 2)", "round(sum(<distinct><numeric>), 2)", "min(<numeric>)",
                "round(var_pop(<int>), 2)", "round(stddev(<numeric>), 2)", "round(avg(<numeric>), 2)"],
    "text": ["min(<text>)", "max(<text>)", "string_agg(<joined>)", "array_agg(<ordered int>)",
    "json_agg(<ordered text>)",
             "jsonb_agg(<ordered int>)"],
    "bool": ["bool_and(<bool>)", "bool_or(<bool>)", "(count(*) > 2)", "(max(<int>) > 3)"],
    "int[]": ["array_agg(<ordered int>)"],
    "text[]": ["array_agg(<ordered text>)"],
    "float8": ["min(<float8>)", "max(<float8>)", "percentile_cont(0.25) WITHIN GROUP (ORDER BY <int>)"],
}  # fmt: skip
FRAMES = (
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING EXCLUDE TIES",
)
RANGES = ("", " RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")
CONDITIONS = [
    "(<T> <op> <T>)", "(<T> <op> <.T>)", "(<T> IS NULL)", "(<T> IS NOT NULL)", "(<T> IS DISTINCT FROM <T>)",
    "(<T> IS NOT DISTINCT FROM <.T>)", "(<T> BETWEEN <T> AND <.T>)", "(<T> <not>IN (<T>, <.T>))", "(<text> LIKE 'x%')",
    "(<text> LIKE '_')", "((<T>, <.int>) <op> (<T>, <.int>))", "(<int> = ANY (<int[]>))", "(<int> <> ALL (<int[]>))",
    "(<int[]> @> <int[]>)", "(<.bool> IS NOT TRUE)", "(NOT <.bool>)", "<?> AND ", "<?> OR ", "<?> AND NOT ",
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """How it is written, and its type."""

    text: str
    type: str


@dataclass
class Scope:
    """What an expression may name: the columns of FROM, and those of the queries around it."""

    columns: list[Column]
    outer: Scope | None = None
    ctes: dict[str, list[Column]] = field(default_factory=dict)

    def around(self) -> list[Column]:
        found, scope = [], self.outer
        while scope is not None:
            found += scope.columns
            scope = scope.outer
        return found

    def all_ctes(self) -> dict[str, list[Column]]:
        return {**(self.outer.all_ctes() if self.outer is not None else {}), **self.ctes}


def names_column(text: str) -> bool:
    """A constant alone is the place of a target in ORDER BY and GROUP BY."""
    return re.search(r"\b[a-z]\d+\.", text) is not None


class Queries:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = 0

    # --- choices ----------------------------------------------------------------------------------------------------

    def chance(self, percent: int) -> bool:
        return self.random.randint(1, 100) > 100 - percent

    def some(self, least: int, most: int) -> range:
        return range(self.random.randint(least, most))

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    # --- expressions ------------------------------------------------------------------------------------------------

    def expr(self, type_: str, scope: Scope, depth: int) -> str:
        choice = self.random.randint(0, 9)
        if depth <= 0 or choice < 4:
            return self.leaf(type_, scope)
        if choice == 9 and depth > 1:
            return self.scalar_subquery(type_, scope, depth - 1)
        if choice == 8:
            return self.conditional(type_, scope, depth - 1)
        return self.of_type(type_, scope, depth - 1)

    def leaf(self, type_: str, scope: Scope) -> str:
        own = [c.text for c in scope.columns if c.type == type_]
        if scope.outer is not None and self.chance(50):
            own += [c.text for c in scope.around() if c.type == type_]
        if own and self.chance(85):
            return self.random.choice(own)
        if self.chance(8):
            return f"NULL::{type_}"
        return self.random.choice(CONSTANTS[type_])

    def fill(self, template: str, scope: Scope, depth: int) -> str:
        """`<int>` is an expression of that type, `<.int>` one without operators, `<?>` a condition, `<op>` compares."""

        def part(found: re.Match[str]) -> str:
            plain, kind = found[1], found[2]
            if kind == "op":
                return self.comparison()
            if kind == "not":
                return self.random.choice(["", "NOT "])
            if kind == "?":
                return self.condition(scope, depth - 1)
            return self.leaf(kind, scope) if plain else self.expr(kind, scope, depth)

        return re.sub(r"<(\.?)([a-z0-9\[\]]+|\?)>", part, template)

    def conditional(self, type_: str, scope: Scope, depth: int) -> str:
        template = self.random.choice(
            [
                "CASE WHEN <?> THEN <T> ELSE <T> END",
                "CASE WHEN <?> THEN <T> END",
                "coalesce(<T>, <T>)",
                "nullif(<T>, <T>)",
                "(ARRAY[<T>, <T>])[<.int>]" if not type_.endswith("[]") else "(<T>)",
            ]
        )
        return self.fill(template.replace("<T>", f"<{type_}>"), scope, depth)

    def of_type(self, type_: str, scope: Scope, depth: int) -> str:
        if type_ == "bool":
            return self.condition(scope, depth)
        if type_ == "int[]" and depth > 0 and self.chance(25):
            return self.array_subquery("int", scope, depth)
        return self.fill(self.random.choice(EXPRESSIONS[type_]), scope, depth)

    def condition(self, scope: Scope, depth: int) -> str:
        if depth <= 0:
            return self.fill("(<.int> <op> <.int>)", scope, 0)
        kind = self.random.choice(EASY)
        if depth > 1 and self.chance(30):
            inner, _ = self.select(scope, depth - 1, types=[kind])
            one = self.expr(kind, scope, depth - 1)
            choice = self.random.randint(1, 3)
            if choice == 1:
                return f"({one} {self.random.choice(['', 'NOT '])}IN ({inner}))"
            if choice == 2:
                return f"({one} {self.comparison()} {self.random.choice(['ANY', 'ALL'])} ({inner}))"
            return f"({self.random.choice(['', 'NOT '])}EXISTS ({inner}))"
        template = self.random.choice(CONDITIONS)
        if template.count("<?>"):
            return f"({self.condition(scope, depth - 1)}{template}{self.condition(scope, depth - 1)})".replace(
                "<?>", ""
            )
        return self.fill(template.replace("<T>", f"<{kind}>").replace("<.T>", f"<.{kind}>"), scope, depth - 1)

    def comparison(self) -> str:
        return self.random.choice(["=", "=", "<>", "<", ">=", ">"])

    def scalar_subquery(self, type_: str, scope: Scope, depth: int) -> str:
        if self.chance(50):
            text, _ = self.select(scope, depth, types=[type_], one_row=True)
            return f"({text})"
        text, _ = self.select(scope, depth, types=[type_])
        name = self.name("z")
        return f"(SELECT {name}.c1 FROM ({text}) AS {name} ORDER BY 1 LIMIT 1)"

    def array_subquery(self, element: str, scope: Scope, depth: int) -> str:
        text, _ = self.select(scope, depth - 1, types=[element])
        name = self.name("z")
        return f"ARRAY(SELECT {name}.c1 FROM ({text}) AS {name} ORDER BY 1)"

    def aggregate(self, type_: str, scope: Scope, depth: int) -> str:
        """Over the rows of the scope; only plain columns inside, so that no level is mistaken for another."""
        inside = Scope(scope.columns)
        template = self.random.choice(AGGREGATES.get(type_, ["min(<T>)", "max(<T>)"]))
        if "<ordered" in template:
            kind = template[template.index("<ordered") + 9 :].rstrip(">)")
            value = self.expr(kind, inside, 1)
            order = f"{value} ORDER BY {value}{self.random.choice(['', ' DESC', ' NULLS FIRST'])}"
            call = template[: template.index("<ordered")] + order + ")"
            if type_ == "text":
                return f"({call})::text"
        elif "<joined>" in template:
            value = self.expr("text", inside, 1)
            joined = self.random.choice(
                [f"{value}, ',' ORDER BY {value}", f"DISTINCT {value}, ',' ORDER BY {value}, ','"]
            )
            call = template.replace("<joined>", joined)
        else:
            distinct = self.random.choice(["", "", "DISTINCT "])
            template = template.replace("<distinct>", distinct).replace("<T>", f"<{type_}>")
            call = self.fill(template, inside, min(depth, 1))
        if self.chance(20) and call.endswith(")") and not call.startswith(("round(", "(")):
            call += f" FILTER (WHERE {self.condition(inside, 1)})"
        return call

    def window(self, type_: str, scope: Scope) -> str:
        everything = ", ".join(c.text for c in scope.columns)
        key = self.leaf(self.random.choice(("int", "text")), Scope(scope.columns))
        partition = f"PARTITION BY {key} " if self.chance(50) else ""
        value, number = self.leaf(type_, Scope(scope.columns)), self.leaf("int", Scope(scope.columns))
        total = f"{partition}ORDER BY {everything}"
        bounds = self.random.choice(FRAMES)
        peers = f"{partition}ORDER BY {number}{self.random.choice(['', ' DESC', ' NULLS FIRST'])}"
        over = self.random.choice([f"{total}{bounds}", f"{peers}{self.random.choice(RANGES)}", partition])
        choices = (
            [f"{self.random.choice(['min', 'max'])}({value}) OVER ({over})"] if type_ not in ("bool", "text[]") else []
        )
        places = [
            f"{call} OVER ({total}{bounds})"
            for call in (f"first_value({value})", f"last_value({value})", f"nth_value({value}, 2)")
        ]
        places += [
            f"{call} OVER ({total})"
            for call in (
                f"lag({value})",
                f"lead({value}, 2)",
                f"lag({value}, 1, {self.random.choice(CONSTANTS[type_])})",
            )
        ]
        choices += places
        if type_ == "bigint":
            choices += [f"row_number() OVER ({total})", f"rank() OVER ({peers})", f"dense_rank() OVER ({peers})",
                        f"sum({number}) OVER ({over})", f"count(*) OVER ({over})"] * 2  # fmt: skip
        if type_ == "int":
            choices += [f"ntile(3) OVER ({total})"]
        if type_ == "text":
            choices += [f"string_agg({value}, ',') OVER ({total}{bounds})"]
        if type_ == "int[]":
            choices += [f"array_agg({number}) OVER ({total}{bounds})"]
        return self.random.choice(choices)

    # --- FROM -------------------------------------------------------------------------------------------------------

    def source(self, scope: Scope, depth: int, beside: list[Column]) -> tuple[str, list[Column]]:
        """An item of FROM under an alias of its own, and its columns. `beside`: what LATERAL sees."""
        alias = self.name("q")
        ctes = scope.all_ctes()
        choice = self.random.randint(0, 11)
        if ctes and choice in (0, 1, 2):
            name = self.random.choice(sorted(ctes))
            return f"{name} AS {alias}", [Column(f"{alias}.{c.text}", c.type) for c in ctes[name]]
        if depth > 0 and (choice in (3, 4) or (choice == 8 and beside)):
            lateral = self.chance(80) and bool(beside)
            outer = Scope(beside, scope, {}) if lateral else Scope([], scope.outer, scope.ctes)
            text, columns = self.select(outer, depth - 1)
            return f"{'LATERAL ' if lateral else ''}({text}) AS {alias}", self.under(alias, columns)
        if choice == 5:
            start = self.expr("int", Scope(beside, scope.outer), 0) if self.chance(40) else "1"
            end = self.random.choice(["2", "3", "4"])
            ordinality = self.chance(20)
            columns = [Column(f"{alias}.c1", "int"), Column(f"{alias}.c2", "bigint")][: 1 + ordinality]
            names = ", ".join(c.text.partition(".")[2] for c in columns)
            return (
                f"generate_series({start}, {end}){' WITH ORDINALITY' if ordinality else ''} AS {alias} ({names})",
                columns,
            )
        if choice == 6:
            array = self.expr("int[]", Scope(beside, scope.outer), 0)
            return f"unnest({array}, {self.leaf('text[]', Scope(beside))}) AS {alias} (c1, c2)", self.under(
                alias, ["int", "text"]
            )
        if choice == 7:
            types = [self.random.choice(EASY) for _ in self.some(1, 3)] or ["int"]
            rows = ", ".join(
                "("
                + ", ".join(self.random.choice(CONSTANTS[t]) if self.chance(85) else f"NULL::{t}" for t in types)
                + ")"
                for _ in range(self.random.randint(1, 3))
            )
            names = ", ".join(f"c{n}" for n in range(1, len(types) + 1))
            return f"(VALUES {rows}) AS {alias} ({names})", self.under(alias, types)
        table = self.random.choice(["t", "t", "u", "u", "v", "p", "e"])
        columns = [Column(f"{alias}.{name}", kind) for name, kind in (c.split(" ") for c in COLUMNS[table].split(", "))]
        return f"{table} AS {alias}", columns

    def under(self, alias: str, types: list[str]) -> list[Column]:
        return [Column(f"{alias}.c{n}", kind) for n, kind in enumerate(types, 1)]

    def from_(self, scope: Scope, depth: int) -> tuple[str, list[Column]]:
        text, columns = self.source(scope, depth, [])
        near = columns  # of the joins since the last comma: what ON may speak of
        for _ in self.some(0, 2 if depth > 0 else 1):
            join = self.random.choice(
                [", ", ", ", " LEFT JOIN ", " LEFT JOIN ", " CROSS JOIN ", " RIGHT JOIN ", " FULL JOIN ", " JOIN "]
            )
            lateral_ok = join not in (" RIGHT JOIN ", " FULL JOIN ")
            item, new = self.source(scope, depth, columns if lateral_ok else [])
            columns = columns + new
            near = new if join == ", " else near + new
            if join == " FULL JOIN ":
                pairs = [(a.text, b.text) for a in near for b in new if a not in new and a.type == b.type == "int"]
                test = " ON " + (" = ".join(self.random.choice(pairs)) if pairs else "true")
            elif join in (", ", " CROSS JOIN "):
                test = ""
            else:
                test = f" ON {self.condition(Scope(near, scope.outer, scope.ctes), 1)}"
            text = f"{text}{join}{item}{test}"
        return text, columns

    # --- queries ----------------------------------------------------------------------------------------------------

    def select(
        self, outer: Scope | None, depth: int, types: list[str] | None = None, *, one_row: bool = False
    ) -> tuple[str, list[str]]:
        """A query with columns c1, c2 … of these types."""
        wanted = types or [
            self.random.choice(TYPES if self.chance(30) else EASY) for _ in range(self.random.randint(1, 3))
        ]
        if depth > 0 and not one_row and self.chance(12):
            return self.set_operation(outer, depth - 1, wanted), wanted
        scope = Scope([], outer)
        with_ = self.with_list(scope, depth) if depth > 0 and self.chance(25) else ""
        source, scope.columns = self.from_(scope, depth)
        where = f" WHERE {self.condition(scope, depth)}" if self.chance(50) else ""
        text = f" FROM {source}{where}"
        style = 0 if one_row else self.random.randint(1, 10)
        if style == 0:
            return f"{with_}SELECT {self.listed([self.aggregate(t, scope, depth) for t in wanted])}{text}", wanted
        if style <= 2:
            return with_ + self.grouped(text, scope, depth, wanted), wanted
        if style == 3:
            values = [self.expr(t, scope, depth) for t in wanted]
            place = self.random.randrange(len(wanted))  # one only: equal rows may stand otherwise in another
            values[place] = self.window(wanted[place], scope)
            return self.finished(f"{with_}SELECT {self.listed(values)}{text}", len(wanted)), wanted
        if style == 7 and self.chance(50):
            return with_ + self.windows_over_groups(text, scope, wanted), wanted
        values = [self.expr(t, scope, depth) for t in wanted]
        if style == 4:
            values = [
                self.set_returning(t, scope) if self.chance(60) else v for t, v in zip(wanted, values, strict=True)
            ]
        if style == 5:
            keys = [self.expr(self.random.choice(EASY), scope, 1) for _ in range(self.random.randint(1, 2))]
            keys = [key for key in keys if names_column(key)] or [scope.columns[0].text]
            order = ", ".join([*keys, *map(str, range(1, len(wanted) + 1))])
            distinct = f"DISTINCT ON ({', '.join(keys)})"
            return f"{with_}SELECT {distinct} {self.listed(values)}{text} ORDER BY {order}", wanted
        distinct = "DISTINCT " if style == 6 else ""
        return self.finished(f"{with_}SELECT {distinct}{self.listed(values)}{text}", len(wanted)), wanted

    def listed(self, values: list[str]) -> str:
        return ", ".join(f"{value} AS c{n}" for n, value in enumerate(values, 1))

    def finished(self, text: str, columns: int) -> str:
        """LIMIT over all columns: rows that are equal in all of them are one like the other."""
        if not self.chance(20):
            return text
        order = ", ".join(f"{n}{self.random.choice(['', ' DESC', ' NULLS FIRST'])}" for n in range(1, columns + 1))
        limit = self.random.choice(["", " LIMIT 2", " LIMIT 1", " FETCH FIRST 2 ROWS WITH TIES"])
        offset = f" OFFSET {self.random.randint(0, 2)}" if self.chance(40) else ""
        return f"{text} ORDER BY {order}{limit}{offset}"

    def set_returning(self, type_: str, scope: Scope) -> str:
        if type_ == "int":
            inner = f"generate_series(1, {self.random.choice(['2', '3'])})"
            sets = [
                inner,
                f"generate_series(1, {inner})",
                f"unnest({self.leaf('int[]', scope)})",
                f"{inner} + {self.leaf('int', scope)}",
                f"generate_series({self.leaf('int', scope)}, 4)",
            ]
            return self.random.choice(sets)
        if type_ == "text":
            return self.random.choice(
                [f"unnest({self.leaf('text[]', scope)})", f"regexp_split_to_table({self.leaf('text', scope)}, 's')"]
            )
        return self.leaf(type_, scope)

    def grouped(self, text: str, scope: Scope, depth: int, wanted: list[str]) -> str:
        """Keys are columns or expressions; targets are keys of the type that is wanted, or aggregates."""
        keys = [Column(self.expr(kind, Scope(scope.columns), self.random.randint(0, 1)), kind)
                for kind in (self.random.choice(EASY) for _ in range(self.random.randint(1, 3)))]  # fmt: skip
        keys = [key for key in keys if names_column(key.text)]
        if not keys:
            return f"SELECT {self.listed([self.aggregate(t, scope, depth) for t in wanted])}{text}"
        shown = []
        for kind in wanted:
            same = [key.text for key in keys if key.type == kind]
            shown.append(self.random.choice(same) if same and self.chance(60) else self.aggregate(kind, scope, depth))
        names = [k.text for k in keys]
        style = self.random.randint(0, 7)
        every = ", ".join(names)
        by = {
            4: f"ROLLUP ({every})",
            5: f"CUBE ({', '.join(names[:2])}){''.join(', ' + n for n in names[2:])}",
            6: f"GROUPING SETS (({every}), ({names[0]}), ())",
            7: f"{every}, ROLLUP ({names[-1]})",
        }.get(style, every)
        if "int" in wanted and style > 3 and self.chance(40):
            shown[wanted.index("int")] = f"grouping({every})"
        having = f" HAVING {self.aggregate('bool', scope, 1)}" if self.chance(25) else ""
        return f"SELECT {self.listed(shown)}{text} GROUP BY {by}{having}"

    def windows_over_groups(self, text: str, scope: Scope, wanted: list[str]) -> str:
        keys = [self.random.choice(scope.columns) for _ in range(self.random.randint(1, 2))]
        names = list(dict.fromkeys(key.text for key in keys))
        counts = ["count(*)", *(f"max({c.text})" for c in scope.columns if c.type == "int")]
        groups = Scope([*keys, *(Column(count, "bigint" if count == "count(*)" else "int") for count in counts)])
        shown = [self.window(t, groups) if self.chance(70) else self.leaf(t, groups) for t in wanted]
        return f"SELECT {self.listed(shown)}{text} GROUP BY {', '.join(names)}"

    def set_operation(self, outer: Scope | None, depth: int, wanted: list[str]) -> str:
        left, _ = self.select(outer, depth, wanted)
        right, _ = self.select(outer, depth, wanted)
        word = self.random.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        return self.finished(f"({left}) {word} ({right})", len(wanted))

    def with_list(self, scope: Scope, depth: int) -> str:
        listed, recursive = [], ""
        for _ in range(self.random.randint(1, 2)):
            name = self.name("w")
            if self.chance(25):
                recursive = " RECURSIVE"
                text, columns = self.recursive(name, scope, depth)
                listed.append(text)
                scope.ctes[name] = columns
                continue
            text, types = self.select(Scope([], scope.outer, dict(scope.ctes)), depth - 1)
            hint = self.random.choice(["", "", "MATERIALIZED ", "NOT MATERIALIZED "])
            listed.append(f"{name} AS {hint}({text})")
            scope.ctes[name] = [Column(f"c{n}", kind) for n, kind in enumerate(types, 1)]
        return f"WITH{recursive} {', '.join(listed)} "

    def recursive(self, name: str, scope: Scope, depth: int) -> tuple[str, list[Column]]:
        """A number that grows to 4 beside a value of the last round's."""
        kind = self.random.choice(("int", "text", "numeric"))
        first, _ = self.select(Scope([], scope.outer, dict(scope.ctes)), depth - 1, [kind])
        alias, start = self.name("r"), self.name("z")
        columns = [Column(f"{alias}.n", "int"), Column(f"{alias}.x", kind)]
        value = self.expr(kind, Scope(columns, scope.outer), 1)
        join = ""
        if self.chance(30):
            join, new = self.source(Scope([], scope.outer), 0, [])
            join = f", {join}"
            value = self.expr(kind, Scope(columns + new, scope.outer), 1)
        union = self.random.choice(["UNION", "UNION ALL"])
        text = (
            f"{name} (n, x) AS (SELECT 1, {start}.c1::{kind} FROM ({first}) AS {start} "
            f"{union} SELECT {alias}.n + 1, ({value})::{kind} FROM {name} AS {alias}{join} WHERE {alias}.n < 3)"
        )
        return text, [Column("n", "int"), Column("x", kind)]

    def query(self) -> str:
        text, _ = self.select(None, self.random.choice((2, 3, 3, 4)))
        if self.chance(5):  # an error that every row of the result would make, if there is one
            return f"SELECT 1 / (count(*) - count(*)) FROM ({text}) AS q"
        return text
