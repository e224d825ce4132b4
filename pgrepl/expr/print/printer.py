"""The output buffer of deparsing: the text so far, the indentation, and the names of relations and columns
(deparse_context)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.expr.analyse import lookup
from pgrepl.expr.tree import Cte, Query, Rte, Target, Window
from pgrepl.ground.frozen import frozen
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

STEP = 8  # PRETTYINDENT_STD
JOIN = 4  # PRETTYINDENT_JOIN
VAR = 4  # PRETTYINDENT_VAR
LIMIT = 40  # PRETTYINDENT_LIMIT


@frozen
class Style:
    """Flags of pretty printing. paren: omit needless parentheses. indent: break lines. wrap: where target lists are
    broken; 0 is after every item, -1 never (by width)."""

    paren: bool = False
    indent: bool = False
    wrap: int = -1


INDENTED = Style(indent=True, wrap=0)
PRETTY = Style(paren=True, indent=True, wrap=0)


@dataclass(slots=True)
class Names:
    """The names of one query level's relations and their columns (deparse_namespace)."""

    rtable: Sequence[Rte]
    relations: list[str | None]
    columns: list[list[str | None]]
    ctes: Sequence[Cte] = ()
    joins: dict[int, JoinNames] = field(default_factory=dict)
    aliases: dict[int, tuple[list[str], bool]] = field(default_factory=dict)  # column aliases, whether to print them


@dataclass(slots=True)
class JoinNames:
    """The names of the columns that a join merges by USING."""

    using: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Printer:
    session: Session
    style: Style
    names: list[Names]  # innermost first
    parts: list[str] = field(default_factory=list)
    indent: int = 0
    prefix: bool = False  # columns with their relation's name
    windows: Sequence[Window] = ()
    targets: Sequence[Target] = ()
    result_names: Sequence[str] | None = None  # a view's own column names
    in_group_by: bool = False
    in_order_by: bool = False
    routine: tuple[str, Sequence[str]] | None = None  # whose body is printed: its name and its parameters' names

    def put(self, text: str) -> None:
        self.parts.append(text)

    def text(self) -> str:
        return "".join(self.parts)

    def keyword(self, text: str, before: int, after: int, plus: int) -> None:
        """Print a key word that begins a line when lines are broken (appendContextKeyword)."""
        if not self.style.indent:
            self.put(text)
            return
        self.indent += before
        self.strip_spaces()
        amount = max(self.indent, 0) + plus
        if self.indent >= LIMIT:
            amount = (LIMIT + (self.indent - LIMIT) // (STEP // 2)) % LIMIT + plus
        self.put("\n" + " " * amount + text)
        self.indent = max(self.indent + after, 0)

    def strip_spaces(self) -> None:
        """Remove spaces at the end of the text (removeStringInfoSpaces)."""
        while self.parts:
            self.parts[-1] = self.parts[-1].rstrip(" ")
            if self.parts[-1]:
                return
            self.parts.pop()

    def apart(self) -> Printer:
        """A new buffer with the same names and style."""
        return Printer(
            self.session,
            self.style,
            self.names,
            indent=self.indent,
            prefix=self.prefix,
            windows=self.windows,
            targets=self.targets,
            result_names=self.result_names,
            in_group_by=self.in_group_by,
            in_order_by=self.in_order_by,
            routine=self.routine,
        )

    def inside(self, names: Names, query: Query, *, prefix: bool) -> Printer:
        """The same buffer for a query inside what is printed."""
        return Printer(
            self.session,
            self.style,
            [names, *self.names],
            self.parts,
            self.indent,
            prefix=prefix,
            windows=query.windows,
            targets=query.targets,
            routine=self.routine,
        )


def type_with_typmod(session: Session, typoid: int, typmod: int) -> str:
    """As format_type_with_typemod does: here -1 is a modifier, too, that of `bpchar`."""
    return format_type(typoid, typmod, lambda other: lookup.type_name(session, other))
