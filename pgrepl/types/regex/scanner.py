"""The scanner: the tokens of a pattern in each lexical context (regc_lex.c)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.types.regex.charsets import CLASSES

MAX_CHAR = 0x7FFFFFFE  # the largest code of an escape; codes that are no characters match nothing


def invalid(reason: str) -> PgError:
    return PgError("2201B", f"invalid regular expression: {reason}")


BAD_BOUND = "invalid repetition count(s)"
BAD_BRACES = "braces {} not balanced"
BAD_BRACKETS = "brackets [] not balanced"
BAD_ESCAPE = "invalid escape \\ sequence"
BAD_OPERAND = "quantifier operand invalid"
BAD_OPTION = "invalid embedded option"
BAD_PARENTHESES = "parentheses () not balanced"
BAD_RANGE = "invalid character range"
BAD_REFERENCE = "invalid backreference number"
TOO_COMPLEX = "regular expression is too complex"


class LexicalContext(Enum):
    ADVANCED = "an ARE or ERE"
    BASIC = "a BRE"
    LITERAL = "a literal text"
    BOUND = "{m,n}"
    BRACKET = "[...]"
    COLLATING = "[.x.]"
    EQUIVALENCE = "[=x=]"
    CLASS = "[:x:]"


_ENDS = {LexicalContext.COLLATING: ".", LexicalContext.EQUIVALENCE: "=", LexicalContext.CLASS: ":"}
_BEGINS = {".": LexicalContext.COLLATING, "=": LexicalContext.EQUIVALENCE, ":": LexicalContext.CLASS}


class Token(NamedTuple):
    """`kind` is the character itself if it has a special meaning, else one of: plain, end, digit, class, complement,
    reference, look, named (the beginning of [. [= [:), named end, range, \\A, \\Z, \\m, \\M, \\y, \\Y."""

    kind: str
    text: str = ""  # a character, the name of a class, the kind of lookaround
    greedy: bool = True  # of a quantifier
    number: int = 0  # of a back reference; 1 for ( that captures and for [ that is not negated


END = Token("end")
START = Token("start")
_ESCAPED = {"a": "\a", "b": "\b", "B": "\\", "e": "\033", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SHORTHANDS = {"d": "digit", "s": "space", "w": "word"}
_SPECIAL = {
    "A": Token("\\A"), "Z": Token("\\Z"), "m": Token("\\m"), "M": Token("\\M"), "y": Token("\\y"), "Y": Token("\\Y"),
}  # fmt: skip
_BORDERS = {"[[:<:]]": Token("\\m"), "[[:>:]]": Token("\\M")}


class Options:
    """The flags and embedded options of a pattern."""

    def __init__(self, flags: str) -> None:
        self.extended = self.advanced = True  # extended alone: an ERE; neither: a BRE
        self.ignore_case = self.expanded = self.literal = False
        self.newline_stops = False  # . and [^...] do not match a newline
        self.newline_anchors = False  # ^ and $ match at newlines
        for flag in flags:
            self.set(flag)
            if flag in "be":  # in parse_re_flags e clears REG_EXTENDED with REG_ADVANCED: a BRE
                self.extended = self.advanced = False
        if self.literal and (self.extended or self.expanded or self.newline_stops or self.newline_anchors):
            raise invalid("invalid argument to regex function")

    def set(self, flag: str) -> bool:
        """Set an option by its letter. Returns whether there is such an option."""
        if flag in "ic":
            self.ignore_case = flag == "i"
        elif flag in "xt":
            self.expanded = flag == "x"
        elif flag == "q":
            self.literal = True
            self.extended = self.advanced = False
        elif flag == "b":
            self.extended = self.advanced = self.literal = False
        elif flag == "e":
            self.extended, self.advanced, self.literal = True, False, False
        elif flag in "nmspw":
            self.newline_stops = flag in "nmp"
            self.newline_anchors = flag in "nmw"
        else:
            return False
        return True


class RegexScanner:
    """The scanner. `next()` makes `token` the next one; the parser sets the lexical context."""

    def __init__(self, pattern: str, options: Options) -> None:
        self.text = pattern
        self.at = 0
        self.options = options
        self.groups = 0  # that have begun so far; the parser counts them
        self._prefixes()
        if options.literal:
            self._context = LexicalContext.LITERAL
        else:
            self._context = LexicalContext.ADVANCED if options.extended else LexicalContext.BASIC
        self.token = START
        self._before = START
        self.next()

    def _prefixes(self) -> None:
        """Read `***:`, `***=` and `(?options)` at the start."""
        options = self.options
        if options.literal:
            return
        if self.text.startswith("***") and len(self.text) > 3:
            following = self.text[3]
            if following == "?":
                raise invalid("invalid regexp (reg version 0.8)")
            if following not in "=:":
                raise invalid(BAD_OPERAND)
            self.at = 4
            if following == "=":
                options.literal, options.extended, options.advanced = True, False, False
                options.expanded = options.newline_stops = options.newline_anchors = False
                return
            options.extended = options.advanced = True
        if options.advanced and self._starts("(?") and CLASSES["alpha"](self._peek(2) or "-"):
            self.at += 2
            while CLASSES["alpha"](self._peek() or "-"):
                if not options.set(self._peek()):
                    raise invalid(BAD_OPTION)
                self.at += 1
            if self._peek() != ")":
                raise invalid(BAD_OPTION)
            self.at += 1
            if options.literal:
                options.expanded = options.newline_stops = options.newline_anchors = False

    def _peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def _starts(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        if not self._starts(text):
            return False
        self.at += len(text)
        return True

    def see(self, kind: str) -> bool:
        return self.token.kind == kind

    def next(self) -> Token:
        self._before = self.token
        self.token = self._next()
        return self.token

    def _next(self) -> Token:
        context = self._context
        while True:
            if self.options.expanded and context in (
                LexicalContext.ADVANCED,
                LexicalContext.BASIC,
                LexicalContext.BOUND,
            ):
                self._skip()
            if not (context is LexicalContext.ADVANCED and self.options.advanced and self._take("(?#")):
                break
            end = self.text.find(")", self.at)
            self.at = len(self.text) if end < 0 else end + 1
        char = self._peek()
        if not char:
            if context is LexicalContext.BOUND:
                raise invalid(BAD_BRACES)
            if context in (
                LexicalContext.BRACKET,
                LexicalContext.COLLATING,
                LexicalContext.EQUIVALENCE,
                LexicalContext.CLASS,
            ):
                raise invalid(BAD_BRACKETS)
            return END
        self.at += 1
        if context is LexicalContext.ADVANCED:
            return self._advanced(char)
        if context is LexicalContext.BASIC:
            return self._basic(char)
        if context is LexicalContext.LITERAL:
            return Token("plain", char)
        if context is LexicalContext.BOUND:
            return self._bound(char)
        if context is LexicalContext.BRACKET:
            return self._bracket(char)
        if char == _ENDS[context] and self._take("]"):
            self._context = LexicalContext.BRACKET
            return Token("named end")
        return Token("plain", char)

    def _skip(self) -> None:
        """Skip white space and comments of expanded syntax."""
        while True:
            while CLASSES["space"](self._peek() or "x"):
                self.at += 1
            if self._peek() != "#":
                return
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _bound(self, char: str) -> Token:
        if "0" <= char <= "9":
            return Token("digit", char)
        if char == ",":
            return Token(",")
        if char == "}" and self.options.extended:
            self._context = LexicalContext.ADVANCED
            return Token("}", greedy=not (self.options.advanced and self._take("?")))
        if char == "\\" and not self.options.extended and self._take("}"):
            self._context = LexicalContext.BASIC
            return Token("}")
        raise invalid(BAD_BOUND)

    def _bracket(self, char: str) -> Token:
        first = self._before_is("[")
        if char == "]" and not first:
            self._context = LexicalContext.ADVANCED if self.options.extended else LexicalContext.BASIC
            return Token("]")
        if char == "\\" and self.options.advanced:
            if not self._peek():
                raise invalid(BAD_ESCAPE)
            token = self._escape()
            if token.kind not in ("plain", "class", "complement"):
                raise invalid(BAD_ESCAPE)
            return token
        if char == "-" and not first and self._peek() != "]":
            return Token("range", char)
        if char == "[":
            if not self._peek():
                raise invalid(BAD_BRACKETS)
            context = _BEGINS.get(self._peek())
            if context is not None:
                self.at += 1
                self._context = context
                return Token("named", _ENDS[context])
        return Token("plain", char)

    def _before_is(self, kind: str) -> bool:
        return self._before.kind == kind

    def _advanced(self, char: str) -> Token:
        if char in "*+?":
            return Token(char, greedy=not (self.options.advanced and self._take("?")))
        if char == "{":
            if self.options.expanded:
                self._skip()
            if not "0" <= (self._peek() or "x") <= "9":
                return Token("plain", char)
            self._context = LexicalContext.BOUND
            return Token("{")
        if char == "(":
            return self._parenthesis()
        if char == "[":
            return self._opening_bracket()
        if char in ")|.^$":
            return Token(char, char)
        if char != "\\":
            return Token("plain", char)
        if not self._peek():
            raise invalid(BAD_ESCAPE)
        if not self.options.advanced:
            self.at += 1
            return Token("plain", self.text[self.at - 1])
        return self._escape()

    def _parenthesis(self) -> Token:
        if not (self.options.advanced and self._take("?")):
            return Token("(", number=1)
        if self._take(":"):
            return Token("(")
        for opening in ("=", "!", "<=", "<!"):
            if self._take(opening):
                return Token("look", opening)
        raise invalid(BAD_OPERAND)

    def _opening_bracket(self) -> Token:
        border = _BORDERS.get("[" + self.text[self.at : self.at + 6])
        if border is not None:
            self.at += 6
            return border
        self._context = LexicalContext.BRACKET
        return Token("[", number=0 if self._take("^") else 1)

    def _basic(self, char: str) -> Token:
        at_start = self._before_is("start") or self._before_is("(")
        if char == "*" and not at_start and not self._before_is("^"):
            return Token("*")
        if char == "[":
            return self._opening_bracket()
        if char == ".":
            return Token(".")
        if char == "^" and at_start:
            return Token("^")
        if char == "$":
            if self.options.expanded:
                self._skip()
            if not self._peek() or self._starts("\\)"):
                return Token("$")
        if char != "\\":
            return Token("plain", char)
        if not self._peek():
            raise invalid(BAD_ESCAPE)
        char = self._peek()
        self.at += 1
        if char == "{":
            self._context = LexicalContext.BOUND
            return Token("{")
        if char == "(":
            return Token("(", number=1)
        if char == ")":
            return Token(")", char)
        if char in "<>":
            return Token("\\m" if char == "<" else "\\M")
        if "1" <= char <= "9":
            return Token("reference", number=int(char))
        return Token("plain", char)

    def _escape(self) -> Token:
        """Read the escape after a backslash."""
        char = self._peek()
        self.at += 1
        if not (char.isascii() and char.isalnum()):
            return Token("plain", char)
        if char in _ESCAPED:
            return Token("plain", _ESCAPED[char])
        if char in _SPECIAL:
            return _SPECIAL[char]
        if char.lower() in _SHORTHANDS:
            return Token("class" if char.islower() else "complement", _SHORTHANDS[char.lower()])
        if char == "c":
            if not self._peek():
                raise invalid(BAD_ESCAPE)
            self.at += 1
            return Token("plain", chr(ord(self.text[self.at - 1]) & 0x1F))
        if char in "uUx":
            return self._character(self._digits(16, *{"u": (4, 4), "U": (8, 8), "x": (1, 255)}[char]))
        if char.isdigit():
            self.at -= 1
            return self._reference_or_octal()
        raise invalid(BAD_ESCAPE)

    def _reference_or_octal(self) -> Token:
        begin = self.at
        if self._peek() != "0":
            number = self._digits(10, 1, 255)
            if self.at == begin + 1 or 0 < number <= self.groups:
                return Token("reference", number=number)
            self.at = begin
        if not self._peek() < "8":
            raise invalid(BAD_ESCAPE)
        number = self._digits(8, 1, 3)
        if number > 0xFF:
            self.at -= 1
            number >>= 3
        return Token("plain", chr(number))

    def _digits(self, base: int, least: int, most: int) -> int:
        digits = "0123456789abcdef"[:base]
        begin = self.at
        while self.at - begin < most and self._peek() and self._peek().lower() in digits:
            self.at += 1
        if self.at - begin < least:
            raise invalid(BAD_ESCAPE)
        return int(self.text[begin : self.at], base) & 0xFFFFFFFF

    def _character(self, number: int) -> Token:
        if number > MAX_CHAR:
            raise invalid(BAD_ESCAPE)
        return Token("plain", chr(number) if number <= 0x10FFFF else "")
