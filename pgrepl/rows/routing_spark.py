"""Tuple routing of a DataFrame: one column with the number of each row's leaf.

The bounds of partitions are conditions in SQL, tried in order, the default partition last. For hash partitions Python
computes the remainder as PostgreSQL does, over Arrow batches.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation, relation
from pgrepl.expr.context import Context
from pgrepl.expr.partition import KeyColumn, PartitionKey
from pgrepl.expr.partition_constraint import bound_constraint
from pgrepl.expr.partition_order import PartitionDesc, partition_desc
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import map_attnums
from pgrepl.types import oids

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.spark import Statement

NOWHERE = -1
LEAF = "__leaf"  # the column with the number of the leaf


class SparkRouter:
    """The leaves of a partitioned table, by number, and the SQL that chooses among them."""

    def __init__(self, session: Session, root: Relation) -> None:
        from pgrepl.expr.spark import Statement

        self.root = root
        self.leaves: list[Relation] = []
        self._session = session
        self._statement: Statement = Statement(Context(session))
        self._buckets: list[tuple[str, PartitionKey, list[int], list[str]]] = []  # column, key, moduli, what is hashed
        self._choice = self._level(root, {a.num: a.num for a in root.columns})

    def routed(self, frame: DataFrame) -> DataFrame:
        """The frame with the leaf's number in `LEAF`; NOWHERE for a row without a partition."""
        from pgrepl.lake import spark

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

        from pgrepl.lake import spark

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
        from pgrepl.expr.spark import to_sql

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
    from pgrepl.expr.spark import Sql
    from pgrepl.expr.spark.sql import form_type

    if isinstance(node, Var) and node.attnum > 0:
        return Sql(f"c{node.attnum}", form_type(node.type, node.typmod))
    return None


def condition_text(expr: Expr, statement: Statement) -> str:
    from pgrepl.expr.spark import to_sql

    return to_sql(expr, column_names, statement)


# --- hash partitions --------------------------------------------------------------------------------------------------


def _with_bucket(frame: DataFrame, name: str, key: PartitionKey, moduli: Sequence[int]) -> DataFrame:
    """The frame with the remainder of the key's hash by the largest modulus, which every other modulus divides."""
    from pyspark.sql import functions as F

    from pgrepl.internals.pyspark import arrow_function

    kinds = [[column.opclass, column.type, column.typmod] for column in key.columns]
    program = json.dumps([kinds, max(moduli, default=1)])

    def bucket(*arrays: Any) -> Any:
        return hash_buckets(program, arrays)

    def types() -> list[Any]:
        from pgrepl.types.lake_arrays import storage_type
        from pgrepl.types.lake_forms import form

        return [storage_type(form(typoid, typmod).arrow()) for _, typoid, typmod in kinds]

    columns = [f"{name}_{number}" for number in range(len(kinds))]
    function = arrow_function(bucket, "bigint", types)
    return frame.withColumn(name, function(*[F.col(column) for column in columns])).drop(*columns)


def hash_buckets(program: str, arrays: Sequence[Any]) -> pa.Array:
    """The remainders of the rows' partition hashes. Runs on the executors."""
    import pyarrow as pa

    from pgrepl.expr.partition_hash import hash_function, row_hash
    from pgrepl.types.lake_forms import form

    kinds, modulus = json.loads(program)
    if len(kinds) == 1 and kinds[0][1] in oids.INTEGERS:
        return _integer_buckets(arrays[0], modulus)
    functions = [hash_function(KeyColumn(0, None, opclass, 0, typoid, typmod, 0)) for opclass, typoid, typmod in kinds]
    columns = [form(typoid, typmod).from_array(array) for (_, typoid, typmod), array in zip(kinds, arrays, strict=True)]
    return pa.array([row_hash(functions, row) % modulus for row in zip(*columns, strict=True)], pa.int64())


def _integer_buckets(array: Any, modulus: int) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    from pgrepl.expr.partition_hash import integer_hashes

    values = array.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    hashes = integer_hashes(values)
    hashes[np.asarray(array.is_null())] = 0
    return pa.array((hashes % np.uint64(modulus)).astype(np.int64), pa.int64())
