"""numeric as `decimal.Decimal`: text, type modifiers, and invariants.

A value's display scale is minus the Decimal's exponent, so an exponent is never positive, and there is no negative
zero. NaN equals itself and is above everything; infinities have no scale.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import invalid_text
from pgrepl.types.names import numeric_precision_scale
from pgrepl.types.numbers import SPACE

MAX_WHOLE_DIGITS = 131072
MAX_SCALE = 16383

# Wide enough for any value and for the exact product of two; only exact operations may use it.
EXACT = Context(prec=600_000, rounding=ROUND_HALF_UP, Emax=999_999, Emin=-999_999, traps=[InvalidOperation])

NAN = Decimal("NaN")
INFINITY = Decimal("Infinity")
NEGATIVE_INFINITY = Decimal("-Infinity")
ZERO = Decimal(0)

_DECIMAL = re.compile(
    r"([-+]?)((?:[0-9](?:_?[0-9])*)?(?:\.(?:[0-9](?:_?[0-9])*)?)?)(?:[eE]([-+]?[0-9](?:_?[0-9])*))?", re.ASCII
)
_PREFIXED = re.compile(r"([-+]?)0(?:[xX]((?:_?[0-9a-fA-F])+)|[oO]((?:_?[0-7])+)|[bB]((?:_?[01])+))", re.ASCII)
_SPECIAL = re.compile(r"(nan)|[-+]?(?:infinity|inf)", re.IGNORECASE | re.ASCII)


def read_numeric(text: str, typmod: int = -1) -> Decimal:
    trimmed = text.strip(SPACE)
    special = _SPECIAL.fullmatch(trimmed)
    if special:
        value = NAN if special[1] else NEGATIVE_INFINITY if trimmed[0] == "-" else INFINITY
        return fit(value, typmod)
    prefixed = _PREFIXED.fullmatch(trimmed)
    if prefixed:
        digits = next(group for group in prefixed.groups()[1:] if group is not None)
        base = {"x": 16, "o": 8, "b": 2}[trimmed.lstrip("+-")[1].lower()]
        whole = int(digits.replace("_", ""), base)
        return fit(checked(Decimal(-whole if prefixed[1] == "-" else whole)), typmod)
    match = _DECIMAL.match(trimmed)
    if match is None or not match[2].strip("."):
        raise invalid_text("numeric", text)
    sign, mantissa, exponent = match[1], match[2].replace("_", ""), int((match[3] or "0").replace("_", ""))
    whole_digits, _, fraction = mantissa.partition(".")
    if abs(exponent) > 0x7FFFFFFF // 2:
        raise overflow()
    if match.end() < len(trimmed):
        raise invalid_text("numeric", text)
    significant = (
        len(whole_digits.lstrip("0")) if whole_digits.strip("0") else -(len(fraction) - len(fraction.lstrip("0")))
    )
    scale = max(0, len(fraction) - exponent)
    if mantissa.strip("0.") and significant + exponent > MAX_WHOLE_DIGITS:
        if typmod >= 4:
            raise _too_large(typmod)
        raise overflow()
    if scale > MAX_SCALE:
        if typmod < 4:
            raise overflow()
        if significant + exponent < -MAX_SCALE:
            return fit(ZERO, typmod)
    if exponent == 0:
        return fit(_no_negative_zero(Decimal(sign + mantissa)), typmod)
    digits = (whole_digits + fraction).lstrip("0") or "0"
    value = Decimal(f"{sign}{digits}E{exponent - len(fraction)}")
    return fit(_no_negative_zero(value.quantize(Decimal(1).scaleb(-scale), context=EXACT)), typmod)


def write_numeric(value: Decimal) -> str:
    if value.is_finite():
        return format(value, "f")
    return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"


def overflow() -> PgError:
    return PgError("22003", "value overflows numeric format")


def checked(value: Decimal) -> Decimal:
    """A result, or the error for more than 131072 digits before the decimal point (make_result)."""
    if value.is_finite() and value and value.adjusted() >= MAX_WHOLE_DIGITS:
        raise overflow()
    return _no_negative_zero(value)


def _no_negative_zero(value: Decimal) -> Decimal:
    return value if value else value.copy_abs()


def display_scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def rescale(value: Decimal, scale: int) -> Decimal:
    """A value rounded half away from zero to a scale, which may be negative."""
    if not value.is_finite():
        return value
    value = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    if scale < 0:
        value = value.quantize(Decimal(1), context=EXACT)
    return _no_negative_zero(value)


def fit(value: Decimal, typmod: int) -> Decimal:
    """A value fitted to numeric(precision, scale), as apply_typmod does."""
    if typmod < 4 or value.is_nan():
        return value
    precision, scale = numeric_precision_scale(typmod)
    if value.is_infinite():
        raise _field_overflow(f"A field with precision {precision}, scale {scale} cannot hold an infinite value.")
    rounded = rescale(value, scale)
    if rounded and rounded.adjusted() >= precision - scale:
        raise _too_large(typmod)
    return rounded


def _too_large(typmod: int) -> PgError:
    precision, scale = numeric_precision_scale(typmod)
    limit = f"10^{precision - scale}" if precision != scale else "1"
    return _field_overflow(
        f"A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
    )


def _field_overflow(detail: str) -> PgError:
    return PgError("22003", "numeric field overflow", detail=detail)
