"""Functions of double precision: rounding, roots, logarithms, trigonometry in radians and degrees, series."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pgrepl.expr.functions.arithmetic import check_buckets, fit_integer, float_overflow, float_underflow
from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.types.arrays import PgArray
from pgrepl.types.values import comparer

implements = Family()


@implements("dround", columns="round", spark="rint({})")
def dround(value: float) -> float:
    return math.copysign(round(value), value) if math.isfinite(value) else value


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: math.copysign(float(function(value)), value) if math.isfinite(value) else value


implements("dceil", columns="ceil")(_whole(math.ceil))
implements("dfloor", columns="floor")(_whole(math.floor))
implements("dtrunc", columns="trunc")(_whole(math.trunc))
implements("dsign")(lambda value: 1.0 if value > 0 else -1.0 if value < 0 else 0.0)


@implements("dsqrt", columns="sqrt_checked")
def dsqrt(value: float) -> float:
    if value < 0:
        raise PgError("2201F", "cannot take square root of a negative number")
    return math.sqrt(value)


@implements("dcbrt")
def dcbrt(value: float) -> float:
    if not math.isfinite(value) or value == 0:
        return value
    return _cbrt(value)


def _newton_cbrt(value: float) -> float:
    root = abs(value) ** (1 / 3)
    root -= (root * root * root - abs(value)) / (3 * root * root)
    return math.copysign(root, value)


_cbrt: Callable[[float], float] = getattr(math, "cbrt", _newton_cbrt)  # Python 3.11 has the C library's


@implements("dexp")
def dexp(value: float) -> float:
    if math.isnan(value) or math.isinf(value):
        return value if value != -math.inf else 0.0
    try:
        result = math.exp(value)
    except OverflowError:
        raise float_overflow() from None
    if result == 0.0:
        raise float_underflow()
    return result


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    def compute(value: float) -> float:
        if value == 0.0:
            raise PgError("2201E", "cannot take logarithm of zero")
        if value < 0:
            raise PgError("2201E", "cannot take logarithm of a negative number")
        return function(value)

    return compute


implements("dlog1")(_logarithm(math.log))
implements("dlog10")(_logarithm(math.log10))


@implements("dpow")
def dpow(base: float, power: float) -> float:
    if math.isnan(base) or math.isnan(power):
        return 1.0 if (power == 0.0 if math.isnan(base) else base == 1.0) else math.nan
    if base == 0 and power < 0:
        raise PgError("2201F", "zero raised to a negative power is undefined")
    if base < 0 and math.isfinite(power) and math.floor(power) != power:
        raise PgError("2201F", "a negative number raised to a non-integer power yields a complex result")
    try:
        result = math.pow(base, power)
    except OverflowError:
        raise float_overflow() from None
    if math.isfinite(base) and math.isfinite(power):
        if math.isinf(result):
            raise float_overflow()
        if result == 0.0 and base != 0.0:
            raise float_underflow()
    return result


def input_out_of_range() -> PgError:
    return PgError("22003", "input is out of range")


def _checked(function: Callable[[float], float]) -> Callable[[float], float]:
    """The result, or the error for what C reports in errno; NaN passes."""

    def compute(value: float) -> float:
        if math.isnan(value):
            return value
        try:
            result = function(value)
        except ValueError:
            raise input_out_of_range() from None
        except OverflowError:
            raise float_overflow() from None
        if math.isnan(result):
            raise input_out_of_range()
        return result

    return compute


def _cotangent(value: float) -> float:
    tangent = math.tan(value)
    return 1.0 / tangent if tangent else math.copysign(math.inf, tangent)


def _hyperbolic(function: Callable[[float], float]) -> Callable[[float], float]:
    """sinh and cosh, which overflow to infinity."""

    def compute(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.inf if function is math.cosh else math.copysign(math.inf, value)

    return compute


def _atanh(value: float) -> float:
    if abs(value) > 1:
        raise ValueError
    return math.copysign(math.inf, value) if abs(value) == 1 else math.atanh(value)


for _name, _function in {
    "dacos": math.acos,
    "dasin": math.asin,
    "datan": math.atan,
    "dcos": math.cos,
    "dsin": math.sin,
    "dtan": math.tan,
    "dcot": _cotangent,
    "dsinh": _hyperbolic(math.sinh),
    "dcosh": _hyperbolic(math.cosh),
    "dtanh": math.tanh,
    "dasinh": math.asinh,
    "dacosh": math.acosh,
    "datanh": _atanh,
    "derf": math.erf,
    "derfc": math.erfc,
}.items():
    implements(_name)(_checked(_function))


@cache
def _from_c(name: str) -> Callable[[float], float]:
    """A function of the C library, whose last digits are not those of Python's own."""
    from ctypes import CDLL, c_double

    try:
        function = getattr(CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return {"tgamma": math.gamma, "lgamma": math.lgamma}[name]
    function.argtypes, function.restype = (c_double,), c_double
    typed: Callable[[float], float] = function
    return typed


def _gamma(name: str, value: float) -> float:
    """The result; infinite at poles and beyond the range."""
    try:
        return _from_c(name)(value)
    except (ValueError, OverflowError):
        return math.inf


@implements("dgamma")
def dgamma(value: float) -> float:
    if math.isnan(value) or value == math.inf:
        return value
    result = _gamma("tgamma", value)
    if not math.isfinite(result):
        raise float_overflow()
    if result == 0:
        raise float_underflow()
    return result


@implements("dlgamma")
def dlgamma(value: float) -> float:
    result = _gamma("lgamma", value)
    if math.isinf(result) and not math.isinf(value):
        raise float_overflow()
    return result


implements("datan2")(lambda y, x: math.atan2(y, x))
implements("dpi")(lambda: math.pi)
implements("degrees")(lambda value: _finite(value / _RADIANS_PER_DEGREE, value))
implements("radians")(lambda value: value * _RADIANS_PER_DEGREE)


_RADIANS_PER_DEGREE = 0.0174532925199432957692


def _finite(result: float, value: float) -> float:
    if math.isinf(result) and not math.isinf(value):
        raise float_overflow()
    return result


# Degrees: exact where the mathematical result is (sind(30) = 0.5), by scaling with the computed value there.


def _sind_quarter(degree: float) -> float:
    """The sine of 0 … 90 degrees."""
    if degree <= 30.0:
        return (math.sin(degree * _RADIANS_PER_DEGREE) / _SIN_30) / 2.0
    return _cosd_sixty(90.0 - degree)


def _cosd_sixty(degree: float) -> float:
    """The cosine of 0 … 60 degrees."""
    return 1.0 - ((1.0 - math.cos(degree * _RADIANS_PER_DEGREE)) / _ONE_MINUS_COS_60) / 2.0


_SIN_30 = math.sin(30.0 * _RADIANS_PER_DEGREE)
_ONE_MINUS_COS_60 = 1.0 - math.cos(60.0 * _RADIANS_PER_DEGREE)


def _cosd_quarter(degree: float) -> float:
    return _cosd_sixty(degree) if degree <= 60.0 else _sind_quarter(90.0 - degree)


def _quarter(value: float) -> tuple[float, float, float]:
    """The angle of 0 … 90 degrees with the same sine and cosine, but for their signs, and these."""
    if math.isinf(value):
        raise ValueError
    degree = math.fmod(value, 360.0)
    sine = cosine = 1.0
    if degree < 0.0:
        degree, sine = -degree, -sine
    if degree > 180.0:
        degree, sine = 360.0 - degree, -sine
    if degree > 90.0:
        degree, cosine = 180.0 - degree, -cosine
    return degree, sine, cosine


def _sind(value: float) -> float:
    degree, sign, _ = _quarter(value)
    return sign * _sind_quarter(degree)


def _cosd(value: float) -> float:
    degree, _, sign = _quarter(value)
    return sign * _cosd_quarter(degree)


def _tand(value: float) -> float:
    degree, *signs = _quarter(value)
    sign = math.prod(signs)
    if degree == 90.0:
        return sign * math.inf
    return _over(sign * _sind_quarter(degree) / _cosd_quarter(degree), _TAN_45)


def _over(value: float, unit: float) -> float:
    return 0.0 if value == 0.0 else value / unit


def _cotd(value: float) -> float:
    degree, *signs = _quarter(value)
    sign, sine = math.prod(signs), _sind_quarter(degree)
    if sine == 0.0:  # also for angles next to 0
        return sign * math.inf
    return _over(sign * _cosd_quarter(degree) / sine, _COT_45)


_TAN_45 = _sind_quarter(45.0) / _cosd_quarter(45.0)
_COT_45 = _cosd_quarter(45.0) / _sind_quarter(45.0)
_ASIN_05, _ACOS_05, _ATAN_1 = math.asin(0.5), math.acos(0.5), math.atan(1.0)


def _asind(value: float) -> float:
    if abs(value) > 1.0:
        raise ValueError
    return _asind_quarter(value) if value >= 0.0 else -_asind_quarter(-value)


def _asind_quarter(value: float) -> float:
    if value <= 0.5:
        return (math.asin(value) / _ASIN_05) * 30.0
    return 90.0 - (math.acos(value) / _ACOS_05) * 60.0


def _acosd(value: float) -> float:
    if abs(value) > 1.0:
        raise ValueError
    return _acosd_quarter(value) if value >= 0.0 else 90.0 + _asind_quarter(-value)


def _acosd_quarter(value: float) -> float:
    if value <= 0.5:
        return 90.0 - (math.asin(value) / _ASIN_05) * 30.0
    return (math.acos(value) / _ACOS_05) * 60.0


for _name, _function in {
    "dsind": _sind,
    "dcosd": _cosd,
    "dtand": _tand,
    "dcotd": _cotd,
    "dasind": _asind,
    "dacosd": _acosd,
    "datand": lambda value: (math.atan(value) / _ATAN_1) * 45.0,
}.items():
    implements(_name)(_checked(_function))


implements("datan2d")(lambda y, x: (math.atan2(y, x) / _ATAN_1) * 45.0)


# -------------------------------------------------------------------------------------------------------------- series


@implements("generate_series_int4", "generate_series_step_int4", "generate_series_int8", "generate_series_step_int8")
def generate_series(start: int, stop: int, step: int = 1) -> Iterator[int]:
    if step == 0:
        raise PgError("22023", "step size cannot equal zero")
    return iter(range(start, stop + (1 if step > 0 else -1), step))


# ------------------------------------------------------------------------------------------------------------- buckets


@implements("width_bucket_array")
def width_bucket_array(operand: Any, thresholds: PgArray) -> int:
    """The number of sorted thresholds that are less than or equal to the operand."""
    if len(thresholds.dims) > 1:
        raise PgError("2202E", "thresholds must be one-dimensional array")
    if None in thresholds.items:
        raise PgError("22004", "thresholds array must not contain NULLs")
    compare = comparer(thresholds.elemtype)
    low, high = 0, len(thresholds.items)
    while low < high:
        middle = (low + high) // 2
        if compare(operand, thresholds.items[middle]) < 0:
            high = middle
        else:
            low = middle + 1
    return low


@implements("width_bucket_float8")
def width_bucket_float8(operand: float, low: float, high: float, count: int) -> int:
    check_buckets(math.isnan, math.isinf, (operand, low, high), count)
    sign = 1.0 if low < high else -1.0
    operand, low, high = sign * operand, sign * low, sign * high
    if operand < low:
        return 0
    if operand >= high:
        return fit_integer(count + 1, 32)
    width = high - low
    share = (operand - low) / width if not math.isinf(width) else (operand / 2 - low / 2) / (high / 2 - low / 2)
    return min(int(count * share), count - 1) + 1
