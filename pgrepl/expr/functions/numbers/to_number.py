"""to_number: parsing a number by a template."""

from __future__ import annotations

from decimal import Decimal

from pgrepl.expr.functions.numbers.number_format import Picture, picture_of
from pgrepl.expr.functions.numbers.numeric import numeric_mul
from pgrepl.expr.functions.numbers.numeric_powers import numeric_power
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.functions.times.templates import Node, parse_template
from pgrepl.ground.errors import PgError
from pgrepl.types.names import numeric_typmod
from pgrepl.types.numeric import read_numeric

implements = Family()


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

    def skip(self, count: int) -> None:
        """Skip characters that cannot belong to a number."""
        for _ in range(count):
            if self.at >= len(self.text) or self.peek() in "0123456789.,+-":
                return
            self.at += 1


@implements("numeric_to_number")
def to_number(text: str, template: str) -> Decimal | None:
    if not template:
        return None
    nodes = parse_template(template, numbers=True)
    p = picture_of(nodes)
    if p.scientific:
        raise PgError("0A000", '"EEEE" not supported for input')
    if p.roman:
        raise PgError("0A000", '"RN" not supported for input')
    reader = _Reader(text, p)
    number = reader.run(nodes)
    precision = p.pre + p.multi + reader.fraction
    value = read_numeric(number, numeric_typmod(precision, reader.fraction) if precision else -1)
    if p.shifted:
        value = numeric_mul(value, numeric_power(Decimal(10), Decimal(-p.multi)))
    return value
