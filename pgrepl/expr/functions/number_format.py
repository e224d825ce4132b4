"""to_char and to_number of numbers, by one parsed template (`Picture`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from pgrepl.expr.functions.casts import numeric_int4
from pgrepl.expr.functions.numeric import numeric_mul, numeric_power, numeric_round
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.templates import Node, ordinal_suffix, parse_template
from pgrepl.ground.errors import PgError
from pgrepl.types.names import numeric_typmod
from pgrepl.types.numeric import EXACT, read_numeric, write_numeric

implements = Family()


@dataclass(slots=True)
class Picture:
    """A parsed number template (NUMDesc)."""

    pre: int = 0  # digits before the point
    post: int = 0
    multi: int = 0  # digits behind V
    zero_start: int = 0
    zero_end: int = 0
    sign: str = ""  # S: before or behind the digits ("pre", "post")
    pre_at_sign: int = 0
    decimal: bool = False
    shifted: bool = False  # V
    zero: bool = False
    blank: bool = False
    fill: bool = False
    plus: bool = False
    minus: bool = False
    bracket: bool = False
    roman: bool = False
    scientific: bool = False


def _wrong(message: str, detail: str | None = None) -> PgError:
    return PgError("42601", message, detail=detail)


def picture_of(nodes: tuple[Node, ...], call: Call) -> Picture:
    """The NUMDesc of a template, as NUMDesc_prepare builds it. 18 lets RN stand with few others."""
    of_18 = call.context.release >= 18
    p = Picture()
    for node in nodes:
        if node.kind == "pattern":
            word = node.word.upper()
            if p.scientific and word != "EEEE":
                raise _wrong('"EEEE" must be the last pattern used')
            if of_18 and p.roman and word == "RN":
                raise _wrong('cannot use "RN" twice')
            _add(p, word)
            if of_18 and p.roman and _has_more_than_roman(p):
                raise _wrong('"RN" is incompatible with other formats', '"RN" may only be used together with "FM".')
    return p


def _has_more_than_roman(p: Picture) -> bool:
    return bool(p.zero or p.blank or p.decimal or p.sign or p.minus or p.plus or p.bracket or p.shifted or p.scientific)


def _add(p: Picture, word: str) -> None:
    if word in ("9", "0"):
        _add_digit(p, word)
    elif word == "B":
        p.blank = p.blank or not (p.pre or p.post or p.zero)
    elif word in ("D", "."):
        if p.decimal:
            raise _wrong("multiple decimal points")
        if p.shifted:
            raise _wrong('cannot use "V" and decimal point together')
        p.decimal = True
    elif word == "FM":
        p.fill = True
    elif word in ("S", "MI", "PL", "SG", "PR"):
        _add_sign(p, word)
    elif word == "RN":
        p.roman = True
    elif word == "V":
        if p.decimal:
            raise _wrong('cannot use "V" and decimal point together')
        p.shifted = True
    elif word == "EEEE":
        if p.scientific:
            raise _wrong('cannot use "EEEE" twice')
        if p.blank or p.fill or p.sign or p.bracket or p.minus or p.plus or p.roman or p.shifted:
            raise _wrong(
                '"EEEE" is incompatible with other formats',
                '"EEEE" may only be used together with digit and decimal point patterns.',
            )
        p.scientific = True


def _add_digit(p: Picture, word: str) -> None:
    if p.bracket:
        raise _wrong(f'"{word}" must be ahead of "PR"')
    if word == "9" and p.shifted:
        p.multi += 1
        return
    if word == "0" and not p.zero and not p.decimal:
        p.zero = True
        p.zero_start = p.pre + 1
    if p.decimal:
        p.post += 1
    else:
        p.pre += 1
    if word == "0":
        p.zero_end = p.pre + p.post


def _add_sign(p: Picture, word: str) -> None:
    if word == "S":
        if p.sign:
            raise _wrong('cannot use "S" twice')
        if p.plus or p.minus or p.bracket:
            raise _wrong('cannot use "S" and "PL"/"MI"/"SG"/"PR" together')
        p.sign = "post" if p.decimal else "pre"
        p.pre_at_sign = p.pre
    elif word == "PR":
        if p.sign or p.plus or p.minus:
            raise _wrong('cannot use "PR" and "S"/"PL"/"MI"/"SG" together')
        p.bracket = True
    else:
        if p.sign:
            raise _wrong(f'cannot use "S" and "{word}" together')
        p.minus = p.minus or word in ("MI", "SG")
        p.plus = p.plus or word in ("PL", "SG")


# -------------------------------------------------------------------------------------------------------------- output


class _Writer:
    """The writer of to_char (NUM_processor): each pattern takes digits of the number in turn."""

    def __init__(self, p: Picture, number: str, spaces: int, sign: str) -> None:
        self.p = p
        self.number = number
        self.spaces = spaces  # places before the first digit
        self.sign = sign
        self.at = 0  # index in the number
        self.current = 0  # index of the digit pattern, from 0
        self.digit_written = False
        self.out: list[str] = []
        if p.zero_start:
            p.zero_start -= 1
        if p.plus or p.minus:
            self.sign_written = not (p.plus and not p.minus)
        else:
            if sign != "-" and p.fill:
                p.bracket = False
            self.sign_written = sign == "+" and p.fill and not p.sign
            if p.sign == "pre" and p.pre == p.pre_at_sign:
                p.sign = "post"
        self.count = p.post + p.pre - 1
        self.last = self._last_relevant() if p.fill and p.decimal else -1
        if not self.sign_written and spaces == 0:
            self.count += 1

    def _last_relevant(self) -> int:
        """The index of the last digit that FM keeps; the decimal point itself when only zeros follow; -1 without a
        decimal point."""
        point = self.number.find(".")
        if point < 0:
            return -1
        last = point + len(self.number[point + 1 :].rstrip("0"))
        if self.p.zero_end > self.spaces:
            last = max(last, min(len(self.number) - 1, self.p.zero_end - self.spaces))
        return last

    def char(self) -> str:
        return self.number[self.at : self.at + 1]

    def before_point(self) -> bool:
        """Whether the next digit is the lone 0 of 0.1, which is not printed (IS_PREDEC_SPACE)."""
        return not self.p.zero and self.at == 0 and self.number[:1] == "0" and self.p.post != 0

    def at_point(self) -> bool:
        return self.last >= 0 and self.number[self.last : self.last + 1] == "."

    def run(self, nodes: tuple[Node, ...]) -> str:
        for node in nodes:
            if node.kind != "pattern":
                self.out.append(node.text)
            elif node.word in ("9", "0", ".", "D"):
                self.digit(node.word)
            else:
                self.other(node)
        return "".join(self.out)

    def write_sign(self) -> None:
        p = self.p
        here = self.current >= self.spaces or (p.zero and p.zero_start == self.current)
        if self.sign_written or not here or (self.before_point() and not self.at_point()):
            return
        if p.sign:
            if p.sign == "pre":
                self.out.append(self.sign)
                self.sign_written = True
            return
        if p.bracket:
            self.out.append(" " if self.sign == "+" else "<")
        elif self.sign == "-":
            self.out.append("-")
        elif not p.fill:
            self.out.append(" ")
        self.sign_written = True

    def digit(self, word: str) -> None:
        p = self.p
        self.write_sign()
        self.digit_written = False
        if self.current < self.spaces and (p.zero_start > self.current or not p.zero):
            if not p.fill:
                self.out.append(" ")
        elif self.current < self.spaces:
            self.out.append("0")
            self.digit_written = True
        else:
            self.take(word)
        end = self.count + (1 if self.spaces else 0) + (1 if p.decimal else 0)
        if self.last >= 0 and self.last == self.at:
            end = self.current
        if self.current + 1 == end:
            if self.sign_written and p.bracket:
                self.out.append(" " if self.sign == "+" else ">")
            elif p.sign == "post":
                self.out.append(self.sign)
        self.current += 1

    def take(self, word: str) -> None:
        """The next character of the number."""
        if self.char() == ".":
            if not self.at_point() or self.p.fill:
                self.out.append(".")
        elif self.last >= 0 and self.at > self.last and word != "0":
            pass
        elif self.before_point():
            if not self.p.fill:
                self.out.append(" ")
            elif self.at_point():
                self.out.append("0")
        else:
            self.out.append(self.char())
            self.digit_written = True
        if self.char():
            self.at += 1

    def other(self, node: Node) -> None:
        word, fill = node.word.upper(), self.p.fill
        if word in (",", "G"):
            if self.digit_written:
                self.out.append(",")
            elif not fill:
                self.out.append(" ")
        elif word == "L":
            self.out.append(" ")
        elif word == "TH":
            if self.number[:1] != "#" and self.sign != "-" and not self.p.decimal:
                self.out.append(ordinal_suffix(self.number, node.word))
        elif word == "MI":
            self.out.append("-" if self.sign == "-" else "" if fill else " ")
        elif word == "PL":
            self.out.append("+" if self.sign == "+" else "" if fill else " ")
        elif word == "SG":
            self.out.append(self.sign)


_ROMAN = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")]
_ROMAN += [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def _roman(number: int, nodes: tuple[Node, ...], p: Picture) -> str:
    text = "#" * 15
    if 1 <= number <= 3999:
        text = ""
        for value, letters in _ROMAN:
            text += letters * (number // value)
            number %= value
    out = []
    for node in nodes:
        if node.kind != "pattern":
            out.append(node.text)
        elif node.word in ("RN", "rn"):
            shown = text.lower() if node.word == "rn" else text
            out.append(shown if p.fill else shown.rjust(15))
        elif node.word.upper() == "SG":
            break  # Roman numbers have no sign: PostgreSQL writes a zero byte, which ends the text
        elif node.word.upper() == "L" or (not p.fill and node.word.upper() in (",", "G", "MI", "PL")):
            out.append(" ")
    return "".join(out)


def _written(p: Picture, nodes: tuple[Node, ...], text: str) -> str:
    """A plain decimal number formatted by the template; `#` where it does not fit."""
    sign, number = ("-", text[1:]) if text.startswith("-") else ("+", text)
    whole = len(number.partition(".")[0])
    spaces = max(p.pre - whole, 0)
    if whole > p.pre:
        number = "#" * p.pre + "." + "#" * p.post
    return _Writer(p, number, spaces, sign).run(nodes)


def _scientific_unknown(p: Picture) -> str:
    return " " + "#" * p.pre + "." + "#" * (p.post + 4)


implements("int4_to_char", context=True)(
    lambda call, value, template: _integer_to_char(call, value, template, _scientific_float)
)


@implements("int8_to_char", context=True)
def int8_to_char(call: Call, value: int, template: str) -> str:
    return _integer_to_char(call, value, template, lambda value, p: _scientific(Decimal(value), p))


def _integer_to_char(call: Call, value: int, template: str, scientific: Callable[[int, Picture], str]) -> str:
    nodes = parse_template(template, numbers=True)
    p = picture_of(nodes, call)
    if p.roman:
        return _roman(value, nodes, p)
    if p.scientific:
        return scientific(value, p)
    if p.shifted:
        value *= 10**p.multi
        p.pre += p.multi
    text = str(value)
    return _written(p, nodes, text + "." + "0" * p.post if p.post else text)


def _scientific(value: Decimal, p: Picture) -> str:
    """A number in EEEE format. The exponent is taken before rounding: 9.9 is 10e+00."""
    exponent = value.adjusted() if value else 0
    mantissa = write_numeric(numeric_round(value.copy_abs().scaleb(-exponent, EXACT), p.post))
    return f"{'-' if value < 0 else ' '}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _scientific_float(value: float, p: Picture) -> str:
    return f"{value: .{p.post}e}"


@implements("numeric_to_char", context=True)
def numeric_to_char(call: Call, value: Decimal, template: str) -> str:
    nodes = parse_template(template, numbers=True)
    p = picture_of(nodes, call)
    if p.roman:
        return _roman(numeric_int4(numeric_round(value, 0)), nodes, p)
    if p.scientific:
        return _scientific(value, p) if value.is_finite() else _scientific_unknown(p)
    if p.shifted:
        value = numeric_mul(value, numeric_power(Decimal(10), Decimal(p.multi)))
        p.pre += p.multi
    return _written(p, nodes, write_numeric(numeric_round(value, p.post)))


def _float_to_char(call: Call, value: float, template: str, digits: int) -> str:
    nodes = parse_template(template, numbers=True)
    p = picture_of(nodes, call)
    if p.roman:
        return _roman(round(value) if math.isfinite(value) else 0, nodes, p)
    if p.scientific:
        if not math.isfinite(value):
            return _scientific_unknown(p)
        return _scientific_float(value, p)
    if p.shifted:
        value *= 10.0**p.multi
        p.pre += p.multi
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return _written(p, nodes, text)
    whole = len(f"{abs(value):.0f}")
    if whole >= digits:
        p.post = 0
    elif whole + p.post > digits:
        p.post = digits - whole
    return _written(p, nodes, f"{value:.{p.post}f}")


implements("float8_to_char", context=True)(lambda call, value, template: _float_to_char(call, value, template, 15))
implements("float4_to_char", context=True)(lambda call, value, template: _float_to_char(call, value, template, 6))


class _Reader:
    """The reader of to_number (NUM_processor)."""

    def __init__(self, text: str, p: Picture) -> None:
        self.text = text
        self.p = p
        self.at = 0
        self.sign = " "
        self.digits: list[str] = []
        self.whole = 0
        self.fraction = 0
        self.point = False

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def run(self, nodes: tuple[Node, ...]) -> str:
        for node in nodes:
            if self.at >= len(self.text):
                break
            if node.kind != "pattern":
                self.at += 1
            elif node.word in ("9", "0", ".", "D"):
                self.digit(node.word)
                self.at += 1
            else:
                self.other(node.word.upper())
        number = "".join(self.digits)
        return self.sign + number.removesuffix(".")

    def digit(self, word: str) -> None:
        if self.peek() == " ":
            self.at += 1
        if not self.peek():
            return
        if self.sign == " " and word in ("0", "9") and self.whole + self.fraction == 0:
            self.leading_sign()
        if not self.peek():
            return
        read = False
        if self.peek() in "0123456789":
            if self.point and self.fraction == self.p.post:
                return
            self.digits.append(self.peek())
            if self.point:
                self.fraction += 1
            else:
                self.whole += 1
            read = True
        elif self.p.decimal and not self.point and self.peek() == ".":
            self.digits.append(".")
            self.point = read = True
        if self.sign == " " and self.whole + self.fraction > 0:
            self.trailing_sign(read)

    def leading_sign(self) -> None:
        if self.p.sign == "pre" or not self.p.sign:
            if self.peek() == "-" or (self.p.bracket and not self.p.sign and self.peek() == "<"):
                self.sign = "-"
                self.at += 1
            elif self.peek() == "+":
                self.sign = "+"
                self.at += 1

    def trailing_sign(self, read: bool) -> None:
        following = self.peek(1)
        if self.p.sign and read and following and not following.isdigit():
            if following in "+-":
                self.sign = following
                self.at += 1
        elif not read and not self.p.sign and (self.p.plus or self.p.minus) and self.peek() in ("+", "-"):
            self.sign = self.peek()

    def other(self, word: str) -> None:
        char = self.peek()
        started = self.whole + self.fraction > 0
        if word in (",", "G"):
            if (started or not self.p.fill) and char == ",":
                self.at += 1
        elif word in ("MI", "PL", "SG"):
            wanted = {"MI": "-", "PL": "+", "SG": "+-"}[word]
            if char in wanted:
                self.sign = char
                self.at += 1
            else:
                self.skip(1)
        elif word == "L":
            self.skip(1)
        elif word == "TH":
            if not self.p.decimal:
                self.skip(2)
        elif word == "RN":
            digits = str(self.roman())
            self.digits.append(digits)
            self.p.pre, self.p.post = len(digits), 0

    def roman(self) -> int:
        """The value of up to 15 Roman numerals (roman_to_int)."""
        while self.peek() in _SPACES and self.peek():
            self.at += 1
        numerals = ""
        while len(numerals) < 15 and self.peek() and self.peek().upper() in _NUMERALS and self.peek().isascii():
            numerals += self.peek().upper()
            self.at += 1
        value = _roman_value(numerals)
        if value is None:
            raise PgError("22P02", "invalid Roman numeral")
        return value

    def skip(self, count: int) -> None:
        """Skip characters that cannot belong to a number."""
        for _ in range(count):
            if self.at >= len(self.text) or self.peek() in "0123456789.,+-":
                return
            self.at += 1


_SPACES = " \t\n\v\f\r"
_NUMERALS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_SUBTRACTED = ("IV", "IX", "XL", "XC", "CD", "CM")


def _roman_value(numerals: str) -> int | None:
    """The value of Roman numerals; None: they are not in a valid order."""
    total = at = 0
    repeated, subtracted = 1, 0
    limit = 1 << 10  # V, L and D stand before no numeral that is not smaller
    while at < len(numerals):
        numeral, following = numerals[at], numerals[at + 1 : at + 2]
        value = _NUMERALS[numeral]
        if value >= limit or (subtracted and value >= subtracted):
            return None
        if numeral in "VLD":
            limit = min(limit, value)
        if following and value < _NUMERALS[following]:
            if numeral + following not in _SUBTRACTED or repeated > 1 or _NUMERALS[following] >= limit:
                return None
            if following in "VLD":
                limit = min(limit, _NUMERALS[following])
            total += _NUMERALS[following] - value
            subtracted, repeated = value, 1
            at += 2
            continue
        repeated = repeated + 1 if numeral == following else 1
        if repeated > 3:
            return None
        total += value
        at += 1
    return total if numerals else None


@implements("numeric_to_number", context=True)
def to_number(call: Call, text: str, template: str) -> Decimal | None:
    if not template:
        return None
    nodes = parse_template(template, numbers=True)
    p = picture_of(nodes, call)
    if p.scientific:
        raise PgError("0A000", '"EEEE" not supported for input')
    if p.roman and call.context.release < 18:
        raise PgError("0A000", '"RN" not supported for input')
    reader = _Reader(text, p)
    number = reader.run(nodes)
    precision = p.pre + p.multi + reader.fraction
    value = read_numeric(number, numeric_typmod(precision, reader.fraction) if precision else -1)
    if p.shifted:
        value = numeric_mul(value, numeric_power(Decimal(10), Decimal(-p.multi)))
    return value
