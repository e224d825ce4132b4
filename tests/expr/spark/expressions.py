"""Random typed expressions over a table of extremes, and what they are worth by the evaluator and by Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from pgrepl.expr import tree
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.exchange import Sql, Statement, to_sql
from pgrepl.expr.exchange.comparisons import sign_of
from pgrepl.expr.functions import own, spark_form
from pgrepl.expr.functions.registry import Context, source_of
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.builtin import Operator, Proc, array_type, casts, operator, operators, proc_by_oid, procs
from pgrepl.types.json import Jsonb
from pgrepl.types.lake.forms import form
from pgrepl.types.times.dates import INFINITY
from pgrepl.types.times.interval import INFINITE, MINUS_INFINITE, Interval
from tests.lake.spark_rows import HAS_TIME

NAN, INF = math.nan, math.inf


def typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


DAY = 86_400_000_000
TEXTS = (
    "", "a", "b", "A", "abc", "aBc", "  x ", "x  ", "ß", "İstanbul", "ΑΣ", "é", "😀x", "a%b", "a_b", "a\\b", "12",
    "-7", " 42 ", "0x1F", "1_000", "1.5", "1e3", "NaN", "infinity", "true", "2024-02-29", "2024-02-29 12:34:56.789",
    "12:34:56", "it's", 'q"q', "${x}", "a\nb", "kK\u212aſs", "zzz", "[1,2]", "null",
)  # fmt: skip
VALUES: dict[int, tuple[Any, ...]] = {
    oids.BOOL: (True, False),
    oids.INT2: (0, 1, -1, 2, 7, 100, 32767, -32768),
    oids.INT4: (0, 1, -1, 2, 3, 10, 31, 65536, 2147483647, -2147483648),
    oids.INT8: (0, 1, -1, 5, 63, 4294967296, 9223372036854775807, -9223372036854775808),
    oids.FLOAT4: (0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 3.4028234663852886e38, 1.401298464324817e-45, NAN, INF, -INF),
    oids.FLOAT8: (0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 0.1, 1e308, 5e-324, 9.2e18, 9.3e18, 123456789.125, NAN, INF, -INF),
    oids.NUMERIC: tuple(
        map(Decimal, "0 0.00 1 -1 1.50 -2.5 0.5 100 99999999.99 12345678901234567890.12345 0.0001 NaN "
            "Infinity -Infinity 99999999999999999999999999999999999999999 2147483648".split())
    ),
    oids.TEXT: TEXTS,
    oids.VARCHAR: TEXTS,
    oids.BYTEA: (b"", b"a", b"\x00\xff", b"abc"),
    oids.DATE: (0, 1, 8825, -1, -10957, 20000, -730119, -750000, -2451545, 2145031948, INFINITY, -INFINITY),
    oids.TIME: (0, 1, 45296789000, DAY - 1),
    oids.TIMESTAMP: (
        0, 1, -1, 500000, 762525296789000, -1000000000000000, 8825 * DAY, -211813488000000000, 9214646400000000000,
        -63082281600000000, 252455616000000000, -64800000000000000, INFINITY, -INFINITY,
    ),
    oids.INTERVAL: (
        Interval(0, 0, 0), Interval(1, 0, 0), Interval(0, 30, 0), Interval(0, 1, 0), Interval(0, 0, 3600000000),
        Interval(-13, 5, -1), Interval(0, 0, 1), INFINITE, MINUS_INFINITE,
    ),
    oids.UUID: (UUID(int=0), UUID(int=2**128 - 1), UUID(int=2**127), UUID("12345678-1234-5678-1234-567812345678")),
    oids.JSONB: tuple(
        map(Jsonb, ("null", "1", "1.0", '"a"', "[]", "{}", "[1, 2]", '{"a": 1}', '{"a": {"b": [null]}}'))
    ),
    oids.INET: ("10.0.0.1", "10.0.0.0/8", "::1", "192.168.1.5/24"),
}  # fmt: skip
VALUES[oids.TIMESTAMPTZ] = VALUES[oids.TIMESTAMP]
VALUES[oids.BPCHAR] = ("", "a", "b ", "ab", "é", "a\t", "A", " a")
ARRAYS = {
    array_type(oids.INT4): tuple(array_of(oids.INT4, items) for items in ([], [1], [1, None, 3], [2, 1], [3, 2, 1])),
    array_type(oids.TEXT): tuple(array_of(oids.TEXT, items) for items in ([], ["a"], [None], ["b", "a", ""])),
}
VALUES.update({typoid: values for typoid, values in ARRAYS.items() if typoid})
if not HAS_TIME:
    del VALUES[oids.TIME]

# (type, modifier) of the columns of the table
COLUMNS: tuple[tuple[int, int], ...] = (
    *[(typoid, -1) for typoid in VALUES],
    (oids.NUMERIC, typmod(10, 2)),
    (oids.NUMERIC, typmod(38, 10)),
    (oids.NUMERIC, typmod(5, 0)),
    (oids.BPCHAR, 5 + 4),
    (oids.BPCHAR, 3 + 4),
    (oids.INT4, -1),
    (oids.TEXT, -1),
    (oids.FLOAT8, -1),
)
TYPES = tuple(dict.fromkeys(typoid for typoid, _ in COLUMNS))


def value_of(typoid: int, modifier: int, random: Random) -> Any:
    if random.random() < 0.12:
        return None
    if typoid == oids.BPCHAR:
        text = random.choice(VALUES[typoid])
        return text if modifier < 4 else text[: modifier - 4].ljust(modifier - 4)
    if typoid == oids.NUMERIC and modifier >= 0:
        scale = (modifier - 4) & 0xFFFF
        precision = (modifier - 4) >> 16
        number = random.choice((0, 1, -1, 5, 150, -250, 99999, 10**precision - 1, -(10**precision) + 1))
        return Decimal(f"{number if abs(number) < 10**precision else 7}E-{scale}")
    return random.choice(VALUES[typoid])


def table(random: Random, count: int = 24) -> list[tuple[Any, ...]]:
    return [tuple(value_of(t, m, random) for t, m in COLUMNS) for _ in range(count)]


def arrow_table(rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    columns = [pa.array(range(len(rows)), pa.int64())]
    for number, (typoid, modifier) in enumerate(COLUMNS):
        array = form(typoid, modifier).to_array([row[number] for row in rows])
        columns.append(array.storage if isinstance(array, pa.ExtensionArray) else array)
    return pa.table(columns, names=["n", *[f"c{i + 1}" for i in range(len(COLUMNS))]])


# ------------------------------------------------------------------------------------------------- random expressions

# functions that need a session, depend on the moment or are too slow for numbers at random
_NOT = {
    "numeric_power", "numeric_exp", "numeric_fac", "dexp", "numeric_ln", "numeric_log", "numeric_sqrt", "power",
    "textsend", "setseed", "generate_series", "clock_timestamp", "statement_timestamp", "timeofday", "now",
    "pg_sleep", "current_setting", "array_fill", "array_fill_with_lower_bounds", "numeric_lcm", "numeric_gcd",
}  # fmt: skip


def _usable(proc: Proc | None) -> bool:
    return (
        proc is not None
        and proc.kind == "f"
        and not proc.retset
        and not proc.variadic
        and proc.volatile != "v"
        and proc.src not in _NOT
        and proc.allargtypes is None
        and proc.rettype in VALUES
        and all(typoid in VALUES for typoid in proc.argtypes)
        and not proc.name.startswith(("pg_", "has_", "txid", "current_", "to_reg", "inet_"))
    )


@cache
def _operators() -> dict[int, tuple[list[Operator], list[Operator]]]:
    """By result: those with native SQL, and all."""
    found: dict[int, tuple[list[Operator], list[Operator]]] = {typoid: ([], []) for typoid in VALUES}
    for each in operators:
        proc = proc_by_oid(each.code)
        if _usable(proc) and proc is not None and own(source_of(proc)) is not None:
            found[each.result][1].append(each)
            if sign_of(each.oid) or spark_form(source_of(proc)):
                found[each.result][0].append(each)
    return found


@cache
def _functions() -> dict[int, tuple[list[Proc], list[Proc]]]:
    found: dict[int, tuple[list[Proc], list[Proc]]] = {typoid: ([], []) for typoid in VALUES}
    for each in procs:
        if _usable(each) and own(source_of(each)) is not None:
            found[each.rettype][1].append(each)
            if spark_form(source_of(each)):
                found[each.rettype][0].append(each)
    return found


class Maker:
    def __init__(self, random: Random, native: float = 0.85) -> None:
        self.random = random
        self.native = native

    def expr(self, typoid: int, depth: int) -> tree.Expr:
        if depth <= 0 or self.random.random() < 0.1:
            return self.leaf(typoid)
        makers: list[Callable[[int, int], tree.Expr | None]] = [
            self.operator, self.operator, self.function, self.function, self.case, self.cast, self.cast, self.other,
        ]  # fmt: skip
        if typoid == oids.BOOL:
            makers += [self.logic, self.operator, self.operator, self.member]
        for _ in range(4):
            made = self.random.choice(makers)(typoid, depth - 1)
            if made is not None:
                return made
        return self.leaf(typoid)

    def leaf(self, typoid: int) -> tree.Expr:
        columns = [n for n, (t, _) in enumerate(COLUMNS) if t == typoid]
        if columns and self.random.random() < 0.75:
            n = self.random.choice(columns)
            return tree.Var(typoid, typmod=COLUMNS[n][1], attnum=n + 1)
        return tree.Const(typoid, value=value_of(typoid, -1, self.random))

    def operator(self, typoid: int, depth: int) -> tree.Expr | None:
        native, every = _operators()[typoid]
        pool = native if native and self.random.random() < self.native else every
        if not pool:
            return None
        chosen = self.random.choice(pool)
        operands = (chosen.left, chosen.right) if chosen.left else (chosen.right,)
        return tree.OpExpr(typoid, op=chosen.oid, args=tuple(self.expr(o, depth) for o in operands))

    def function(self, typoid: int, depth: int) -> tree.Expr | None:
        native, every = _functions()[typoid]
        pool = native if native and self.random.random() < self.native else every
        if not pool:
            return None
        chosen = self.random.choice(pool)
        args = [self.expr(o, depth) for o in chosen.argtypes]
        if len(args) > 1 and self.random.random() < 0.7:  # most arguments behind the first are constants
            args[1:] = [tree.Const(o, value=value_of(o, -1, self.random)) for o in chosen.argtypes[1:]]
        return _call(chosen, args, typoid, self.random)

    def case(self, typoid: int, depth: int) -> tree.Expr | None:
        kind = self.random.randrange(5)
        if kind == 0:
            whens = tuple(
                (self.expr(oids.BOOL, depth), self.expr(typoid, depth)) for _ in range(self.random.randint(1, 2))
            )
            return tree.CaseExpr(typoid, whens=whens, default=self.random.choice((None, self.expr(typoid, depth))))
        if kind == 1:
            return tree.CoalesceExpr(typoid, args=(self.expr(typoid, depth), self.expr(typoid, depth)))
        if kind == 2:
            args = (self.expr(typoid, depth), self.expr(typoid, depth))
            return tree.MinMaxExpr(typoid, greatest=self.random.random() < 0.5, args=args)
        equal = operator("=", typoid, typoid)
        if equal is None:
            return None
        if kind == 3:
            return tree.NullIfExpr(typoid, op=equal.oid, args=(self.expr(typoid, depth), self.expr(typoid, depth)))
        test = tree.CaseTestExpr(typoid)
        whens = tuple(
            (tree.OpExpr(oids.BOOL, op=equal.oid, args=(test, self.leaf(typoid))), self.expr(typoid, depth))
            for _ in range(2)
        )
        return tree.CaseExpr(typoid, arg=self.expr(typoid, depth), whens=whens, default=self.expr(typoid, depth))

    def cast(self, typoid: int, depth: int) -> tree.Expr | None:
        found = [
            c for c in casts if c.target == typoid and c.source in VALUES and c.source != typoid and c.method == "f"
        ]
        if typoid == oids.TEXT and self.random.random() < 0.6:
            source = self.random.choice([t for t in TYPES if t not in (oids.TEXT, oids.BOOL, oids.BPCHAR)])
            return tree.CoerceViaIO(typoid, arg=self.expr(source, depth))
        if self.random.random() < 0.3 and typoid != oids.TEXT and typoid != oids.JSONB:
            return tree.CoerceViaIO(typoid, arg=self.expr(oids.TEXT, depth))
        found = [c for c in found if own(source_of(proc_by_oid(c.func))) is not None]  # type: ignore[arg-type]
        found = [c for c in found if c.source != typoid]
        if not found:
            return None
        chosen = self.random.choice(found)
        proc = proc_by_oid(chosen.func)
        assert proc is not None
        if len(proc.argtypes) > 1:
            return None
        return tree.FuncExpr(typoid, func=chosen.func, args=(self.expr(chosen.source, depth),))

    def other(self, typoid: int, depth: int) -> tree.Expr | None:
        array = array_type(typoid)
        if array in VALUES:
            index = (
                self.expr(oids.INT4, 0)
                if self.random.random() < 0.5
                else tree.Const(oids.INT4, value=self.random.randint(0, 3))
            )
            return tree.SubscriptingRef(typoid, container=self.expr(array, depth), upper=(index,))
        if typoid in ARRAYS:
            element = oids.INT4 if typoid == array_type(oids.INT4) else oids.TEXT
            return tree.ArrayExpr(
                typoid, element_type=element, elements=tuple(self.expr(element, depth) for _ in range(2))
            )
        return None

    def logic(self, typoid: int, depth: int) -> tree.Expr | None:
        kind = self.random.randrange(6)
        if kind == 0:
            return tree.BoolExpr(oids.BOOL, op=BoolOp.NOT, args=(self.expr(oids.BOOL, depth),))
        if kind in (1, 2):
            args = tuple(self.expr(oids.BOOL, depth) for _ in range(2))
            return tree.BoolExpr(oids.BOOL, op=BoolOp.AND if kind == 1 else BoolOp.OR, args=args)
        other = self.random.choice(TYPES)
        if kind == 3:
            return tree.NullTest(oids.BOOL, arg=self.expr(other, depth), kind=self.random.choice(list(NullTestType)))
        if kind == 4:
            return tree.BooleanTest(
                oids.BOOL, arg=self.expr(oids.BOOL, depth), kind=self.random.choice(list(BoolTestType))
            )
        equal = operator("=", other, other)
        if equal is None:
            return None
        return tree.DistinctExpr(oids.BOOL, op=equal.oid, args=(self.expr(other, depth), self.expr(other, depth)))

    def member(self, typoid: int, depth: int) -> tree.Expr | None:
        other = self.random.choice([t for t in TYPES if array_type(t) and t not in ARRAYS])
        if self.random.random() < 0.3:
            pairs = [self.random.choice(TYPES) for _ in range(2)]
            pairs = [t for t in pairs if operator("<", t, t) is not None]
            if len(pairs) == 2:
                return tree.RowCompareExpr(
                    oids.BOOL,
                    kind=self.random.choice(("<", "<=", ">", ">=")),
                    ops=tuple(operator("<", t, t).oid for t in pairs),  # type: ignore[union-attr]
                    left=tuple(self.expr(t, depth) for t in pairs),
                    right=tuple(self.expr(t, depth) for t in pairs),
                )
        sign = self.random.choice(("=", "=", "<>", "<", ">="))
        chosen = operator(sign, other, other)
        if chosen is None:
            return None
        items = tuple(self.expr(other, 0) for _ in range(self.random.choice((0, 1, 3, 10))))
        if self.random.random() < 0.6:
            values = [value_of(other, 9 if other == oids.BPCHAR else -1, self.random) for _ in items]
            array: tree.Expr = tree.Const(array_type(other), value=array_of(other, values))
        else:
            array = tree.ArrayExpr(array_type(other), element_type=other, elements=items)
        args = (self.expr(other, depth), array)
        return tree.ScalarArrayOpExpr(oids.BOOL, op=chosen.oid, use_or=self.random.random() < 0.5, args=args)


WITH_UNIT = ("date_trunc", "date_part", "extract")
UNITS = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds", "microseconds", "epoch",
    "dow", "isodow", "doy", "century", "decade", "millennium", "julian", "isoyear", "timezone", "nonsense",
)  # fmt: skip

# -------------------------------------------------------------------------------------------------- what is it worth


def names(node: tree.Expr) -> str | Sql | None:
    return f"c{node.attnum}" if isinstance(node, tree.Var) else None


class Fails:
    """An error as an answer."""

    def __init__(self, error: PgError) -> None:
        self.report = error.report

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fails) and self.shown == other.shown

    def __hash__(self) -> int:
        return hash(self.shown)

    @property
    def shown(self) -> tuple[str, str, str | None, str | None]:
        return self.report.sqlstate, self.report.message, self.report.detail, self.report.hint

    def __repr__(self) -> str:
        return f"Fails{self.shown}"


def comparable(value: Any) -> Any:
    """Something that tells apart all that text tells apart."""
    if isinstance(value, (float, Decimal)):
        return repr(value)
    if hasattr(value, "items") and not isinstance(value, dict):
        return tuple(comparable(item) for item in value.items)
    return value


def expected(expr: tree.Expr, rows: list[tuple[Any, ...]], context: Context) -> list[Any]:
    run = compile(expr, context)
    of = form(expr.type, expr.typmod)
    found = []
    for row in rows:
        try:
            found.append(comparable(of.from_array(of.to_array([run(row)]))[0]))
        except PgError as error:
            found.append(Fails(error))
    return found


def batch(exprs: list[tree.Expr], answers: list[list[Any]], statement: Statement, source: str) -> tuple[str, list[str]]:
    """One query of all expressions; where one fails, the row is not asked."""
    texts = [to_sql(expr, names, statement) for expr in exprs]
    columns = []
    for number, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        bad = [str(n) for n, value in enumerate(answer) if isinstance(value, Fails)]
        shown = f"CASE WHEN n NOT IN ({', '.join(bad)}) THEN {text} END" if bad else text
        columns.append(f"{shown} AS r{number}")
    return f"SELECT n, {', '.join(columns)} FROM {source} ORDER BY n", texts


def every_native(random: Random, variants: int) -> Iterator[tuple[str, tree.Expr]]:
    """As `every_call`, of what has native SQL."""
    return every_call(random, variants, 0)


def every_call(random: Random, variants: int, which: int = 1) -> Iterator[tuple[str, tree.Expr]]:
    """Calls of each operator and function, by the name it is registered by: over columns first, then with constants
    behind the first argument; one variant is either."""
    maker = Maker(random)

    def wanted() -> Iterable[int]:
        return range(variants) if variants > 1 else (random.randrange(2),)

    for typoid, pools in _operators().items():
        for each in pools[which]:
            operands = (each.left, each.right) if each.left else (each.right,)
            source = source_of(_proc(each.code))
            for variant in wanted():
                args = tuple(_argument(maker, o, variant, place) for place, o in enumerate(operands))
                yield source, tree.OpExpr(typoid, op=each.oid, args=args)
    for typoid, chosen in _functions().items():
        for proc in chosen[which]:
            units = range(variants * 5) if proc.name in WITH_UNIT else wanted()
            for variant in units:
                given = [_argument(maker, o, variant, place) for place, o in enumerate(proc.argtypes)]
                yield source_of(proc), _call(proc, given, typoid, random)


def _argument(maker: Maker, typoid: int, variant: int, place: int) -> tree.Expr:
    if variant == 0 or place == 0:
        return maker.leaf(typoid)
    return tree.Const(typoid, value=value_of(typoid, -1, maker.random))


def _proc(oid: int) -> Proc:
    found = proc_by_oid(oid)
    assert found is not None
    return found


def _call(proc: Proc, args: list[tree.Expr], typoid: int, random: Random) -> tree.FuncExpr:
    """Units, lengths and precisions are such as a query has."""
    modifier = -1
    if proc.name in WITH_UNIT:
        args[0] = tree.Const(oids.TEXT, value=random.choice(UNITS))
    if proc.name in ("numeric", "varchar", "bpchar") and len(args) > 1:
        sizes = [typmod(6, 2), typmod(10, 2), typmod(5, 0), typmod(38, 10)] if proc.name == "numeric" else [7, 9]
        modifier = random.choice(sizes)
        args[1] = tree.Const(oids.INT4, value=modifier)
        args[2:] = [tree.Const(oids.BOOL, value=random.random() < 0.5) for _ in args[2:]]
    if proc.name in ("timestamp", "timestamptz") and len(args) == 2 and proc.argtypes[1] == oids.INT4:
        args[1] = tree.Const(oids.INT4, value=random.randint(0, 6))
    return tree.FuncExpr(typoid, typmod=modifier, func=proc.oid, args=tuple(args))


def differences(exprs: list[tree.Expr], answers: list[list[Any]], result: Any) -> Iterator[tuple[int, int, Any, Any]]:
    for number, (expr, answer) in enumerate(zip(exprs, answers, strict=True)):
        values = form(expr.type, expr.typmod).from_array(result.column(f"r{number}"))
        for row, (wanted, value) in enumerate(zip(answer, values, strict=True)):
            if not isinstance(wanted, Fails) and comparable(value) != wanted:
                yield number, row, wanted, comparable(value)
