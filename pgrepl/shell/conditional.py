r"""The stack of `\if` blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from pgrepl.shell.lexer import LexerState


class Branch(Enum):
    """The state of an `\\if` block (psql's ifState)."""

    TRUE = auto()  # in the branch that runs
    FALSE = auto()  # no branch has run yet
    IGNORED = auto()  # one has run, or the block stands in a branch that does not
    ELSE_TRUE = auto()
    ELSE_FALSE = auto()


@dataclass(slots=True)
class _Block:
    branch: Branch
    query_length: int | None = None
    lexer: LexerState | None = None


@dataclass(slots=True)
class Conditionals:
    blocks: list[_Block] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.blocks)

    @property
    def branch(self) -> Branch | None:
        return self.blocks[-1].branch if self.blocks else None

    @property
    def active(self) -> bool:
        return not self.blocks or self.blocks[-1].branch in (Branch.TRUE, Branch.ELSE_TRUE)

    def push(self, branch: Branch) -> None:
        self.blocks.append(_Block(branch))

    def pop(self) -> None:
        self.blocks.pop()

    def turn(self, branch: Branch) -> None:
        self.blocks[-1].branch = branch

    def remember(self, query_length: int | None, lexer: LexerState) -> None:
        """Remember the query buffer before a branch, to return to it if the branch is not taken."""
        self.blocks[-1].query_length = query_length
        self.blocks[-1].lexer = lexer

    def remembered(self) -> tuple[int | None, LexerState | None]:
        return self.blocks[-1].query_length, self.blocks[-1].lexer
