"""A Spark statement besides its text: frames, parameters, names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pgrepl.expr import spark as expressions
from pgrepl.expr.spark import Sql
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Context
    from pgrepl.expr.tree import Query

PlayApart = Callable[["Session", "Query"], Iterable[tuple[Any, ...]]]


@frozen
class Text:
    """A query in SQL, and the Spark types of its columns c1 … cn."""

    text: str
    types: tuple[str, ...]

    def columns(self, alias: str) -> dict[int, Sql]:
        return {number: Sql(f"{alias}.c{number}", kind) for number, kind in enumerate(self.types, 1)}


class Job:
    """One statement for Spark. `apart` executes a subquery whose rows are needed for the text, by the engine chosen for
    it; None: only the text is wanted, and nothing is executed for it."""

    def __init__(self, session: Session, context: Context, apart: PlayApart | None) -> None:
        self.session = session
        self.context = context
        self.apart = apart
        self.statement = expressions.Statement(context)
        self.frames: dict[str, Callable[[], DataFrame]] = {}  # by the name that stands in braces in the text
        self.listed: list[str] = []  # the WITH queries so far
        self._names = 0

    def name(self, letter: str) -> str:
        """A name that is unique in the statement."""
        self._names += 1
        return f"{letter}{self._names}"

    def frame(self, make: Callable[[], DataFrame]) -> str:
        """The name of a frame in FROM."""
        name = self.name("f")
        self.frames[name] = make
        return f"{{{name}}}"

    def replace_frame(self, named: str, make: Callable[[], DataFrame]) -> None:
        self.frames[named[1:-1]] = make

    def with_list(self) -> str:
        """The WITH list, for a separate statement that uses WITH queries of this one."""
        return f"WITH {', '.join(self.listed)} " if self.listed else ""

    def run(self, text: str) -> DataFrame:
        from pgrepl.lake import spark

        session = spark.session()
        used = {name: make() for name, make in self.frames.items() if f"{{{name}}}" in text}
        return self.statement.run(session, text, used)
