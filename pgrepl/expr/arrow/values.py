"""Values by columns beyond comparisons and whole numbers: texts, numerics, double precision, timestamps, CASE.

Where PostgreSQL may report an error Arrow's is raised, and rows are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import (
    Columnar,
    Columns,
    NotColumnar,
    Run,
    argument,
    boolean,
    columnar,
    condition,
    stored,
)
from pgrepl.expr.functions.registry import in_columns
from pgrepl.expr.walk import functions_used
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids, unicode
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.lake.arrays import PLAIN_SCALE
from pgrepl.types.names import numeric_precision_scale
from pgrepl.types.times.dates import MIN_TIMESTAMP, UNIX_EPOCH_USECS
from pgrepl.types.times.interval import Interval, is_finite

_LEAST = MIN_TIMESTAMP - UNIX_EPOCH_USECS
_MOST = 1 << 62  # of timestamps and of spans: their sum is a whole number of 64 bits, and a timestamp of a lake
_FACTOR_FIRST = {"interval_mul": False, "mul_d_interval": True}


@in_columns("timestamp_pl_interval")
def _moved(args: Sequence[tree.Expr], sign: int = 1) -> Columnar:
    """A timestamp plus or minus an interval."""
    value, span = argument(args[0], (oids.TIMESTAMP,)), _microseconds(args[1])
    add = pc.add if sign > 0 else pc.subtract

    def run(columns: Columns) -> Any:
        moments = add(_within(pc.cast(value.run(columns), pa.int64())), _within(span(columns)))
        return pc.cast(_within(moments), value.type)

    return Columnar(oids.TIMESTAMP, value.type, run)


@in_columns("timestamp_mi_interval")
def _moved_back(args: Sequence[tree.Expr]) -> Columnar:
    return _moved(args, -1)


def _within(moments: Any) -> Any:
    least, most = pc.min(moments).as_py(), pc.max(moments).as_py()
    if least is not None and (least < _LEAST or most > _MOST):
        raise pa.ArrowInvalid("a timestamp that may be out of range")
    return moments


def _microseconds(node: tree.Expr) -> Run:
    """An interval that is known, or a multiple of it."""
    if isinstance(node, tree.Const):
        known = pa.scalar(_length(node), pa.int64())
        return lambda columns: known
    proc = proc_by_oid(next(functions_used(node), 0))
    if proc is None or proc.src not in _FACTOR_FIRST or not isinstance(node, (tree.OpExpr, tree.FuncExpr)):
        raise NotColumnar("an interval")
    one, other = node.args
    factor, span = (one, other) if _FACTOR_FIRST[proc.src] else (other, one)
    length, times = float(_length(span)), argument(factor, (oids.FLOAT8,)).run

    def run(columns: Columns) -> Any:
        product = pc.multiply(times(columns), length)
        return pc.cast(pc.round(product, round_mode="half_to_even"), pa.int64())

    return run


def _length(node: tree.Expr) -> int:
    span = node.value if isinstance(node, tree.Const) else None
    if not isinstance(span, Interval) or span.months or span.days or not is_finite(span):
        raise NotColumnar("an interval of days or months, or one that is not known")
    return span.usecs


TEXTS = (oids.TEXT, oids.VARCHAR)
_EXACT = 1 << 53  # whole numbers up to this are exact in double precision
_EXACT_SCALE = 22  # powers of ten up to this exponent are exact in double precision

Make = Callable[[Sequence[tree.Expr]], Columnar]


# --- texts ------------------------------------------------------------------------------------------------------------


def _text(value: Columnar) -> Run:
    """The value as text, as a cast writes it."""
    run = value.run
    if value.typoid in TEXTS:
        return run
    plain = value.typoid in (*oids.INTEGERS, oids.BOOL) or (
        value.typoid == oids.NUMERIC and value.type.scale <= PLAIN_SCALE
    )
    if not plain:
        raise NotColumnar("a text that Arrow does not write")
    return lambda columns: pc.cast(run(columns), pa.string())


@in_columns("textcat", "anytextcat(anynonarray,text)", "textanycat(text,anynonarray)")
def _concatenated(args: Sequence[tree.Expr]) -> Columnar:
    one, other = [_text(columnar(arg)) for arg in args]
    return Columnar(
        oids.TEXT, pa.string(), lambda columns: pc.binary_join_element_wise(one(columns), other(columns), "")
    )


@columnar.register
def _(node: tree.CoerceViaIO) -> Columnar:
    assert node.arg is not None
    arg = columnar(node.arg)
    if node.type not in TEXTS or arg.typoid == oids.BOOL:  # boolout writes t, a cast true
        raise NotColumnar("a cast by text")
    return Columnar(node.type, pa.string(), _text(arg))


@in_columns("textlike")
def _like(args: Sequence[tree.Expr]) -> Columnar:
    pattern = args[1].value if isinstance(args[1], tree.Const) else None
    if pattern is None or "\\" in pattern:
        raise NotColumnar("a pattern")
    run = argument(args[0], TEXTS).run
    return boolean(lambda columns: pc.match_like(run(columns), pattern))


@in_columns("textnlike")
def _not_like(args: Sequence[tree.Expr]) -> Columnar:
    run = _like(args).run
    return boolean(lambda columns: pc.invert(run(columns)))


@in_columns("unicode_assigned")
def _assigned(args: Sequence[tree.Expr]) -> Columnar:
    """The release decides about characters of Unicode 16.0: they raise, so that rows are evaluated one by one."""
    run = argument(args[0], TEXTS).run

    def assigned(columns: Columns) -> Any:
        texts = run(columns)
        never, later = unicode.unassigned()
        if pc.any(pc.match_substring_regex(texts, later)).as_py():
            raise pa.ArrowInvalid("a character that only Unicode 16.0 has")
        return pc.invert(pc.match_substring_regex(texts, never))

    return boolean(assigned)


@in_columns("varchar")
def _limited(args: Sequence[tree.Expr]) -> Columnar:
    """A cast to varchar(n). Texts that are too long raise, so that rows are evaluated one by one."""
    value = argument(args[0], TEXTS)
    most = _constant(args[1]) - 4
    run = value.run

    def limited(columns: Columns) -> Any:
        texts = run(columns)
        longest = pc.max(pc.utf8_length(texts)).as_py()
        if longest is not None and longest > most:
            raise pa.ArrowInvalid("a text is too long")
        return texts

    return Columnar(oids.VARCHAR, value.type, limited)


@in_columns("bit", "varbit")
def _bits(args: Sequence[tree.Expr]) -> Columnar:
    """An implicit cast to bit(n) or bit varying(n). Strings of another length raise, so that rows are evaluated one by
    one."""
    value, length = argument(args[0], (oids.BIT, oids.VARBIT)), _constant(args[1])
    if not isinstance(args[2], tree.Const) or args[2].value is not False:
        raise NotColumnar("an explicit cast, which cuts")
    run, fits = value.run, pc.less_equal if value.typoid == oids.VARBIT else pc.equal

    def sized(columns: Columns) -> Any:
        strings = run(columns)
        if pc.all(fits(pc.binary_length(strings), length)).as_py() is False:
            raise pa.ArrowInvalid("a bit string of another length")
        return strings

    return Columnar(value.typoid, value.type, sized)


def _constant(arg: tree.Expr) -> int:
    if not isinstance(arg, tree.Const) or not isinstance(arg.value, int):
        raise NotColumnar("a length that is not known")
    return arg.value


# --- numerics ---------------------------------------------------------------------------------------------------------


def _numeric(function: str) -> Make:
    """+, - or *, whose result has the same scale in Arrow and in PostgreSQL."""

    def make(args: Sequence[tree.Expr]) -> Columnar:
        compute = getattr(pc, function)
        values = [argument(arg, (oids.NUMERIC,)) for arg in args]
        try:
            kind = compute(*[pa.array([], value.type) for value in values]).type
        except pa.ArrowException as problem:
            raise NotColumnar("numerics of too many digits") from problem
        return Columnar(
            oids.NUMERIC, kind, lambda columns: pc.cast(compute(*[value.run(columns) for value in values]), kind)
        )

    return make


for _word, _function in {"add": "add", "sub": "subtract", "mul": "multiply"}.items():
    in_columns(f"numeric_{_word}")(_numeric(_function))


@in_columns("numeric")
def _sized(args: Sequence[tree.Expr]) -> Columnar:
    """A cast to numeric(p, s), which rounds half away from zero."""
    precision, scale = numeric_precision_scale(_constant(args[1]))
    value = argument(args[0], (oids.NUMERIC,))
    if precision > 38 or not 0 <= scale <= precision:
        raise NotColumnar("a numeric that is kept as text")
    kind, run = pa.decimal128(precision, scale), value.run
    if value.type.scale <= scale:
        return Columnar(oids.NUMERIC, kind, lambda columns: pc.cast(run(columns), kind))

    # a digit more: Arrow forgets that a rounded value is too large once the next one is not
    digits = value.type.precision + 1
    wider = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, value.type.scale)

    def rounded(columns: Columns) -> Any:
        return pc.cast(pc.round(pc.cast(run(columns), wider), ndigits=scale, round_mode="half_towards_infinity"), kind)

    return Columnar(oids.NUMERIC, kind, rounded)


@in_columns("numeric_float8")
def _double(args: Sequence[tree.Expr]) -> Columnar:
    """A numeric as double precision: its digits divided by a power of ten. Where both are exact the result is rounded
    only once, and so correct."""
    value = argument(args[0], (oids.NUMERIC,))
    run, scale = value.run, value.type.scale
    if scale > _EXACT_SCALE:
        raise NotColumnar("a numeric of many digits")
    return Columnar(oids.FLOAT8, pa.float64(), lambda columns: _quotients(run(columns), scale))


def _quotients(decimals: Any, scale: int) -> Any:
    if isinstance(decimals, pa.Scalar):
        return pa.scalar(None if not decimals.is_valid else float(decimals.as_py()), pa.float64())
    data = decimals.buffers()[1]
    words = np.frombuffer(data, np.int64, 2 * len(decimals), 16 * decimals.offset).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    missing = decimals.is_null().to_numpy(zero_copy_only=False)
    exact = (high == low >> 63) & (low <= _EXACT) & (low >= -_EXACT)
    if not (exact | missing).all():
        raise pa.ArrowInvalid("a numeric of many digits")
    return pa.array(low / np.float64(10**scale), mask=missing)


# --- double precision -------------------------------------------------------------------------------------------------


def _doubles(function: str) -> Make:
    def make(args: Sequence[tree.Expr]) -> Columnar:
        one, other = [argument(arg, (oids.FLOAT8,)).run for arg in args]
        return Columnar(oids.FLOAT8, pa.float64(), lambda columns: _checked(function, one(columns), other(columns)))

    return make


def _checked(function: str, a: Any, b: Any) -> Any:
    """Compute, and raise if a result may be an overflow, an underflow or a division by zero, so that rows are evaluated
    one by one."""
    results = getattr(pc, function)(a, b)
    suspect = pc.any(pc.is_inf(results)).as_py()
    if function in ("multiply", "divide"):
        suspect = suspect or pc.any(pc.equal(results, 0)).as_py()
    if function == "divide":
        suspect = suspect or pc.any(pc.equal(b, 0)).as_py()
    if suspect:
        raise pa.ArrowInvalid("a double that may be out of range")
    return results


for _word, _function in {"pl": "add", "mi": "subtract", "mul": "multiply", "div": "divide"}.items():
    in_columns(f"float8{_word}")(_doubles(_function))


@columnar.register
def _(node: tree.SubscriptingRef) -> Columnar:
    """An element of an array that is known; NULL outside of its bounds."""
    array = node.container.value if isinstance(node.container, tree.Const) else None
    subscripts = [subscript for subscript in node.upper if subscript is not None]
    if node.is_slice or node.assign is not None or not isinstance(array, PgArray) or len(subscripts) != 1:
        raise NotColumnar("an array")
    typoid, items = stored(node, array.items)
    place = argument(subscripts[0], oids.INTEGERS).run
    lower = array.lbounds[0] if len(array.dims) == 1 else 1
    count = len(items) if len(array.dims) == 1 else 0

    def run(columns: Columns) -> Any:
        places = pc.subtract(pc.cast(place(columns), pa.int64()), lower)
        inside = pc.and_(pc.greater_equal(places, 0), pc.less(places, count))
        return pc.take(items, pc.if_else(inside, places, pa.scalar(None, pa.int64())))

    return Columnar(typoid, items.type, run)


# --- CASE -------------------------------------------------------------------------------------------------------------


@columnar.register
def _(node: tree.CaseExpr) -> Columnar:
    if node.arg is not None:
        raise NotColumnar("a CASE of a value")
    tests = [condition(when) for when, _ in node.whens]
    default = tree.Const(node.type) if node.default is None else node.default
    results = [columnar(branch) for branch in (*(then for _, then in node.whens), default)]
    first = results[0]
    if any((result.typoid, result.type) != (first.typoid, first.type) for result in results):
        raise NotColumnar("results of several types")

    def run(columns: Columns) -> Any:
        chosen = results[-1].run(columns)
        for test, result in zip(reversed(tests), reversed(results[:-1]), strict=True):
            chosen = pc.if_else(pc.fill_null(test(columns), pa.scalar(False)), result.run(columns), chosen)
        return chosen

    return Columnar(first.typoid, first.type, run)
