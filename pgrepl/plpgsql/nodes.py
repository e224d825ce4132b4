"""The statements of a body. `line` counts from 1 in the body; `kind` is the statement's name in CONTEXT lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pgrepl.plpgsql.datums import Datum, SqlText, Var

if TYPE_CHECKING:
    from pgrepl.plpgsql.datums import Rec, Row


@dataclass(eq=False, slots=True)
class Statement:
    kind: ClassVar[str] = ""
    line: int


Statements = list[Statement]


@dataclass(eq=False, slots=True)
class Handler:
    line: int
    conditions: list[tuple[str, frozenset[str]]]  # name, SQLSTATEs; OTHERS has none
    body: Statements


@dataclass(eq=False, slots=True)
class Handlers:
    sqlstate: int
    sqlerrm: int
    list: list[Handler]


@dataclass(eq=False, slots=True)
class Block(Statement):
    kind = "statement block"
    label: str | None
    variables: list[Datum]
    body: Statements
    handlers: Handlers | None


@dataclass(eq=False, slots=True)
class Assign(Statement):
    kind = "assignment"
    target: int
    value: SqlText


@dataclass(eq=False, slots=True)
class If(Statement):
    kind = "IF"
    branches: list[tuple[SqlText, Statements]]
    other: Statements | None


@dataclass(eq=False, slots=True)
class Case(Statement):
    kind = "CASE"
    operand: SqlText | None
    variable: int  # that has the operand's value
    branches: list[tuple[SqlText, Statements]]
    other: Statements | None


@dataclass(eq=False, slots=True)
class Loop(Statement):
    kind = "LOOP"
    label: str | None
    body: Statements


@dataclass(eq=False, slots=True)
class While(Statement):
    kind = "WHILE"
    label: str | None
    condition: SqlText
    body: Statements


@dataclass(eq=False, slots=True)
class ForInteger(Statement):
    kind = "FOR with integer loop variable"
    label: str | None
    variable: Var
    lower: SqlText
    upper: SqlText
    step: SqlText | None
    reverse: bool
    body: Statements


@dataclass(eq=False, slots=True)
class ForQuery(Statement):
    kind = "FOR over SELECT rows"
    label: str | None
    target: Rec | Row
    query: SqlText
    body: Statements


@dataclass(eq=False, slots=True)
class ForCursor(Statement):
    kind = "FOR over cursor"
    label: str | None
    target: Rec | Row
    cursor: Var
    arguments: SqlText | None
    body: Statements


@dataclass(eq=False, slots=True)
class ForExecute(Statement):
    kind = "FOR over EXECUTE statement"
    label: str | None
    target: Rec | Row
    query: SqlText
    parameters: list[SqlText]
    body: Statements


@dataclass(eq=False, slots=True)
class Foreach(Statement):
    kind = "FOREACH over array"
    label: str | None
    target: int
    slice: int
    array: SqlText
    body: Statements


@dataclass(eq=False, slots=True)
class Exit(Statement):
    kind = "EXIT"
    label: str | None
    condition: SqlText | None


@dataclass(eq=False, slots=True)
class Continue(Statement):
    kind = "CONTINUE"
    label: str | None
    condition: SqlText | None


@dataclass(eq=False, slots=True)
class Return(Statement):
    kind = "RETURN"
    value: SqlText | None
    variable: int = -1


@dataclass(eq=False, slots=True)
class ReturnNext(Statement):
    kind = "RETURN NEXT"
    value: SqlText | None
    variable: int = -1


@dataclass(eq=False, slots=True)
class ReturnQuery(Statement):
    kind = "RETURN QUERY"
    query: SqlText
    is_dynamic: bool
    parameters: list[SqlText]


@dataclass(eq=False, slots=True)
class Raise(Statement):
    kind = "RAISE"
    severity: str
    condition: str | None = None  # its name, or SQLSTATE
    message: str | None = None
    parameters: list[SqlText] = field(default_factory=list)
    options: list[tuple[str, SqlText]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Assert(Statement):
    kind = "ASSERT"
    condition: SqlText
    message: SqlText | None


@dataclass(eq=False, slots=True)
class Sql(Statement):
    kind = "SQL statement"
    query: SqlText
    target: Rec | Row | None
    strict: bool


@dataclass(eq=False, slots=True)
class Execute(Statement):
    kind = "EXECUTE"
    query: SqlText
    target: Rec | Row | None
    strict: bool
    parameters: list[SqlText]


@dataclass(eq=False, slots=True)
class Perform(Statement):
    kind = "PERFORM"
    query: SqlText


@dataclass(eq=False, slots=True)
class Call(Statement):
    kind = "CALL"
    query: SqlText


@dataclass(eq=False, slots=True)
class Do(Statement):
    kind = "DO"
    query: SqlText


@dataclass(eq=False, slots=True)
class GetDiagnostics(Statement):
    kind = "GET DIAGNOSTICS"
    items: list[tuple[int, str]]


@dataclass(eq=False, slots=True)
class GetStackedDiagnostics(Statement):
    kind = "GET STACKED DIAGNOSTICS"
    items: list[tuple[int, str]]


@dataclass(eq=False, slots=True)
class Open(Statement):
    kind = "OPEN"
    cursor: Var
    arguments: SqlText | None = None
    query: SqlText | None = None
    is_dynamic: bool = False
    parameters: list[SqlText] = field(default_factory=list)
    scroll: bool | None = None


@dataclass(eq=False, slots=True)
class Direction:
    """The direction of a FETCH or MOVE: `word` is forward, backward, absolute or relative."""

    word: str = "forward"
    count: int | None = 1  # None: all
    expression: SqlText | None = None
    several: bool = False  # it can give more than one row


@dataclass(eq=False, slots=True)
class Fetch(Statement):
    kind = "FETCH"
    cursor: Var
    direction: Direction
    target: Rec | Row


@dataclass(eq=False, slots=True)
class Move(Statement):
    kind = "MOVE"
    cursor: Var
    direction: Direction


@dataclass(eq=False, slots=True)
class Close(Statement):
    kind = "CLOSE"
    cursor: Var


@dataclass(eq=False, slots=True)
class Commit(Statement):
    kind = "COMMIT"
    chain: bool


@dataclass(eq=False, slots=True)
class Rollback(Statement):
    kind = "ROLLBACK"
    chain: bool
