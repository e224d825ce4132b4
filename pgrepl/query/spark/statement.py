"""A query as a DataFrame, or as SQL text."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from pgrepl.errors import Declined, PgError
from pgrepl.query.spark.job import Job, PlayApart
from pgrepl.query.spark.select import compile_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Context
    from pgrepl.expr.tree import Query


def compile_frame(session: Session, query: Query, context: Context, apart: PlayApart) -> DataFrame:
    """The query, its views expanded, as a frame with columns c1 … cn in their lake forms; or Declined."""
    return _frame(*sql_of(session, query, context, apart))


def sql_of(session: Session, query: Query, context: Context, apart: PlayApart | None = None) -> tuple[Job, str]:
    """The query as SQL; or Declined. Without `apart` no subquery is executed for its text."""
    job = Job(session, context, apart)
    try:
        return job, compile_query(query, job).text
    except PgError as problem:
        if problem.sqlstate != "0A000":
            raise
        raise Declined(problem.message) from problem


# SQLSTATE classes of errors that are not the query's: no memory or disk, interrupted, Spark has ended
_NOT_OF_THE_QUERY = ("53", "57", "58")


def _frame(job: Job, text: str) -> DataFrame:
    """The statement as a frame. Its physical plan is made at once, because Spark refuses a query only then."""
    from pgrepl.lake.spark import pg_errors, planned_query

    try:
        with pg_errors():
            frame = job.run(text)
            _explained(frame)
        planned_query()
        return frame
    except PgError as problem:
        if problem.sqlstate.startswith(_NOT_OF_THE_QUERY):
            raise
        raise Declined(problem.message) from problem


def physical_plan(job: Job, text: str) -> str:
    """Spark's physical plan of the statement."""
    return _explained(_frame(job, text), "formatted")


def _explained(frame: DataFrame, mode: str = "simple") -> str:
    said = StringIO()
    with redirect_stdout(said):
        frame.explain(mode)
    return said.getvalue().strip("\n")
