"""The rules of checks_table for the rows of a DataFrame, as conditions in one projection.

The projection raises for a row that breaks a rule, while the frame is written: nothing is computed twice, nothing is
collected. Only then `first_violation` looks for the first such row, and checks_table makes PostgreSQL's error of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.errors import Declined, PgError, marked
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Expr, RowExpr, Var
from pgrepl.expr.walk import rewrite, var_attnums
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.rows.checks_table import TableChecks, table_rules
from pgrepl.rows.routing_spark import column_names
from pgrepl.types import oids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.spark import Statement

Row = tuple[Any, ...]

VIOLATION = "23000"  # the SQLSTATE that only travels inside Spark
ORDER = "__n"


def check_arrays(table: LakeTable) -> None:
    """Declined if the table keeps arrays of several dimensions, which Spark does not have."""
    if table.has_dimensions:
        raise Declined("arrays of several dimensions")


class SparkChecks:
    """The rules of one table for one statement of Spark's. Frames have columns c{attnum}."""

    def __init__(
        self,
        session: Session,
        rel: Relation,
        named: Relation,
        modified: frozenset[int],
        changed: frozenset[int] | None = None,
    ) -> None:
        """As TableChecks."""
        from pgrepl.expr.spark import Statement, to_sql

        check_arrays(lake_table(session, rel.oid))
        self.relation = rel
        self.checks = TableChecks(session, rel, named, modified, changed)
        self._statement: Statement = Statement(Context(session))
        rules = table_rules(session, rel)

        def text(expr: Expr) -> str:
            return to_sql(_rows_spelled_out(expr, rel), column_names, self._statement)

        self._generated = [
            (number, text(expr)) for number, expr in rules.generated if changed is None or changed & var_attnums(expr)
        ]
        self._broken = [f"c{attribute.num} IS NULL" for attribute in rules.not_null]
        self._broken += [f"({text(expr)}) IS FALSE" for _, expr in rules.checks]
        self.watches_bound = changed is None or any(changed & var_attnums(expr) for expr in rules.bound)
        self._outside = [f"({text(expr)}) IS FALSE" for expr in rules.bound] if self.watches_bound else []

    def complete(self, frame: DataFrame) -> DataFrame:
        """The frame with its generated columns computed."""
        if not self._generated:
            return frame
        made = [f"{text} AS c{number}" for number, text in self._generated]
        rest = [f"`{name}`" for name in frame.columns if name not in {f"c{number}" for number, _ in self._generated}]
        return self._run(f"SELECT {', '.join([*rest, *made])} FROM {{f}}", frame)

    def checked(self, frame: DataFrame, *, bound: bool) -> DataFrame:
        """The same rows; the first computed row that breaks a rule raises."""
        broken = self.broken(bound=bound)
        if not broken:
            return frame
        first = f"c{self.relation.columns[0].num}"
        error = marked(PgError(VIOLATION, f'a row of relation "{self.relation.name}" violates a constraint'))
        guarded = f"CASE WHEN {broken} THEN raise_error({_quoted(error)}) ELSE {first} END AS {first}"
        columns = [guarded if name == first else f"`{name}`" for name in frame.columns]
        return self._run(f"SELECT {', '.join(columns)} FROM {{f}}", frame)

    def broken(self, *, bound: bool) -> str:
        """SQL that is true for a row that breaks a rule. Empty: no row can."""
        return " OR ".join([*self._broken, *(self._outside if bound else [])])

    def inside(self, frame: DataFrame, *, wanted: bool) -> DataFrame:
        """The rows that the partition's bound admits, or the others."""
        outside = " OR ".join(self._outside) or "false"
        condition = f"NOT ({outside})" if wanted else outside
        return self._run(f"SELECT * FROM {{f}} WHERE {condition}", frame)

    def first_violation(self, frame: DataFrame, *, bound: bool) -> tuple[int, PgError] | None:
        """The place of the first row of a complete, unchecked frame that breaks a rule, and PostgreSQL's error."""
        broken = self.broken(bound=bound)
        found = None if not broken else first_row(self._statement, frame, self.relation, broken)
        if found is None:
            return None
        number, row = found
        try:
            self.checks.constraints(row)
            if bound:
                self.checks.bound(row)
        except PgError as error:
            return number, error
        return None

    def first_outside(self, frame: DataFrame) -> tuple[int, PgError] | None:
        """The first row that the bound of this partition does not admit."""
        found = first_row(self._statement, frame, self.relation, " OR ".join(self._outside) or "false")
        return None if found is None else (found[0], self.checks.out_of_bound(self.checks.shown(found[1])))

    def _run(self, text: str, frame: DataFrame) -> DataFrame:
        from pgrepl.lake import spark

        return self._statement.run(spark.session(), text, {"f": frame})


def numbered(frame: DataFrame) -> DataFrame:
    """The frame with the order of its rows, as far as they have one: by Spark partition, then by position."""
    from pyspark.sql import functions as F

    return frame if ORDER in frame.columns else frame.withColumn(ORDER, F.monotonically_increasing_id())


def first_row(statement: Statement, frame: DataFrame, rel: Relation, condition: str) -> tuple[int, Row] | None:
    """The first row that satisfies `condition`, in the layout of the table, and its place in the order."""
    from pgrepl.lake import spark

    names = ", ".join(f"c{a.num}" for a in rel.columns)
    text = f"SELECT {ORDER}, {names} FROM {{f}} WHERE {condition} ORDER BY {ORDER} LIMIT 1"
    found = python_rows(
        statement.run(spark.session(), text, {"f": numbered(frame)}),
        [(oids.INT8, -1), *((a.type, a.typmod) for a in rel.columns)],
    )
    if not found:
        return None
    number, *values = found[0]
    row: list[Any] = [None] * len(rel.attributes)
    for attribute, value in zip(rel.columns, values, strict=True):
        row[attribute.num - 1] = value
    return number, tuple(row)


def python_rows(frame: DataFrame, types: Sequence[tuple[int, int]]) -> list[Row]:
    """The rows of a small frame whose columns have the lake forms of these types (OID, modifier)."""
    from pgrepl.lake.spark import pg_errors
    from pgrepl.types.lake_forms import form

    with pg_errors():
        table = frame.toArrow()
    columns = [
        form(typoid, typmod).from_array(table.column(n).combine_chunks()) for n, (typoid, typmod) in enumerate(types)
    ]
    return list(zip(*columns, strict=True))


def _rows_spelled_out(expr: Expr, rel: Relation) -> Expr:
    """The expression with each reference to the whole row as a row of its columns."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Var) and node.attnum == 0:
            columns = [Var(a.type, typmod=a.typmod, collation=a.collation, attnum=a.num) for a in rel.columns]
            return RowExpr(node.type, args=tuple(columns), names=tuple(a.name for a in rel.columns))
        return None

    return rewrite(expr, visit)


def _quoted(text: str) -> str:
    from pgrepl.expr.spark.sql import quoted

    return quoted(text)
