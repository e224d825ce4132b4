"""What a Spark statement needs besides its text, and the way from a query to a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import spark as expressions
from pgrepl.expr.spark import Sql
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Context
    from pgrepl.expr.tree import Query


class Unplayable(Exception):
    """Spark cannot do this as PostgreSQL does; says why."""


@frozen
class Text:
    """A query in SQL, and the Spark types of its columns c1 … cn."""

    text: str
    types: tuple[str, ...]

    def columns(self, alias: str) -> dict[int, Sql]:
        return {number: Sql(f"{alias}.c{number}", kind) for number, kind in enumerate(self.types, 1)}


class Job:
    """One statement on its way to Spark."""

    def __init__(self, session: Session, context: Context, *, dry: bool = False) -> None:
        self.session = session
        self.context = context
        self.dry = dry  # the text is wanted, nothing is to be carried out for it
        self.statement = expressions.Statement(context)
        self.frames: dict[str, Callable[[], DataFrame]] = {}  # by the name that stands in braces in the text
        self.listed: list[str] = []  # the WITH queries so far
        self._names = 0

    def name(self, letter: str) -> str:
        """A name that nothing else in the statement has."""
        self._names += 1
        return f"{letter}{self._names}"

    def frame(self, make: Callable[[], DataFrame]) -> str:
        """A frame as it is named in FROM."""
        name = self.name("f")
        self.frames[name] = make
        return f"{{{name}}}"

    def replace_frame(self, named: str, make: Callable[[], DataFrame]) -> None:
        self.frames[named[1:-1]] = make

    def with_list(self) -> str:
        """For a statement apart that uses WITH queries of this one."""
        return f"WITH {', '.join(self.listed)} " if self.listed else ""

    def run(self, text: str) -> DataFrame:
        from pgrepl.lake import spark

        session = spark.session()
        used = {name: make() for name, make in self.frames.items() if f"{{{name}}}" in text}
        return self.statement.run(session, text, used)


def compile_frame(session: Session, query: Query, context: Context) -> DataFrame | None:
    """The query, its views expanded, as a frame with columns c1 … cn in their lake forms. None: it is to be played
    here."""
    try:
        job, text = sql_of(session, query, context)
        return _frame(job, text)
    except Unplayable as reason:
        session.notice("DEBUG1", f"the query is not carried out by Spark: {reason}")
    return None


def sql_of(session: Session, query: Query, context: Context, *, dry: bool = False) -> tuple[Job, str]:
    """The query as SQL; Unplayable if Spark cannot do it. `dry`: no part of it is carried out for that."""
    from pgrepl.query.spark.select import compile_query

    job = Job(session, context, dry=dry)
    try:
        return job, compile_query(query, job, None, final=True).text
    except PgError as problem:
        if problem.sqlstate != "0A000":
            raise
        raise Unplayable(problem.message) from problem


# of errors while Spark plans: it was interrupted, it is out of something, its process is gone
_NOT_OF_THE_QUERY = ("53", "57", "58")


def _frame(job: Job, text: str) -> DataFrame:
    """The statement as a frame that Spark has a physical plan for: it finds out late what it cannot do."""
    from pgrepl.lake.spark import pg_errors

    try:
        with pg_errors():
            frame = job.run(text)
            _explained(frame)
        return frame
    except PgError as problem:
        if problem.sqlstate.startswith(_NOT_OF_THE_QUERY):
            raise
        raise Unplayable(problem.message) from problem


def physical_plan(job: Job, text: str) -> str:
    """What Spark makes of it."""
    return _explained(_frame(job, text), "formatted")


def _explained(frame: DataFrame, mode: str = "simple") -> str:
    said = StringIO()
    with redirect_stdout(said):
        frame.explain(mode)
    return said.getvalue().strip("\n")
