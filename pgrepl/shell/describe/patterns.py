r"""Name patterns of backslash commands: `\d sal*.o?der*`, `\dt "Mixed"`, as psql's patternToSQLRegex reads them.

Outside double quotes letters are folded, `*` and `?` stand for any characters and one character, and the rest is a
regular expression; a dot separates schema and name. A pattern without special characters is an exact name, which the
catalog finds by an index.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.errors import PgError
from pgrepl.types.encoding import is_utf8

SPECIAL = set("|*+?()[]{}.^$\\")


@dataclass(frozen=True)
class PatternPart:
    """One name of a pattern; `literal` if it is an exact name."""

    regex: str
    literal: str | None

    def matches(self, name: str) -> bool:
        if self.literal is not None:
            return name == self.literal
        from pgrepl.types.regex.matching import compile_regex

        return compile_regex(self.regex, "").matches(name)


@dataclass(frozen=True)
class NamePattern:
    text: str
    name: PatternPart
    schema: PatternPart | None = None


class BadPattern(Exception):
    """A pattern that is not valid, with psql's message."""


def parse_pattern(text: str | None, *, qualified: bool = False, dots: int = 0, database: str) -> NamePattern | None:
    """The pattern; None: there is no text. `qualified`: the objects have schemas. In a name that psql
    does not split it allows fewer than `dots` dots; with as many it takes the name for one in another database.
    """
    if text is None:
        return None
    if not is_utf8(text):
        # libpq replaces bytes that are no character by these two, so that the server refuses the query
        raise PgError("22021", 'invalid byte sequence for encoding "UTF8": 0xc0 0x20')
    parts, found = _split(text, 3 if qualified else 1)
    if found > (2 if qualified else dots):
        raise BadPattern(f"improper qualified name (too many dotted names): {text}")
    if (len(parts) == 3 and parts[0].literal != database) or (dots and found == dots):
        raise BadPattern(f"cross-database references are not implemented: {text}")
    schema = parts[-2] if len(parts) > 1 else None
    return NamePattern(text, parts[-1], schema)


def _split(text: str, most: int) -> tuple[list[PatternPart], int]:
    pieces: list[list[str]] = [[]]
    literals: list[list[str] | None] = [[]]
    dots, quoted, i = 0, False, 0
    while i < len(text):
        char = text[i]
        piece, literal = pieces[-1], literals[-1]
        if char == '"':
            if quoted and text[i + 1 : i + 2] == '"':
                piece.append('"')
                if literal is not None:
                    literal.append('"')
                i += 1
            else:
                quoted = not quoted
        elif not quoted and char == "*":
            piece.append(".*")
            literals[-1] = None
        elif not quoted and char == "?":
            piece.append(".")
            literals[-1] = None
        elif not quoted and char == ".":
            dots += 1
            if len(pieces) < most:
                pieces.append([])
                literals.append([])
            else:
                piece.append(".")
                literals[-1] = None
        elif char == "$":
            piece.append("\\$")  # a character of names here, not an anchor
            if literal is not None:
                literal.append("$")
        else:
            shown = char if quoted else char.lower() if char.isascii() else char
            if quoted and char in SPECIAL:
                piece.append("\\" + char)
                if literal is not None:
                    literal.append(char)
            elif char == "[" and text[i + 1 : i + 2] == "]":
                piece.append("\\[")  # the brackets of an array type
                if literal is not None:
                    literal.append("[")
            else:
                piece.append(shown)
                if char in SPECIAL:
                    literals[-1] = None
                elif literal is not None:
                    literal.append(shown)
        i += 1
    made = [
        PatternPart(f"^({''.join(piece)})$", None if literal is None else "".join(literal))
        for piece, literal in zip(pieces, literals, strict=True)
    ]
    return made, dots
