"""WITH RECURSIVE, round by round."""

from __future__ import annotations

from pgrepl.commands.query.spark.job import Unplayable
from pgrepl.commands.query.spark.level import Level
from pgrepl.commands.query.spark.sources import WithQuery
from pgrepl.expr.tree import Cte


def recursive_query(level: Level, cte: Cte) -> WithQuery:
    raise Unplayable("a recursive query")
