"""What all describe commands share: name patterns as psql's patternToSQLRegex reads them, the relations that match, and
printing of rows.

Outside double quotes letters are folded, `*` and `?` stand for any characters and one character, and the rest is a
regular expression; a dot separates schema and name. A pattern without special characters is found by an index.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import schema_or_none
from pgrepl.catalog.facts.relation import Relation, relation, relation_is_visible, relations_named
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.shell.formats.table import TableContent, result_table
from pgrepl.types import oids
from pgrepl.types.input_checks import is_valid_utf8

if TYPE_CHECKING:
    from pgrepl.catalog.facts.publication import MemberTable
    from pgrepl.shell.shell import Shell

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

    def check(self) -> None:
        if self.literal is None and not set("|+()[]{}\\").isdisjoint(self.regex[2:-2]):
            self.matches("")


@dataclass(frozen=True)
class NamePattern:
    text: str
    name: PatternPart
    schema: PatternPart | None = None


class BadPattern(Exception):
    """A pattern that is not valid, with psql's message."""


def parse_pattern(
    text: str | None, *, qualified: bool = False, dots: int | None = 0, database: str
) -> NamePattern | None:
    """The pattern; None: there is no text. `qualified`: the objects have schemas. In a name that psql
    does not split it allows fewer than `dots` dots; with as many it takes the name for one in another database. None:
    it does not count them.
    """
    if text is None:
        return None
    if not is_valid_utf8(text):
        # libpq replaces bytes that are no character by these two, so that the server refuses the query
        raise PgError("22021", 'invalid byte sequence for encoding "UTF8": 0xc0 0x20')
    parts, count = _split(text, 3 if qualified else 1)
    most = 2 if qualified else dots
    if most is not None and count > most:
        raise BadPattern(f"improper qualified name (too many dotted names): {text}")
    if (len(parts) == 3 and parts[0].literal != database) or (dots and count == dots):
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
    parts = [
        PatternPart(f"^({''.join(piece)})$", None if literal is None else "".join(literal))
        for piece, literal in zip(pieces, literals, strict=True)
    ]
    return parts, dots


# --- matching ---------------------------------------------------------------------------------------------------------


def matching_relations(session: Session, pattern: NamePattern | None, kinds: Container[str]) -> list[Relation]:
    """The matching relations by schema and name. Without a schema in the pattern, or without a pattern, only visible
    ones."""
    candidates = [relation(session, oid) for oid, kind in _candidates(session, pattern) if kind in kinds or kind == "?"]
    chosen = []
    for one in candidates:
        if one.kind not in kinds:
            continue
        if pattern is not None:
            if not pattern.name.matches(one.name):
                continue
            if pattern.schema is not None and not pattern.schema.matches(one.schema):
                continue
        if (pattern is None or pattern.schema is None) and not relation_is_visible(session, one):
            continue
        chosen.append(one)
    return sorted(chosen, key=lambda r: (r.schema, r.name))


def _candidates(session: Session, pattern: NamePattern | None) -> list[tuple[int, str]]:
    """(OID, kind) of the relations that may match, by name if the pattern is an exact name."""
    namespace = None
    name = pattern.name.literal if pattern is not None else None
    schema = pattern.schema.literal if pattern is not None and pattern.schema is not None else None
    if schema is not None:
        namespace = schema_or_none(session, schema)
        if namespace is None:
            return []
    listed = relations_named(session, name, namespace.oid if namespace is not None else None)
    candidates = [(row.oid, row.relkind) for row in listed]
    if _may_be_system(pattern):
        candidates += [(r.oid, r.kind) for r in session.system_relations()]
    return candidates


def _may_be_system(pattern: NamePattern | None) -> bool:
    """Can the pattern match a system relation? If not, their long list is not read."""
    if pattern is None:
        return True
    if pattern.schema is not None:
        return pattern.schema.matches("pg_catalog") or pattern.schema.matches("information_schema")
    return pattern.name.literal is None or pattern.name.literal.startswith("pg_")


# --- listing ----------------------------------------------------------------------------------------------------------


def session_of(shell: Shell) -> Session:
    assert shell.connection is not None
    return shell.connection.session


def read_pattern(
    shell: Shell, text: str | None, *, qualified: bool = False, dots: int | None = 0
) -> NamePattern | None:
    """See parse_pattern. A bad regular expression is an error even if there is nothing to compare with it, as it is for
    PostgreSQL's planner."""
    pattern = parse_pattern(text, qualified=qualified, dots=dots, database=session_of(shell).database.name)
    if pattern is not None:
        for part in (pattern.name, pattern.schema):
            if part is not None:
                part.check()
    return pattern


_SHORT_TYPES = {"decimal": "numeric", "float": "double precision", "int": "integer"}
# what the grammar reads as a type, but format_type() does not print (map_typename_pattern)
_TYPE_NAMES = {
    **_SHORT_TYPES,
    **{f"{short}[]": f"{name}[]" for short, name in _SHORT_TYPES.items()},
    "bool[]": "boolean[]",
    "float4[]": "real[]",
    "float8[]": "double precision[]",
    "int2[]": "smallint[]",
    "int4[]": "integer[]",
    "int8[]": "bigint[]",
    "time[]": "time without time zone[]",
    "timetz[]": "time with time zone[]",
    "timestamp[]": "timestamp without time zone[]",
    "timestamptz[]": "timestamp with time zone[]",
    "varbit[]": "bit varying[]",
    "varchar[]": "character varying[]",
}


def read_type_pattern(shell: Shell, text: str | None) -> NamePattern | None:
    """As `read_pattern`, of a type's name."""
    known = text if text is None else _TYPE_NAMES.get(text.lower(), text)
    return read_pattern(shell, known, qualified=True)


def yes(value: object) -> str:
    return "t" if value else "f"


def print_listing(
    shell: Shell,
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    *,
    footers: Sequence[str] | None = None,
    right: Collection[int] = (),
) -> bool:
    r"""Print a result table with a title; the columns `right` are numbers; NULL is printed as \pset null says."""
    options = replace(shell.options, title=title)
    table = result_table(
        headers, [oids.INT8 if i in right else oids.TEXT for i in range(len(headers))], list(rows), options
    )
    if footers is not None:
        table = replace(table, footers=footers)
    return shell.print_table(replace(table, title=title), options)


def print_description(
    shell: Shell,
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    footers: Sequence[str] | None,
    *,
    expandable: bool = True,
) -> bool:
    """Print a table of texts with its footers; None: the number of rows."""
    options = replace(shell.options, title=None)
    if not expandable:
        options = replace(options, expanded="off")
    return shell.print_table(TableContent(headers, rows, "l" * len(headers), title=title, footers=footers), options)


def member_clauses(session: Session, member: MemberTable) -> str:
    """The column list and row filter of a table: ` (a, b) WHERE (a > 5)`."""
    text = ""
    if member.columns is not None:
        text += f" ({', '.join(member.columns)})"
    if member.filter is not None:
        from pgrepl.expr.print.deparse import stored_expression_text

        text += f" WHERE {stored_expression_text(session, member.filter, member.table.oid)}"
    return text


def query_text(file: str, name: str, marks: str = " ") -> str:
    """A query of a file beside this one: the lines with these marks."""
    return "\n".join(line[1:] for line in _paragraphs(file)[name].split("\n") if line[0] in marks)


def where_clause(conditions: Sequence[str], indent: str = "  ") -> str:
    return "\nWHERE " + f"\n{indent}AND ".join(conditions) if conditions else ""


@cache
def _paragraphs(file: str) -> dict[str, str]:
    """A file's paragraphs by the names before them."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return dict(part.split("\n", 1) for part in text.rstrip().split("\n\n"))
