"""Keys of a statement of Spark's. Foreign keys, as joins: staged rows whose key does not exist, removed keys that are
still referenced. Unique indexes: no two staged rows have the same key, and none has the key of a row that stays.

Tables are read as the statement leaves them: without the deleted rows, with the staged ones. Where statistics say that
the keys of the table and the new ones do not meet, the table is not read. A deferrable constraint holds for the state
that the statement leaves. An immediate one must hold at each row: a row that an UPDATE gives the old key of a row
behind it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import relation
from pgrepl.engine import scan_spark, spark
from pgrepl.engine.result_spark import ORDER, column_names, python_rows
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.catalog_trees import IndexInfo, attnum_map
from pgrepl.expr.exchange import Compiler, Statement, equal_key
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import column_of
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read.files import estimate
from pgrepl.lake.table import lake_table
from pgrepl.rows.checks_columns import key_bounds, new_keys_differ
from pgrepl.rows.checks_table import own
from pgrepl.rows.foreign.key import ForeignKey, index_types, mixed_nulls, not_present, still_referenced
from pgrepl.rows.foreign.lookup import tables_of
from pgrepl.rows.staged import ROW, StagedRows
from pgrepl.rows.unique import UniqueIndex, unique_indexes
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import oids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound

Row = tuple[Any, ...]
Failure = tuple[tuple[int, ...], PgError]  # the row's place in the order of the rows, and PostgreSQL's error


@frozen
class TablesAfter:
    """The tables as the statement leaves them: those it changes, the others at its snapshot."""

    session: Session
    staged: Mapping[int, StagedRows]
    snapshot: int

    def rows(self, table: int, attnums: Sequence[int], bounds: Sequence[Bound] = ()) -> DataFrame:
        """All rows of one table."""
        changed = self.staged.get(table)
        if changed is None:
            return scan_spark.frame(self.session, lake_table(self.session, table), attnums, self.snapshot, bounds)
        rows = changed.old_rows(attnums, deleted=False, bounds=bounds).drop("place")
        return rows.unionByName(changed.new_rows(attnums).select(*rows.columns)) if changed.files else rows


class SparkKey:
    """A foreign key over frames: the expressions that both sides are joined by."""

    def __init__(self, session: Session, key: ForeignKey) -> None:
        self.key = key
        self.statement: Statement = Statement(Context(session))
        self.compiler = Compiler(column_names, self.statement)
        self.session = session
        self.own, self.other = relation(session, key.referencing), relation(session, key.referenced)
        pairs = zip(key.columns, key.referenced_columns, strict=True)
        comparable = [_comparable(session, column_of(self.own, a, 0), column_of(self.other, b, 0)) for a, b in pairs]
        self._own = [a for a, _ in comparable]
        self._other = [b for _, b in comparable]
        self.on = " AND ".join(f"a.k{number} = b.k{number}" for number in range(len(comparable)))

    def referencing(self, rows: DataFrame, numbers: dict[int, int] | None, more: str = "") -> DataFrame:
        """The rows of a referencing table whose key has no NULL; `numbers`: the columns of a child for those of the
        whole."""
        return self._keyed(rows, self._own, numbers, more)

    def referenced(self, rows: DataFrame, numbers: dict[int, int] | None, more: str = "") -> DataFrame:
        return self._keyed(rows, self._other, numbers, more)

    def _keyed(self, rows: DataFrame, keys: Sequence[Expr], numbers: dict[int, int] | None, more: str) -> DataFrame:
        texts = []
        for number, key in enumerate(keys):
            expr = key if numbers is None else map_attnums(key, numbers)
            texts.append(f"{equal_key(expr, self.compiler)} AS k{number}")
        names = [f"k{number} IS NOT NULL" for number in range(len(texts))]
        text = f"SELECT * FROM (SELECT {', '.join([*texts, *([more] if more else [])])} FROM {{f}}) WHERE "
        return self.statement.run(spark.session(), text + " AND ".join(names), {"f": rows})

    def first(self, text: str, columns: Sequence[tuple[int, int]], **frames: DataFrame) -> Row | None:
        rows = python_rows(self.statement.run(spark.session(), text, frames), columns)
        return rows[0] if rows else None


def _comparable(session: Session, own: Expr, other: Expr) -> tuple[Expr, Expr]:
    """Both expressions as values of one type."""
    if own.type == other.type:
        return own, other
    scope, form = Scope(session), CoercionForm.IMPLICIT_CAST
    coerced = coerce_to_target(scope, own, own.type, other.type, -1, CastContext.IMPLICIT, form, -1)
    if coerced is not None:
        return coerced, other
    coerced = coerce_to_target(scope, other, other.type, own.type, -1, CastContext.IMPLICIT, form, -1)
    assert coerced is not None  # the foreign key could not have been made otherwise
    return own, coerced


# --- rows that came ---------------------------------------------------------------------------------------------------


def first_missing(after: TablesAfter, staged: StagedRows, key: ForeignKey) -> Failure | None:
    """The first staged row of a referencing table whose key does not exist."""
    session, rel = after.session, staged.relation
    spark_key = SparkKey(session, key)
    numbers = dict(zip(key.columns, key.columns, strict=True))
    new = staged.new_rows(key.columns)
    shown = ", ".join(f"c{number}" for number in key.columns)
    types = [(rel.attributes[number - 1].type, rel.attributes[number - 1].typmod) for number in key.columns]
    failures: list[Failure] = []
    if key.match_full and len(key.columns) > 1:
        nulls = [f"c{number} IS NULL" for number in key.columns]
        text = (
            f"SELECT {ORDER} FROM {{f}} WHERE ({' OR '.join(nulls)}) AND NOT ({' AND '.join(nulls)})"
            f" ORDER BY {ORDER} LIMIT 1"
        )
        first = spark_key.first(text, [(oids.INT8, -1)], f=new)
        if first is not None:
            failures.append(((first[0],), mixed_nulls(key, rel)))
    firsts = spark_key.referencing(new, numbers, f"{ORDER}, {shown}")
    names = ", ".join(f"k{n}" for n in range(len(key.columns)))
    keys = spark_key.statement.run(
        spark.session(),
        f"SELECT {names}, min(struct({ORDER}, {shown})) AS first FROM {{f}} GROUP BY {names}",
        {"f": firsts},
    )
    text = (
        f"SELECT a.first.* FROM {{keys}} a LEFT ANTI JOIN {{there}} b ON {spark_key.on}"
        f" ORDER BY a.first.{ORDER} LIMIT 1"
    )
    first = spark_key.first(text, [(oids.INT8, -1), *types], keys=keys, there=_present(after, spark_key, staged))
    if first is not None:
        row: list[Any] = [None] * len(rel.attributes)
        for number, value in zip(key.columns, first[1:], strict=True):
            row[number - 1] = value
        failures.append(((first[0],), not_present(session, key, rel, tuple(row))))
    return min(failures, key=lambda failure: failure[0], default=None)


def _present(after: TablesAfter, key: SparkKey, staged: StagedRows | None) -> DataFrame:
    """The keys of the referenced table; with `staged`, only those within the bounds of its keys."""
    bounds = []
    if staged is not None:
        for own, other in zip(key.key.columns, key.key.referenced_columns, strict=True):
            same = key.own.attributes[own - 1].type == key.other.attributes[other - 1].type
            bound = staged.range_of(own) if same else None
            if bound is not None:
                bounds.append((other, bound))
    parts = []
    for member in tables_of(after.session, key.key.referenced):
        attnums = sorted({member.numbers[number] for number in key.key.referenced_columns})
        near = [replace(bound, attnum=member.numbers[other]) for other, bound in bounds]
        parts.append(key.referenced(after.rows(member.relation.oid, attnums, near), member.numbers))
    return _union(parts)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda whole, part: whole.unionAll(part), parts)


# --- keys that went ---------------------------------------------------------------------------------------------------


def removed_keys(after: TablesAfter, deleted: Sequence[StagedRows], key: SparkKey) -> DataFrame:
    """The keys of a referenced table, or of its partitions, whose rows are deleted or get other keys: k…, the old key
    as o…, `place`."""
    parts = []
    columns = key.key.referenced_columns
    for staged in deleted:
        numbers = attnum_map(staged.relation, key.other)
        own = [numbers[number] for number in columns]
        shown = ", ".join([*(f"c{own} AS o{number}" for own, number in zip(own, columns, strict=True)), "place"])
        old = key.referenced(staged.old_rows(own, deleted=True), numbers, shown)
        if staged.versions:
            new = key.referenced(staged.new_rows(own), numbers, ROW)
            text = f"SELECT a.* FROM {{old}} a LEFT ANTI JOIN {{new}} b ON a.place.row = b.{ROW} AND {key.on}"
            old = key.statement.run(spark.session(), text, {"old": old, "new": new})
        parts.append(old)
    return _union(parts)


def first_referenced(
    after: TablesAfter, deleted: Sequence[StagedRows], foreign: ForeignKey, *, restrict: bool
) -> Failure | None:
    """The first removed key that is referenced (ri_restrict). Without `restrict`, a key that another row has now does
    not count."""
    key = SparkKey(after.session, foreign)
    text = f"SELECT a.* FROM {{old}} a LEFT SEMI JOIN {{used}} b ON {key.on}"
    frames = {"old": removed_keys(after, deleted, key), "used": referencing_keys(after, key)}
    if not restrict:
        text = f"SELECT a.* FROM ({text}) a LEFT ANTI JOIN {{there}} b ON {key.on}"
        frames["there"] = _present(after, key, None)
    for place, row in first_keys(key, text, 1, frames):
        return place, still_referenced(after.session, foreign, row, restrict=restrict)
    return None


def first_keys(
    key: SparkKey, text: str, count: int, frames: Mapping[str, DataFrame]
) -> list[tuple[tuple[int, int], Row]]:
    """The first old keys by their places, as rows of the referenced table with NULL in all other columns."""
    columns = key.key.referenced_columns
    attributes = [key.other.attributes[number - 1] for number in columns]
    order = "coalesce(place.file, 9223372036854775807) AS f, coalesce(place.pos, place.row) AS p"
    shown = ", ".join(f"o{number}" for number in columns)
    text = f"SELECT {order}, {shown} FROM ({text}) ORDER BY f, p LIMIT {count}"
    types = [(oids.INT8, -1), (oids.INT8, -1), *((a.type, a.typmod) for a in attributes)]
    rows = []
    for file, position, *values in python_rows(key.statement.run(spark.session(), text, frames), types):
        row: list[Any] = [None] * len(key.other.attributes)
        for number, value in zip(columns, values, strict=True):
            row[number - 1] = value
        rows.append(((file, position), tuple(row)))
    return rows


def referencing_keys(after: TablesAfter, key: SparkKey) -> DataFrame:
    """The keys that all rows of the referencing table reference."""
    parts = []
    for member in tables_of(after.session, key.key.referencing):
        attnums = sorted({member.numbers[number] for number in key.key.columns})
        parts.append(key.referencing(after.rows(member.relation.oid, attnums), member.numbers))
    return _union(parts)


_MANY = 50_000_000  # more keys are not sorted in this process


def check_unique(session: Session, staged: StagedRows, changed: frozenset[int] | None) -> None:
    """Check all unique indexes of a table; `changed`: of an UPDATE, the columns that can have another value."""
    for info in unique_indexes(session, staged.relation):
        index = SparkIndex(session, staged, info)
        if staged.files and (changed is None or index.attnums & changed):
            index.check()


class SparkIndex:
    """One unique index of a table with staged rows."""

    def __init__(self, session: Session, staged: StagedRows, info: IndexInfo) -> None:
        self.info = info
        self.index = UniqueIndex(session, staged.relation, info)
        self._staged = staged
        self._statement = Statement(Context(session))
        self._keys = self.index.exprs
        self._predicate = None if info.predicate is None else own(info.predicate, staged.relation)
        self._types = [(typoid, key.typmod) for typoid, key in zip(index_types(session, info), self._keys, strict=True)]

    @property
    def attnums(self) -> frozenset[int]:
        return self.index.attnums

    def check(self) -> None:
        new = self._keyed(self._staged.new_rows(sorted(self.attnums)), f"{ORDER}, {ROW}")
        duplicates = [
            duplicate for duplicate in (self._first_duplicate(new), self._first_taken(new)) if duplicate is not None
        ]
        if duplicates:
            _, values = min(duplicates, key=lambda duplicate: duplicate[0])
            raise self.index.duplicate(values)

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _keyed(self, rows: DataFrame, more: str) -> DataFrame:
        """The rows that are in the index: the key to compare (k…), its values (v…), `more`."""
        compiler = Compiler(column_names, self._statement)
        columns, conditions = [more], list[str]()
        for number, key in enumerate(self._keys):
            columns += [f"{equal_key(key, compiler)} AS k{number}", f"{compiler.text(key)} AS v{number}"]
            if not self.info.nulls_not_distinct:
                conditions.append(f"({compiler.text(key)}) IS NOT NULL")
        if self._predicate is not None:
            conditions.append(f"({compiler.text(self._predicate)}) IS TRUE")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._statement.run(spark.session(), f"SELECT {', '.join(columns)} FROM {{f}}{where}", {"f": rows})

    @property
    def _key_list(self) -> str:
        return ", ".join(f"k{number}" for number in range(len(self._keys)))

    def _values(self, alias: str) -> str:
        return ", ".join(f"{alias}.v{number}" for number in range(len(self._keys)))

    def _first(self, text: str, **frames: DataFrame) -> tuple[int, tuple[Any, ...]] | None:
        """The first row of (order, values …)."""
        rows = python_rows(self._statement.run(spark.session(), text, frames), [(oids.INT8, -1), *self._types])
        return (rows[0][0], tuple(rows[0][1:])) if rows else None

    def _first_duplicate(self, new: DataFrame) -> tuple[int, tuple[Any, ...]] | None:
        """The first staged row whose key an earlier staged row has."""
        staged = self._staged
        if staged.count < 2 or (staged.count <= _MANY and new_keys_differ(staged, self.info)):
            return None
        text = (
            f"SELECT {ORDER}, {self._values('t')} FROM (SELECT *, row_number() OVER (PARTITION BY {self._key_list}"
            f" ORDER BY {ORDER}) AS nth FROM {{new}}) t WHERE nth = 2 ORDER BY {ORDER} LIMIT 1"
        )
        if not self._has_duplicate(new):
            return None
        return self._first(text, new=new)

    def _has_duplicate(self, new: DataFrame) -> bool:
        """Whether there is a duplicate: cheaper than finding the first."""
        text = f"SELECT 1 AS one FROM {{new}} GROUP BY {self._key_list} HAVING count(*) > 1 LIMIT 1"
        with spark.pg_errors():
            return bool(self._statement.run(spark.session(), text, {"new": new}).toArrow().num_rows)

    def _first_taken(self, new: DataFrame) -> tuple[int, tuple[Any, ...]] | None:
        """The first staged row whose key a remaining row of the table has."""
        staged = self._staged
        bounds = key_bounds(staged, self.info)
        if not estimate(staged._session, staged.table, bounds, staged.snapshot):
            return None
        attnums = sorted(self.attnums)
        old = self._keyed(staged.old_rows(attnums, deleted=False, bounds=bounds), "place")
        on = " AND ".join(f"n.k{number} <=> o.k{number}" for number in range(len(self._keys)))
        stays = self._first(
            f"SELECT n.{ORDER}, {self._values('n')} FROM {{new}} n JOIN {{old}} o ON {on} ORDER BY n.{ORDER} LIMIT 1",
            new=new,
            old=old,
        )
        if stays is not None or not staged.versions or not self.info.immediate:
            return stays
        return self._first_met_on_the_way(new, on)

    def _first_met_on_the_way(self, new: DataFrame, on: str) -> tuple[int, tuple[Any, ...]] | None:
        """The first row that takes the old key of a row behind it."""
        gone = self._keyed(self._staged.old_rows(sorted(self.attnums), deleted=True), "place")
        order = "struct(coalesce({0}.place.file, {1}), coalesce({0}.place.pos, {0}.place.row))"
        own_place, other = (order.format(alias, "9223372036854775807") for alias in ("p", "o"))
        return self._first(
            f"SELECT n.{ORDER}, {self._values('n')} FROM {{new}} n"
            f" JOIN {{gone}} o ON {on} AND NOT (n.{ROW} <=> o.place.row)"
            f" JOIN {{gone}} p ON p.place.row = n.{ROW} WHERE {own_place} < {other} ORDER BY {own_place} LIMIT 1",
            new=new,
            gone=gone,
        )
