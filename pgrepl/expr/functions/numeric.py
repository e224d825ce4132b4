"""numeric with PostgreSQL's result scales: arithmetic, exact where possible, at least 16 significant digits elsewhere;
roots, logarithms, powers, factorial, gcd and lcm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

from pgrepl.expr.functions.arithmetic import check_buckets, division_by_zero, fit_integer
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
    overflow,
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
    scaled = quotient.scaleb(-scale, context=EXACT)
    return scaled.copy_negate() if quotient and a.is_signed() != b.is_signed() else scaled


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


implements("numeric_uplus")(lambda value: value)


@implements("numeric_abs")
def numeric_abs(value: Decimal) -> Decimal:
    return value.copy_abs()


implements("numeric_sign")(lambda value: value if value.is_nan() else Decimal(sign_of(value)))
implements("numeric_inc")(lambda value: numeric_add(value, ONE))


@implements("numeric_round")
def numeric_round(value: Decimal, scale: int) -> Decimal:
    return checked(rescale(value, min(max(scale, -(1 << 17) - 1), MAX_SCALE)))


implements("round(numeric)")(lambda value: numeric_round(value, 0))


@implements("numeric_trunc")
def numeric_trunc(value: Decimal, scale: int) -> Decimal:
    if not value.is_finite():
        return value
    scale = min(max(scale, -(1 << 17) - 1), MAX_SCALE)
    top = int(value.scaleb(scale, context=EXACT))
    cut = Decimal(top).scaleb(-scale, context=EXACT)
    return rescale(cut, max(scale, 0))


implements("trunc(numeric)")(lambda value: numeric_trunc(value, 0))


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


implements("numeric_scale")(lambda value: display_scale(value) if value.is_finite() else None)
implements("numeric_min_scale")(lambda value: _min_scale(value) if value.is_finite() else None)


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
    check_buckets(Decimal.is_nan, Decimal.is_infinite, (operand, low, high), count)
    if low > high:
        operand, low, high = operand.copy_negate(), low.copy_negate(), high.copy_negate()
    if operand < low:
        return 0
    if operand >= high:
        return fit_integer(count + 1, 32)
    offset = EXACT.multiply(EXACT.subtract(operand, low), Decimal(count))
    width = EXACT.subtract(high, low)
    quotient = divide(offset, width, division_scale(offset, width))
    return count if quotient >= count else int(numeric_floor(EXACT.add(quotient, ONE)))


def _context(digits: int) -> Context:
    return Context(prec=max(digits, 1) + 12, rounding=ROUND_HALF_UP, Emax=999_999, Emin=-999_999)


def _scale(digits_before: int, *values: Decimal) -> int:
    scales = [display_scale(value) for value in values]
    return min(max(MIN_SIGNIFICANT_DIGITS - digits_before, 0, *scales), MAX_DISPLAY_SCALE)


def square_root(value: Decimal, scale: int) -> Decimal:
    top = abs(int(value.scaleb(2 * scale + 2, context=EXACT)))
    return rescale(Decimal(math.isqrt(top)).scaleb(-scale - 1, context=EXACT), scale)


@implements("numeric_sqrt")
def numeric_sqrt(value: Decimal) -> Decimal:
    if sign_of(value) < 0 and not value.is_nan():
        raise PgError("2201F", "cannot take square root of a negative number")
    if not value.is_finite():
        return value
    return checked(square_root(value, _scale(weight_of(value)[0] * 2 + 1, value)))


@implements("numeric_exp")
def numeric_exp(value: Decimal) -> Decimal:
    if not value.is_finite():
        return ZERO if value == NEGATIVE_INFINITY else value
    return checked(_exp(value, _power_scale(float(value), value)))


def _power_scale(natural: float, *values: Decimal) -> int:
    """The result scale of e^natural."""
    digits = max(min(natural * 0.434294481903252, MAX_RESULT_SCALE), -MAX_RESULT_SCALE)
    return _scale(int(digits), *values)


def _exp(value: Decimal, scale: int) -> Decimal:
    natural = float(value)
    if abs(natural) >= MAX_RESULT_SCALE * 3:
        if natural > 0:
            raise overflow()
        return rescale(ZERO, scale)
    digits = scale + max(int(natural * 0.4343), 0) + 8
    return rescale(_context(digits).exp(value), scale)


def _is_near_one(value: Decimal) -> bool:
    return Decimal("0.9") <= value <= Decimal("1.1")


def _ln_weight(value: Decimal) -> int:
    """The decimal weight of a logarithm, as estimate_ln_dweight estimates it."""
    if sign_of(value) <= 0:
        return 0
    if _is_near_one(value):
        difference = EXACT.subtract(value, ONE)
        return difference.adjusted() if difference else 0
    weight, first = weight_of(value)
    digits, power = first, weight * 4
    second = int(value.scaleb(4 - 4 * weight, context=EXACT)) % 10000
    if second or value != Decimal(first).scaleb(4 * weight, context=EXACT):
        digits, power = first * 10000 + second, power - 4
    return int(math.log10(abs(math.log(digits) + power * 2.302585092994046)))


def _ln(value: Decimal, scale: int) -> Decimal:
    if not value:
        raise PgError("2201E", "cannot take logarithm of zero")
    if sign_of(value) < 0:
        raise PgError("2201E", "cannot take logarithm of a negative number")
    if _is_near_one(value):
        return _ln_near_one(EXACT.subtract(value, ONE), scale)
    return rescale(_context(scale + 10).ln(value), scale)


def _ln_near_one(difference: Decimal, scale: int) -> Decimal:
    """ln(1 + d) = 2 (z + z^3/3 + z^5/5 ...) with z = d / (2 + d), as ln_var computes it. A small d needs few terms,
    while Decimal.ln takes seconds for thousands of digits."""
    if not difference:
        return rescale(ZERO, scale)
    context = _context(scale + difference.adjusted() + 1)
    z = context.divide(difference, context.add(difference, 2))
    square, power, total, number = context.multiply(z, z), z, z, 1
    while power.adjusted() > -scale - 12:
        number += 2
        power = context.multiply(power, square)
        total = context.add(total, context.divide(power, number))
    return rescale(context.multiply(total, 2), scale)


@implements("numeric_ln")
def numeric_ln(value: Decimal) -> Decimal:
    if value == NEGATIVE_INFINITY:
        raise PgError("2201E", "cannot take logarithm of a negative number")
    if not value.is_finite():
        return value
    return checked(_ln(value, _scale(_ln_weight(value), value)))


@implements("numeric_log")
def numeric_log(base: Decimal, value: Decimal) -> Decimal:
    if base.is_nan() or value.is_nan():
        return NAN
    if either_special(base, value) and min(sign_of(base), sign_of(value)) < 0:
        raise PgError("2201E", "cannot take logarithm of a negative number")
    for operand in (base, value):
        if sign_of(operand) < 0:
            raise PgError("2201E", "cannot take logarithm of a negative number")
        if not operand:
            raise PgError("2201E", "cannot take logarithm of zero")
    if base.is_infinite():
        return NAN if value.is_infinite() else ZERO
    if value.is_infinite():
        return INFINITY
    base_weight, value_weight = _ln_weight(base), _ln_weight(value)
    weight = value_weight - base_weight
    scale = _scale(weight, base, value)
    over = _ln(value, max(scale + weight - value_weight + 8, 0))
    under = _ln(base, max(scale + weight - base_weight + 8, 0))
    if not under:
        raise division_by_zero()
    return checked(divide(over, under, scale))


implements("log(numeric)", "log10(numeric)")(lambda value: numeric_log(Decimal(10), value))


def _is_whole(value: Decimal) -> bool:
    return value.is_infinite() or value == value.to_integral_value()


def _special_power(base: Decimal, power: Decimal) -> Decimal:
    """power() of NaN and infinities, by POSIX's rules."""
    if base.is_nan() or power.is_nan():
        one = (power.is_finite() and not power) if base.is_nan() else (base.is_finite() and base == ONE)
        return ONE if one else NAN
    _check_power(base, power)
    if base.is_finite() and base == ONE:
        return ONE
    if not power:
        return ONE
    if not base:
        return ZERO
    if power.is_infinite():
        if base == -1:
            return ONE
        large = base.is_infinite() or base.copy_abs() > ONE
        return INFINITY if large == (sign_of(power) > 0) else ZERO
    if sign_of(power) < 0:
        return ZERO
    odd = power == power.to_integral_value() and int(power) % 2 == 1
    return NEGATIVE_INFINITY if base == NEGATIVE_INFINITY and odd else INFINITY


def _check_power(base: Decimal, power: Decimal) -> None:
    if not base and sign_of(power) < 0:
        raise PgError("2201F", "zero raised to a negative power is undefined")
    if sign_of(base) < 0 and not _is_whole(power):
        raise PgError("2201F", "a negative number raised to a non-integer power yields a complex result")


@implements("numeric_power")
def numeric_power(base: Decimal, power: Decimal) -> Decimal:
    if either_special(base, power):
        return _special_power(base, power)
    if not base and sign_of(power) < 0:
        raise PgError("2201F", "zero raised to a negative power is undefined")
    if power == power.to_integral_value() and abs(power) < 1 << 31:
        return checked(_integer_power(base, int(power), display_scale(power)))
    if not base:
        return rescale(ZERO, MIN_SIGNIFICANT_DIGITS)
    _check_power(base, power)
    return checked(_real_power(base, power))


def _integer_power(base: Decimal, power: int, power_scale: int) -> Decimal:
    digits = 0.0
    if base:
        whole = str(abs(int(base.scaleb(display_scale(base), context=EXACT))))[:17]
        digits = power * (math.log10(int(whole)) + base.adjusted() - len(whole) + 1)
    if digits > 131072:
        raise overflow()
    if digits + 1 < -MAX_DISPLAY_SCALE:
        return rescale(ZERO, MAX_DISPLAY_SCALE)
    scale = max(MIN_SIGNIFICANT_DIGITS - int(digits), display_scale(base), power_scale, 0)
    scale = min(scale, MAX_DISPLAY_SCALE)
    if power == 0:
        return rescale(ONE, scale)
    if not base:
        return rescale(ZERO, scale)
    if power == -1:
        return divide(ONE, base, scale)
    significant = 1 + scale + int(digits) + int(math.log(abs(power))) + 8
    result = _context(max(significant, 20)).power(base, power)
    return rescale(result, scale)


def _real_power(base: Decimal, power: Decimal) -> Decimal:
    negative = sign_of(base) < 0 and int(power) % 2 == 1
    base = base.copy_abs()
    weight = _ln_weight(base)
    rough = float(_natural(base, power, max(8 - weight, 0)))
    if abs(rough) > MAX_RESULT_SCALE * 3.01:
        if rough > 0:
            raise overflow()
        return rescale(ZERO, MAX_DISPLAY_SCALE)
    digits = int(rough * 0.434294481903252)
    scale = _scale(digits, base, power)
    precise = max(max(scale + digits, 0) - weight + 8, 0)
    result = _exp(_natural(base, power, precise), scale)
    return result.copy_negate() if negative and result else result


def _natural(base: Decimal, power: Decimal, scale: int) -> Decimal:
    """The logarithm of a power. Its factors alone may be beyond every float."""
    return rescale(EXACT.multiply(_ln(base, scale), power), scale)


@implements("numeric_fac")
def numeric_fac(number: int) -> Decimal:
    if number < 0:
        raise PgError("22003", "factorial of a negative number is undefined")
    if number > 32177:
        raise overflow()
    return Decimal(math.factorial(number))


implements("numeric_gcd")(lambda a, b: _common(a, b, math.gcd))
implements("numeric_lcm")(lambda a, b: _common(a, b, math.lcm))


def _common(a: Decimal, b: Decimal, function: Callable[[int, int], int]) -> Decimal:
    if either_special(a, b):
        return NAN
    scale = max(display_scale(a), display_scale(b))
    return checked(Decimal(function(*ratio(a, b))).scaleb(-scale, context=EXACT))
