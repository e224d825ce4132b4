"""The entries of FROM in SQL, and the names of their columns; set-returning functions that Spark has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pgrepl.engine.scan_spark import frame
from pgrepl.expr import tree
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMNS
from pgrepl.expr.exchange import Sql
from pgrepl.expr.exchange.sql import form_type
from pgrepl.expr.tree import PLACE, Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import returns_set, varnos, walk_deep
from pgrepl.ground.errors import Declined
from pgrepl.lake.table import lake_table
from pgrepl.query.engine_choice import MANY, is_for_spark, is_whole_series, length_of, series_ends
from pgrepl.query.local.env import Env
from pgrepl.query.local.scans import Sampling, scan
from pgrepl.query.local.select import QueryEvaluator
from pgrepl.query.reads import Bounds, bounds_of, fetched, used_columns, value_of
from pgrepl.query.shape import OutsideRows, depends, is_user_table, sees_outside, system_value
from pgrepl.query.spark.level import Level, Text
from pgrepl.query.spark.setops import played, ship
from pgrepl.rows.changes import Member, members
from pgrepl.sql.nodes import JoinType
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.lake.forms import PAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.lake.read.bounds import Bound


def plain_series(level: Level, entry: Rte) -> Text | None:
    """generate_series of constants, as rows that Spark generates; None: a short series, or another function."""
    if len(entry.functions) != 1 or entry.ordinality:
        return None
    function = entry.functions[0]
    ends = series_ends(function, level.job.context)
    if ends is None or length_of(*ends) < MANY:
        return None
    start, stop, step = ends
    end = stop + (1 if step > 0 else -1)
    if not -(2**63) <= end < 2**63:
        return None
    kind = form_type(function.type)
    return Text(f"SELECT CAST(id AS {kind}) AS c1 FROM range({start}, {end}, {step})", (kind,))


def lateral_series(level: Level, entry: Rte) -> Text:
    """A set-returning function whose arguments are columns of the entries before it."""
    if len(entry.functions) != 1:
        raise Declined("functions side by side over columns")
    (function,) = entry.functions
    array, kind = as_array(level, function)
    if entry.ordinality:
        return Text(
            "SELECT e.value AS c1, CAST(e.place + 1 AS BIGINT) AS c2"
            f" FROM (SELECT posexplode({array}) AS (place, value)) AS e",
            (kind, "BIGINT"),
        )
    return Text(f"SELECT explode({array}) AS c1", (kind,))


def as_array(level: Level, function: Expr) -> tuple[str, str]:
    """The array of values that a set-returning call returns for one row, and the type of its elements."""
    if not isinstance(function, tree.FuncExpr):
        raise Declined("an operator that returns a set")
    if any(returns_set(arg) for arg in function.args):
        raise Declined("a set-returning function of another")
    if not function.retset:
        kind = form_type(function.type)
        return f"array({level.form(function)})", kind
    series = _series(function)
    if series is not None:
        kind = form_type(function.type)
        start, stop, *rest = [level.form(arg) for arg in series.args]
        step = rest[0] if rest else f"CAST(1 AS {kind})"
        if rest:
            constant = value_of(series.args[2], level.job.context)
            if not constant:
                raise Declined("generate_series with a step that is not constant")
            ends = f"{start} <= {stop}" if constant > 0 else f"{start} >= {stop}"
        else:
            ends = f"{start} <= {stop}"
        return f"CASE WHEN {ends} THEN sequence({start}, {stop}, {step}) ELSE CAST(array() AS ARRAY<{kind}>) END", kind
    proc = proc_by_oid(function.func)
    if proc is not None and proc.src == "array_unnest":
        kind = form_type(function.type)
        return level.form(function.args[0]), kind
    raise Declined(f"set-returning function {proc.name if proc is not None else function.func} over columns")


def _series(expr: Expr) -> tree.FuncExpr | None:
    if not isinstance(expr, tree.FuncExpr) or expr.type not in (oids.INT4, oids.INT8):
        return None
    return expr if is_whole_series(expr) and not any(map(_named, expr.args)) else None


def _named(arg: Expr) -> bool:
    return isinstance(arg, tree.NamedArg)


# --- sources ----------------------------------------------------------------------------------------------------------


_CTID = -1


class Sources:
    """FROM of one level."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.job = level.job
        self.query = level.query
        self._used: dict[int, frozenset[int]] | None = None
        self._bounds: Bounds | None = None

    def text(self) -> str:
        """The whole FROM clause; the level then has the names of its columns."""
        self.level.note_outer_joins()
        parts = [self._beside(self._item(item), item) for item in self.query.from_]
        return " CROSS JOIN ".join(parts)

    @property
    def used(self) -> dict[int, frozenset[int]]:
        if self._used is None:
            self._used = used_columns(self.query)
        return self._used

    @property
    def bounds(self) -> Bounds:
        if self._bounds is None:
            self._bounds = bounds_of(self.query, self.job.context)
        return self._bounds

    def _beside(self, text: str, item: RangeRef | Join) -> str:
        """An item of a list. A join that keeps rows of its right side needs parentheses there; others get none, since
        LATERAL does not look out of them."""
        if not _keeps_right(item):
            return text
        if any(self.query.rtable[varno - 1].lateral for varno in varnos(item)) and len(self.query.from_) > 1:
            raise Declined("LATERAL in an outer join behind a comma")
        return f"({text})"

    def _item(self, item: RangeRef | Join) -> str:
        if isinstance(item, RangeRef):
            return self._entry(item.varno)
        left, right = self._item(item.left), self._item(item.right)
        if isinstance(item.right, Join):
            right = f"({right})"
        if item.quals is None:
            kind = "CROSS" if item.kind in (JoinType.INNER, JoinType.CROSS) else _JOINS[item.kind]
            return f"{left} {kind} JOIN {right}" + ("" if kind == "CROSS" else " ON true")
        return f"{left} {_JOINS[item.kind]} JOIN {right} ON {self.level.form(item.quals)}"

    def _entry(self, varno: int) -> str:
        entry = self.query.rtable[varno - 1]
        alias = self.job.name("t")
        if self.job.session.instruments is not None:
            self.job.session.instruments.aliases[alias] = self.query, frozenset((varno,))
        if entry.sample is not None and not is_user_table(entry):
            raise Declined("TABLESAMPLE of anything but a table")
        if is_user_table(entry):
            source = self._table(varno, entry, alias)
        elif entry.kind is RteKind.SUBQUERY:
            assert entry.subquery is not None
            source = self._query(varno, entry, entry.subquery, alias)
        elif entry.kind is RteKind.CTE:
            source = self._with(varno, entry, alias)
        elif entry.kind is RteKind.FUNCTION:
            source = self._function(varno, entry, alias)
        else:
            source = self._played(varno, entry, alias)
        return f"{source} AS {alias}"

    # --- tables -----------------------------------------------------------------------------------------------------

    def _table(self, varno: int, entry: Rte, alias: str) -> str:
        session = self.job.session
        attnums = list(fetched(entry, self.used.get(varno, ())))
        scanned = members(session, entry.relid, entry.inh)
        bounds = self.bounds.get(varno, ())
        columns = {
            number: Sql(f"{alias}.c{number}", form_type(column.type, column.typmod))
            for number, column in enumerate(entry.columns, 1)
            if number in attnums
        }
        for number in attnums:
            if number < 0:
                columns[number] = Sql(f"{alias}.s{-number}", _SYSTEM_TYPES[number])
        for member in scanned:
            table = lake_table(session, member.relation.oid)
            if any(n > 0 and table.column(member.numbers[n]).has_dimensions for n in attnums):
                raise Declined("arrays of several dimensions")
        self.level.columns[varno] = columns
        sample = self._sample(entry)

        def make() -> DataFrame:
            if not scanned:
                return ship(entry.columns, [n for n in attnums if n > 0], ())()
            frames = [self._member(member, attnums, bounds) for member in scanned]
            frame = reduce(lambda all_rows, more: all_rows.unionAll(more), frames)
            return sample(frame)

        return self.job.frame(make)

    def _member(self, member: Member, attnums: list[int], bounds: Sequence[Bound]) -> DataFrame:
        from pyspark.sql import functions as f

        table = lake_table(self.job.session, member.relation.oid)
        own = [member.numbers[n] for n in attnums if n > 0]
        places = _CTID in attnums or PLACE in attnums
        scanned = frame(self.job.session, table, own, bounds=member.bounds(bounds), places=places)
        if attnums == own:
            return scanned
        chosen = []
        for number in attnums:
            if number > 0:
                chosen.append(f.col(f"c{member.numbers[number]}").alias(f"c{number}"))
            elif number == PLACE:
                chosen.append(f.col("place").alias(f"s{-number}"))
            elif number == _CTID:
                row = f"concat('(', place.row div {PAGE}, ',', place.row % {PAGE} + 1, ')')"
                chosen.append(f.expr(row).alias(f"s{-number}"))
            else:
                value = system_value(member.relation.oid, number)
                chosen.append(f.lit(value).cast(_SYSTEM_TYPES[number]).alias(f"s{-number}"))
        return scanned.select(chosen)

    def _sample(self, entry: Rte) -> Callable[[DataFrame], DataFrame]:
        if entry.sample is None:
            return lambda frame: frame
        parts = (*entry.sample.args, entry.sample.repeatable)
        if any(_refers(part) or _asks(part) for part in parts if part is not None):
            raise Declined("TABLESAMPLE of columns or subqueries")
        evaluator = QueryEvaluator(self.job.context, self.query)
        fraction, seed = Sampling(entry.sample, evaluator).parameters(Env([], None))
        return lambda frame: frame.sample(fraction=fraction, seed=seed)

    # --- queries ----------------------------------------------------------------------------------------------------

    def _query(self, varno: int, entry: Rte, query: Query, alias: str) -> str:
        if not is_for_spark(query, self.job.context) and not depends(query):
            rows = played(query, self.job.context)
            numbers = list(range(1, len(query.columns) + 1))
            self._shipped_columns(varno, query.columns, numbers, alias)
            return self.job.frame(ship(query.columns, numbers, rows))
        text = self.level.inside(query).text()
        self.level.columns[varno] = text.columns(alias)
        return f"{'LATERAL ' if entry.lateral and depends(query) else ''}({text.text})"

    def _with(self, varno: int, entry: Rte, alias: str) -> str:
        assert entry.cte is not None
        level = self.level.up(entry.cte_levelsup)
        with_query = level.ctes.get(entry.cte)
        if entry.cte_levelsup and any(cte.name == entry.cte and sees_outside(cte.query) for cte in level.query.ctes):
            raise Declined("a WITH query that depends on a row, in a subquery")
        if with_query is None:
            raise Declined(f'recursive query "{entry.cte}"')
        self.level.columns[varno] = Text("", with_query.types).columns(alias)
        return with_query.name

    def _shipped_columns(self, varno: int, columns: Sequence[tree.Column], numbers: Sequence[int], alias: str) -> None:
        self.level.columns[varno] = {
            number: Sql(f"{alias}.c{number}", form_type(columns[number - 1].type, columns[number - 1].typmod))
            for number in numbers
        }

    # --- functions, VALUES, system catalogs -------------------------------------------------------------------------

    def _function(self, varno: int, entry: Rte, alias: str) -> str:
        if any(_refers(function) for function in entry.functions):
            text = lateral_series(self.level, entry)
            self.level.columns[varno] = text.columns(alias)
            return f"LATERAL ({text.text})"
        series = plain_series(self.level, entry)
        if series is not None:
            self.level.columns[varno] = series.columns(alias)
            return f"({series.text})"
        return self._played(varno, entry, alias)

    def _played(self, varno: int, entry: Rte, alias: str) -> str:
        """Rows that this process computes."""
        if entry.kind is RteKind.VALUES and any(_refers(value) for row in entry.values for value in row):
            return self._values(varno, entry, alias)
        numbers = [n for n in fetched(entry, self.used.get(varno, ())) if n > 0]
        if len(numbers) != len(self.used.get(varno, ())) and min(self.used.get(varno, (0,))) < 0:
            raise Declined("a system column of a system catalog")
        if any(map(_asks, entry.functions)):
            raise Declined("a function of a subquery in FROM")
        outside = entry.rows
        if isinstance(outside, OutsideRows):
            self._shipped_columns(varno, entry.columns, numbers, alias)
            return self.job.frame(lambda: outside.frame(numbers))
        rows = scan(varno, QueryEvaluator(self.job.context, self.query))(Env([], None))
        self._shipped_columns(varno, entry.columns, numbers, alias)
        return self.job.frame(ship(entry.columns, numbers, rows))

    def _values(self, varno: int, entry: Rte, alias: str) -> str:
        """VALUES with columns of the entries before it."""
        types = tuple(form_type(c.type, c.typmod) for c in entry.columns)
        rows = [
            "SELECT " + ", ".join(f"{self.level.form(value)} AS c{n}" for n, value in enumerate(row, 1))
            for row in entry.values
        ]
        text = Text(" UNION ALL ".join(rows), types)
        self.level.columns[varno] = text.columns(alias)
        return f"LATERAL ({text.text})"


_JOINS = {
    JoinType.INNER: "INNER",
    JoinType.CROSS: "INNER",
    JoinType.LEFT: "LEFT",
    JoinType.RIGHT: "RIGHT",
    JoinType.FULL: "FULL",
}
_SYSTEM_TYPES = {attnum: form_type(typoid) for attnum, typoid in SYSTEM_COLUMNS.values()}
_SYSTEM_TYPES[PLACE] = "STRUCT<file: BIGINT, pos: BIGINT, row: BIGINT>"


def _keeps_right(item: RangeRef | Join) -> bool:
    if isinstance(item, RangeRef):
        return False
    return item.kind in (JoinType.RIGHT, JoinType.FULL) or _keeps_right(item.left)


def _refers(expr: tree.Expr) -> bool:
    """Whether an expression in FROM refers to columns of entries beside it or of outer queries."""
    return any(isinstance(node, (tree.Var, tree.Aggref)) and node.levelsup >= up for node, up in walk_deep(expr))


def _asks(expr: tree.Expr) -> bool:
    return any(isinstance(node, tree.SubLink) for node, _ in walk_deep(expr))
