"""Unique indexes over staged rows: no two of them have the same key, and none has the key of a row that stays.

Where statistics say that the keys of the table and the new ones do not meet, the table is not read. A deferrable
constraint holds for the state that the statement leaves. An immediate one must hold at each row: a row that an UPDATE
gives the old key of a row behind it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.engine.result_spark import ORDER, column_names, python_rows
from pgrepl.expr.catalog_trees import IndexInfo
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr, Var
from pgrepl.lake.read.files import estimate
from pgrepl.rows.checks_columns import new_keys_differ
from pgrepl.rows.checks_table import own
from pgrepl.rows.foreign.key import index_types
from pgrepl.rows.staged import ROW, StagedRows
from pgrepl.rows.unique import UniqueIndex, unique_indexes
from pgrepl.types import oids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound

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
        from pgrepl.expr.exchange import Statement

        self.info = info
        self.index = UniqueIndex(session, staged.relation, info)
        self._staged = staged
        self._statement = Statement(Context(session))
        rel = staged.relation
        waiting = iter(info.exprs)
        self._keys: list[Expr] = []
        for attnum in info.columns[: info.key_count]:
            attribute = rel.attributes[attnum - 1] if attnum else None
            if attribute is None:
                self._keys.append(own(next(waiting), rel))
            else:
                self._keys.append(
                    Var(attribute.type, typmod=attribute.typmod, collation=attribute.collation, attnum=attnum)
                )
        self._predicate = None if info.predicate is None else own(info.predicate, rel)
        self._types = [(typoid, key.typmod) for typoid, key in zip(index_types(session, info), self._keys, strict=True)]

    @property
    def attnums(self) -> frozenset[int]:
        return self.index.attnums

    def check(self) -> None:
        new = self._keyed(self._staged.new_rows(sorted(self.attnums)), f"{ORDER}, {ROW}")
        found = [each for each in (self._first_duplicate(new), self._first_taken(new)) if each is not None]
        if found:
            _, values = min(found, key=lambda each: each[0])
            raise self.index.duplicate(values)

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _keyed(self, rows: DataFrame, more: str) -> DataFrame:
        """The rows that are in the index: the key to compare (k…), its values (v…), `more`."""
        from pgrepl.expr.exchange import equal_key, to_sql

        columns = [more]
        conditions = []
        for number, key in enumerate(self._keys):
            columns.append(f"{equal_key(key, column_names, self._statement)} AS k{number}")
            columns.append(f"{to_sql(key, column_names, self._statement)} AS v{number}")
            if not self.info.nulls_not_distinct:
                conditions.append(f"({to_sql(key, column_names, self._statement)}) IS NOT NULL")
        if self._predicate is not None:
            conditions.append(f"({to_sql(self._predicate, column_names, self._statement)}) IS TRUE")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._statement.run(spark.session(), f"SELECT {', '.join(columns)} FROM {{f}}{where}", {"f": rows})

    @property
    def _key_list(self) -> str:
        return ", ".join(f"k{number}" for number in range(len(self._keys)))

    def _values(self, alias: str) -> str:
        return ", ".join(f"{alias}.v{number}" for number in range(len(self._keys)))

    def _first(self, text: str, **frames: DataFrame) -> tuple[int, tuple[Any, ...]] | None:
        """The first row of (order, values …)."""
        found = python_rows(self._statement.run(spark.session(), text, frames), [(oids.INT8, -1), *self._types])
        return (found[0][0], tuple(found[0][1:])) if found else None

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
        bounds = self._bounds()
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

    def _bounds(self) -> Sequence[Bound]:
        """The bounds within which the table can have equal keys."""
        bounds = []
        for key in self._keys:
            if isinstance(key, Var) and not self.info.nulls_not_distinct:
                bound = self._staged.range_of(key.attnum)
                if bound is not None:
                    bounds.append(bound)
        return bounds
