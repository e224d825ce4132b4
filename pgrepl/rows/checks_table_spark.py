"""What statements over DataFrames with columns c{attnum} have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.engine.spark import pg_errors
from pgrepl.expr.tree import Expr, Var
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.expr.exchange import Statement

Row = tuple[Any, ...]

ORDER = "__n"


def column_names(node: Expr) -> Any:
    """The names c{attnum} of a table's columns."""
    from pgrepl.expr.exchange import Sql
    from pgrepl.expr.exchange.sql import form_type

    if isinstance(node, Var) and node.attnum > 0:
        return Sql(f"c{node.attnum}", form_type(node.type, node.typmod))
    return None


def condition_text(expr: Expr, statement: Statement) -> str:
    from pgrepl.expr.exchange import to_sql

    return to_sql(expr, column_names, statement)


def python_rows(frame: DataFrame, types: Sequence[tuple[int, int]]) -> list[Row]:
    """The rows of a small frame whose columns have the lake forms of these types (OID, modifier)."""
    with pg_errors():
        table = frame.toArrow()
    columns = [
        form(typoid, typmod).from_array(table.column(n).combine_chunks()) for n, (typoid, typmod) in enumerate(types)
    ]
    return list(zip(*columns, strict=True))
