"""The rules of checks_table, and tuple routing, for the rows of a DataFrame, as conditions in one projection.

The projection raises for a row that breaks a rule, while the frame is written; only then `first_violation` looks for
the first such row, and checks_table makes PostgreSQL's error of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine import spark
from pgrepl.engine.spark import pg_errors
from pgrepl.expr.catalog_trees import KeyColumn, PartitionKey
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.partition_constraint import PartitionDesc, bound_constraint, partition_desc
from pgrepl.expr.partition_hash import hash_function, integer_hashes, row_hash
from pgrepl.expr.tree import Expr, RowExpr, Var
from pgrepl.expr.walk import map_attnums, rewrite, var_attnums
from pgrepl.ground.errors import Declined, PgError, marked
from pgrepl.internals.pyspark import arrow_function
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.rows.checks_table import TableChecks, table_rules
from pgrepl.types import oids
from pgrepl.types.lake.arrays import storage_type
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.exchange import Statement

NOWHERE = -1
LEAF = "__leaf"  # the column with the number of the leaf


class SparkRouter:
    """The leaves of a partitioned table, by number, and the SQL that chooses among them."""

    def __init__(self, session: Session, root: Relation) -> None:
        from pgrepl.expr.exchange import Statement

        self.root = root
        self.leaves: list[Relation] = []
        self._session = session
        self._statement: Statement = Statement(Context(session))
        self._buckets: list[tuple[str, PartitionKey, list[int], list[str]]] = []  # column, key, moduli, what is hashed
        self._choice = self._level(root, {a.num: a.num for a in root.columns})

    def routed(self, frame: DataFrame) -> DataFrame:
        """The frame with the leaf's number in `LEAF`; NOWHERE for a row without a partition."""
        session = spark.session()
        for name, key, moduli, texts in self._buckets:
            frame = self._statement.run(session, f"SELECT *, {', '.join(texts)} FROM {{f}}", {"f": frame})
            frame = _with_bucket(frame, name, key, moduli)
        text = f"SELECT *, {self._choice} AS {LEAF} FROM {{f}}"
        frame = self._statement.run(session, text, {"f": frame})
        return frame.drop(*[name for name, *_ in self._buckets])

    def parts(self, rows: DataFrame) -> tuple[list[tuple[Relation, DataFrame]], bool]:
        """The leaves that get rows, each with its rows in its layout; and whether there are rows without a partition.
        `rows` have the leaf's number in `LEAF`, and are persisted."""
        from pyspark.sql import functions as F

        with spark.pg_errors():
            present = {row[LEAF] for row in rows.select(LEAF).distinct().collect()}
        leaves = [(self.leaves[number], rows.filter(F.col(LEAF) == number)) for number in sorted(present - {NOWHERE})]
        return [(leaf, in_layout(part, self.root, leaf)) for leaf, part in leaves], NOWHERE in present

    def _level(self, rel: Relation, numbers: dict[int, int]) -> str:
        """`numbers`: the columns of the root for those of this table."""
        desc = partition_desc(self._session, rel.oid)
        bucket = self._bucket(desc, numbers) if desc.key.strategy == "h" else ""
        whens, otherwise = [], str(NOWHERE)
        for oid, bound in zip(desc.oids, desc.bounds, strict=True):
            part = relation(self._session, oid)
            names = {a.name: a.num for a in rel.columns}
            chosen = self._part(part, {a.num: numbers[names[a.name]] for a in part.columns})
            if bound.default:
                otherwise = chosen
                continue
            if bucket:
                condition = f"pmod({bucket}, {bound.modulus}) = {bound.remainder}"
            else:
                exprs = bound_constraint(self._session, rel.oid, desc.key, bound)
                condition = self._condition([map_attnums(expr, numbers) for expr in exprs])
            whens.append(f"WHEN {condition} THEN {chosen}")
        return f"CASE {' '.join(whens)} ELSE {otherwise} END" if whens else f"({otherwise})"

    def _part(self, part: Relation, numbers: dict[int, int]) -> str:
        if part.kind == "p":
            return self._level(part, numbers)
        self.leaves.append(part)
        return str(len(self.leaves) - 1)

    def _condition(self, exprs: Sequence[Expr]) -> str:
        return " AND ".join(f"({condition_text(expr, self._statement)})" for expr in exprs)

    def _bucket(self, desc: PartitionDesc, numbers: dict[int, int]) -> str:
        from pgrepl.expr.exchange import to_sql

        name = f"__bucket{len(self._buckets)}"
        texts = []
        for number, column in enumerate(desc.key.columns):
            expr = _key_expr(column, numbers)
            texts.append(f"{to_sql(expr, column_names, self._statement)} AS {name}_{number}")
        self._buckets.append((name, desc.key, [bound.modulus for bound in desc.bounds], texts))
        return name


def in_layout(rows: DataFrame, source: Relation, target: Relation) -> DataFrame:
    """Rows with the columns c{attnum} of one relation in the layout of another with the same columns, by name; columns
    that the rows lack are left out."""
    from pyspark.sql import functions as F

    numbers = {a.name: f"c{a.num}" for a in source.columns}
    sources = [(numbers[a.name], a.num) for a in target.columns if a.name in numbers]
    columns = [F.col(name).alias(f"c{number}") for name, number in sources if name in rows.columns]
    return rows.select(*columns, *[F.col(name) for name in rows.columns if name.startswith("__") and name != LEAF])


def _key_expr(column: KeyColumn, numbers: dict[int, int]) -> Expr:
    if column.expr is not None:
        return map_attnums(column.expr, numbers)
    return Var(column.type, typmod=column.typmod, collation=column.own_collation, attnum=numbers[column.attnum])


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


# --- hash partitions --------------------------------------------------------------------------------------------------


def _with_bucket(frame: DataFrame, name: str, key: PartitionKey, moduli: Sequence[int]) -> DataFrame:
    """The frame with the remainder of the key's hash by the largest modulus, which every other modulus divides."""
    from pyspark.sql import functions as F

    kinds = [[column.opclass, column.type, column.typmod] for column in key.columns]
    program = json.dumps([kinds, max(moduli, default=1)])

    def bucket(*arrays: Any) -> Any:
        return hash_buckets(program, arrays)

    def types() -> list[Any]:
        return [storage_type(form(typoid, typmod).arrow()) for _, typoid, typmod in kinds]

    columns = [f"{name}_{number}" for number in range(len(kinds))]
    function = arrow_function(bucket, "bigint", types)
    return frame.withColumn(name, function(*[F.col(column) for column in columns])).drop(*columns)


def hash_buckets(program: str, arrays: Sequence[Any]) -> pa.Array:
    """The remainders of the rows' partition hashes. Runs on the executors."""
    import pyarrow as pa

    kinds, modulus = json.loads(program)
    if len(kinds) == 1 and kinds[0][1] in oids.INTEGERS:
        return _integer_buckets(arrays[0], modulus)
    functions = [hash_function(KeyColumn(0, None, opclass, 0, typoid, typmod, 0)) for opclass, typoid, typmod in kinds]
    columns = [form(typoid, typmod).from_array(array) for (_, typoid, typmod), array in zip(kinds, arrays, strict=True)]
    return pa.array([row_hash(functions, row) % modulus for row in zip(*columns, strict=True)], pa.int64())


def _integer_buckets(array: Any, modulus: int) -> pa.Array:
    import pyarrow as pa

    values = array.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    hashes = integer_hashes(values)
    hashes[np.asarray(array.is_null())] = 0
    return pa.array((hashes % np.uint64(modulus)).astype(np.int64), pa.int64())


# --- checks table spark -----------------------------------------------------------------------------------------------


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
        """Compiles the rules of a table as conditions in SQL (TableChecks)."""
        from pgrepl.expr.exchange import Statement, to_sql

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
        self._broken += [f"({text(expr)}) IS NULL" for _, expr in rules.computed_not_null]
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
        first = f"c{self.relation.kept[0].num}"
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
        return self._statement.run(spark.session(), text, {"f": frame})


def numbered(frame: DataFrame) -> DataFrame:
    """The frame with the order of its rows, as far as they have one: by Spark partition, then by position."""
    from pyspark.sql import functions as F

    return frame if ORDER in frame.columns else frame.withColumn(ORDER, F.monotonically_increasing_id())


def first_row(statement: Statement, frame: DataFrame, rel: Relation, condition: str) -> tuple[int, Row] | None:
    """The first row that satisfies `condition`, in the layout of the table, and its place in the order."""
    names = ", ".join(f"c{a.num}" for a in rel.kept)
    text = f"SELECT {ORDER}, {names} FROM {{f}} WHERE {condition} ORDER BY {ORDER} LIMIT 1"
    found = python_rows(
        statement.run(spark.session(), text, {"f": numbered(frame)}),
        [(oids.INT8, -1), *((a.type, a.typmod) for a in rel.kept)],
    )
    if not found:
        return None
    number, *values = found[0]
    row: list[Any] = [None] * len(rel.attributes)
    for attribute, value in zip(rel.kept, values, strict=True):
        row[attribute.num - 1] = value
    return number, tuple(row)


def python_rows(frame: DataFrame, types: Sequence[tuple[int, int]]) -> list[Row]:
    """The rows of a small frame whose columns have the lake forms of these types (OID, modifier)."""
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
    from pgrepl.expr.exchange.sql import quoted

    return quoted(text)
