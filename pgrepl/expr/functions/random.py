"""Random numbers by PostgreSQL's own generator, so that `setseed()` gives the same sequence here."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from weakref import WeakKeyDictionary

from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types.numbers import write_float8
from pgrepl.types.numeric import EXACT, display_scale

implements = Family()

_MASK = (1 << 64) - 1
_NBASE = 10_000
_DIGITS = 4  # decimal digits in one of base 10,000


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


class Xoroshiro:
    """The xoroshiro128** generator of pg_prng.c."""

    def __init__(self) -> None:
        self.seeded = False
        self._one, self._two = (int.from_bytes(os.urandom(8), "little") | 1 for _ in range(2))

    def seed(self, seed: float) -> None:
        state = int(((1 << 52) - 1) * seed) & _MASK
        found = []
        for _ in range(2):  # splitmix64
            state = (state + 0x9E3779B97F4A7C15) & _MASK
            value = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
            found.append(value ^ (value >> 31))
        self._one, self._two = found
        self.seeded = True

    def bits(self) -> int:
        """The next 64 random bits."""
        one, mixed = self._one, self._two ^ self._one
        value = (_rotated(one * 5 & _MASK, 7) * 9) & _MASK
        self._one = _rotated(one, 24) ^ mixed ^ (mixed << 16 & _MASK)
        self._two = _rotated(mixed, 37)
        return value

    def fraction(self) -> float:
        return math.ldexp(self.bits() >> 12, -52)

    def normal(self) -> float:
        one, two = 1.0 - self.fraction(), 1.0 - self.fraction()
        return math.sqrt(-2.0 * math.log(one)) * math.sin(2.0 * math.pi * two)

    def below(self, limit: int) -> int:
        """A random integer from 0 to the limit, inclusive."""
        if limit <= 0:
            return 0
        shift = 64 - limit.bit_length()
        while True:
            value = self.bits() >> shift
            if value <= limit:
                return value


_of_sessions: WeakKeyDictionary[Session, Xoroshiro] = WeakKeyDictionary()
_without_session = Xoroshiro()


def _generator(call: Call) -> Xoroshiro:
    if not call.context.has_session:
        return _without_session
    found = _of_sessions.get(call.session)
    if found is None:
        found = _of_sessions[call.session] = Xoroshiro()
    return found


def is_seeded(session: Session) -> bool:
    """Whether the session has called setseed()."""
    found = _of_sessions.get(session)
    return found is not None and found.seeded


@implements("setseed", context=True)
def setseed(call: Call, seed: float) -> str:
    if not -1.0 <= seed <= 1.0:
        shown = write_float8(seed) if math.isnan(seed) or math.isinf(seed) else f"{seed:g}"
        raise PgError("22023", f"setseed parameter {shown} is out of allowed range [-1,1]")
    _generator(call).seed(seed)
    return ""


@implements("drandom", context=True)
def drandom(call: Call) -> float:
    return _generator(call).fraction()


@implements("drandom_normal", context=True)
def drandom_normal(call: Call, mean: float, deviation: float) -> float:
    return deviation * _generator(call).normal() + mean


def _check_bounds(low: Decimal | int, high: Decimal | int) -> None:
    if low > high:
        raise PgError("22023", "lower bound must be less than or equal to upper bound")


@implements("int4random", "int8random", context=True)
def random_between(call: Call, low: int, high: int) -> int:
    _check_bounds(low, high)
    return low + _generator(call).below(high - low)


@implements("numeric_random", context=True)
def numeric_random(call: Call, low: Decimal, high: Decimal) -> Decimal:
    for value, name in ((low, "lower bound"), (high, "upper bound")):
        if not value.is_finite():
            raise PgError("22023", f"{name} cannot be {'NaN' if value.is_nan() else 'infinity'}")
    _check_bounds(low, high)
    scale = max(display_scale(low), display_scale(high))
    length = EXACT.subtract(high, low)
    offset = _random_numeric(_generator(call), length, scale) if length else Decimal(0)
    return EXACT.quantize(EXACT.add(low, offset), Decimal(1).scaleb(-scale))


def _random_numeric(generator: Xoroshiro, length: Decimal, scale: int) -> Decimal:
    """A random numeric from 0 to the length, by base-10000 digits (random_var)."""
    behind = -(-scale // _DIGITS)  # base-10000 digits behind the point
    unit = Decimal(1).scaleb(-behind * _DIGITS)
    whole = int(EXACT.divide(length, unit))
    digits: list[int] = []
    rest = whole
    while rest:
        rest, digit = divmod(rest, _NBASE)
        digits.insert(0, digit)
    step: int = 10 ** (-scale % _DIGITS)  # the last digit is a multiple of it
    first = digits[:4]
    start = 0
    for digit in first:
        start = start * _NBASE + digit
    while True:
        if len(first) == len(digits) and step != 1:
            value = generator.below(start // step) * step
        else:
            value = generator.below(start)
        left = len(digits) - len(first) - (step != 1)
        while left >= 4:
            four = generator.below(_NBASE**4 - 1)
            for _ in range(4):  # the lowest digit comes first
                four, digit = divmod(four, _NBASE)
                value = value * _NBASE + digit
            left -= 4
        while left > 0:
            value = value * _NBASE + generator.below(_NBASE - 1)
            left -= 1
        if len(digits) > len(first) and step != 1:
            value = value * _NBASE + generator.below(_NBASE // step - 1) * step
        if value <= whole:
            return EXACT.multiply(Decimal(value), unit)
