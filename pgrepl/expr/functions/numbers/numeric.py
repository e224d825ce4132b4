"""Arithmetic of numeric with PostgreSQL's result scales: exact where possible, at least 16 significant digits
elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from pgrepl.expr.functions.numbers.arithmetic import division_by_zero, integer_out_of_range
from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.types.numeric import (
    EXACT,
    INFINITY,
    MAX_SCALE,
    NAN,
    NEGATIVE_INFINITY,
    ZERO,
    checked,
    display_scale,
    rescale,
)

implements = Family()

MIN_SIGNIFICANT_DIGITS = 16
MAX_DISPLAY_SCALE = 1000
MAX_RESULT_SCALE = 2000
ONE = Decimal(1)


def sign_of(value: Decimal) -> int:
    return 0 if not value else -1 if value.is_signed() else 1


def _infinity(sign: int) -> Decimal:
    return INFINITY if sign > 0 else NEGATIVE_INFINITY


def either_special(a: Decimal, b: Decimal) -> bool:
    return not (a.is_finite() and b.is_finite())


@implements("numeric_add")
def numeric_add(a: Decimal, b: Decimal) -> Decimal:
    return checked(unchecked_sum(a, b))


def unchecked_sum(a: Decimal, b: Decimal) -> Decimal:
    """The sum of any size: an aggregate checks its result, not the sums on the way (accum_sum_add)."""
    if either_special(a, b):
        if a.is_nan() or b.is_nan() or (a.is_infinite() and b.is_infinite() and a != b):
            return NAN
        return a if a.is_infinite() else b
    return EXACT.add(a, b)


@implements("numeric_sub")
def numeric_sub(a: Decimal, b: Decimal) -> Decimal:
    return numeric_add(a, b.copy_negate() if b else b)


@implements("numeric_mul")
def numeric_mul(a: Decimal, b: Decimal) -> Decimal:
    if either_special(a, b):
        sign = 0 if a.is_nan() or b.is_nan() else sign_of(a) * sign_of(b)
        return _infinity(sign) if sign else NAN
    product = EXACT.multiply(a, b)
    if display_scale(product) > MAX_SCALE:
        product = rescale(product, MAX_SCALE)
    return checked(product)


def weight_of(value: Decimal) -> tuple[int, int]:
    """The base-10000 weight and the first base-10000 digit; (0, 0) for zero."""
    if not value:
        return 0, 0
    weight = value.adjusted() // 4
    return weight, int(value.copy_abs().scaleb(-4 * weight, context=EXACT))


def division_scale(a: Decimal, b: Decimal) -> int:
    """The result scale of a division, as select_div_scale chooses it."""
    (weight1, first1), (weight2, first2) = weight_of(a), weight_of(b)
    quotient = weight1 - weight2 - (first1 <= first2)
    return min(max(MIN_SIGNIFICANT_DIGITS - quotient * 4, display_scale(a), display_scale(b), 0), MAX_DISPLAY_SCALE)


def divide(a: Decimal, b: Decimal, scale: int) -> Decimal:
    """The quotient, rounded half away from zero to a scale."""
    bottom = b.copy_abs()
    quotient, rest = EXACT.divmod(a.copy_abs().scaleb(scale, context=EXACT), bottom)
    if EXACT.add(rest, rest) >= bottom:
        quotient = EXACT.add(quotient, ONE)
    found = quotient.scaleb(-scale, context=EXACT)
    return found.copy_negate() if quotient and a.is_signed() != b.is_signed() else found


def ratio(a: Decimal, b: Decimal) -> tuple[int, int]:
    """Two integers of the same quotient."""
    scale = max(display_scale(a), display_scale(b))
    return int(a.scaleb(scale, context=EXACT)), int(b.scaleb(scale, context=EXACT))


def _special_quotient(a: Decimal, b: Decimal) -> Decimal:
    if a.is_nan() or b.is_nan() or (a.is_infinite() and b.is_infinite()):
        return NAN
    if a.is_infinite():
        if not b:
            raise division_by_zero()
        return _infinity(sign_of(a) * sign_of(b))
    return ZERO


@implements("numeric_div")
def numeric_div(a: Decimal, b: Decimal) -> Decimal:
    if either_special(a, b):
        return _special_quotient(a, b)
    if not b:
        raise division_by_zero()
    return checked(divide(a, b, division_scale(a, b)))


@implements("numeric_div_trunc")
def numeric_div_trunc(a: Decimal, b: Decimal) -> Decimal:
    if either_special(a, b):
        return _special_quotient(a, b)
    if not b:
        raise division_by_zero()
    return checked(EXACT.divide_int(a, b))


@implements("numeric_mod")
def numeric_mod(a: Decimal, b: Decimal) -> Decimal:
    if either_special(a, b):
        if a.is_nan() or b.is_nan():
            return NAN
        if a.is_infinite():
            if not b:
                raise division_by_zero()
            return NAN
        return a
    if not b:
        raise division_by_zero()
    return checked(EXACT.remainder(a, b))


@implements("numeric_uminus")
def numeric_uminus(value: Decimal) -> Decimal:
    return value.copy_negate() if value and not value.is_nan() else value


@implements("numeric_uplus")
def numeric_uplus(value: Decimal) -> Decimal:
    return value


@implements("numeric_abs")
def numeric_abs(value: Decimal) -> Decimal:
    return value.copy_abs()


@implements("numeric_sign")
def numeric_sign(value: Decimal) -> Decimal:
    return value if value.is_nan() else Decimal(sign_of(value))


@implements("numeric_inc")
def numeric_inc(value: Decimal) -> Decimal:
    return numeric_add(value, ONE)


@implements("numeric_round")
def numeric_round(value: Decimal, scale: int) -> Decimal:
    return checked(rescale(value, min(max(scale, -(1 << 17) - 1), MAX_SCALE)))


@implements("round(numeric)")
def round_whole(value: Decimal) -> Decimal:
    return numeric_round(value, 0)


@implements("numeric_trunc")
def numeric_trunc(value: Decimal, scale: int) -> Decimal:
    if not value.is_finite():
        return value
    scale = min(max(scale, -(1 << 17) - 1), MAX_SCALE)
    top = int(value.scaleb(scale, context=EXACT))
    cut = Decimal(top).scaleb(-scale, context=EXACT)
    return rescale(cut, max(scale, 0))


@implements("trunc(numeric)")
def trunc_whole(value: Decimal) -> Decimal:
    return numeric_trunc(value, 0)


@implements("numeric_ceil")
def numeric_ceil(value: Decimal) -> Decimal:
    return _to_whole(value, ROUND_CEILING)


@implements("numeric_floor")
def numeric_floor(value: Decimal) -> Decimal:
    return _to_whole(value, ROUND_FLOOR)


def _to_whole(value: Decimal, rounding: str) -> Decimal:
    if not value.is_finite():
        return value
    return checked(value.quantize(ONE, rounding=rounding, context=EXACT))


@implements("numeric_scale")
def numeric_scale(value: Decimal) -> int | None:
    return display_scale(value) if value.is_finite() else None


@implements("numeric_min_scale")
def numeric_min_scale(value: Decimal) -> int | None:
    return _min_scale(value) if value.is_finite() else None


def _min_scale(value: Decimal) -> int:
    if not value:
        return 0
    digits = f"{value:f}".partition(".")[2]
    return len(digits.rstrip("0"))


@implements("numeric_trim_scale")
def numeric_trim_scale(value: Decimal) -> Decimal:
    return rescale(value, _min_scale(value)) if value.is_finite() else value


# --------------------------------------------------------------------------------------------------- series and others


@implements("generate_series_numeric", "generate_series_step_numeric")
def generate_series_numeric(start: Decimal, stop: Decimal, step: Decimal = ONE) -> Iterator[Decimal]:
    for value, name in ((start, "start value"), (stop, "stop value"), (step, "step size")):
        if value.is_nan():
            raise PgError("22023", f"{name} cannot be NaN")
        if value.is_infinite():
            raise PgError("22023", f"{name} cannot be infinity")
    if not step:
        raise PgError("22023", "step size cannot equal zero")
    return _series(start, stop, step)


def _series(start: Decimal, stop: Decimal, step: Decimal) -> Iterator[Decimal]:
    value = start
    while value <= stop if step > 0 else value >= stop:
        yield value
        value = EXACT.add(value, step)  # the sum behind the last one may be of any size


@implements("width_bucket_numeric")
def width_bucket_numeric(operand: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    if count <= 0:
        raise PgError("2201G", "count must be greater than zero")
    if operand.is_nan() or low.is_nan() or high.is_nan():
        raise PgError("2201G", "operand, lower bound, and upper bound cannot be NaN")
    if low.is_infinite() or high.is_infinite():
        raise PgError("2201G", "lower and upper bounds must be finite")
    if low == high:
        raise PgError("2201G", "lower bound cannot equal upper bound")
    if low > high:
        operand, low, high = operand.copy_negate(), low.copy_negate(), high.copy_negate()
    if operand < low:
        return 0
    if operand >= high:
        if count + 1 >= 1 << 31:
            raise integer_out_of_range(32)
        return count + 1
    offset = EXACT.multiply(EXACT.subtract(operand, low), Decimal(count))
    width = EXACT.subtract(high, low)
    quotient = divide(offset, width, division_scale(offset, width))
    return count if quotient >= count else int(numeric_floor(EXACT.add(quotient, ONE)))
