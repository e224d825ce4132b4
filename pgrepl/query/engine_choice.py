"""How many rows a query reads, and by that its engine: this process, or Spark.

The rows of user tables count, after files are skipped by the query's conditions; a row that a unique key finds costs a
read of the key's column only. A query that returns the rows of one table unchanged stays here however many they are:
its first rows come at once, and in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from pgrepl import engine
from pgrepl.engine import Choice
from pgrepl.expr import tree
from pgrepl.expr.tree import Query, RangeRef, Rte, RteKind
from pgrepl.query import group_columns
from pgrepl.query.bounds import bounds_of, value_of
from pgrepl.query.outside import OutsideRows
from pgrepl.query.shape import has_user_tables, levels, only_entry, uses_groups
from pgrepl.query.tables import is_user_table
from pgrepl.rows.members import Member, members
from pgrepl.types.builtin import proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Context
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.files import Extent
    from pgrepl.lake.table import LakeTable

_KEY_SHARE = 1000  # looking through the columns of bounds costs one in so many of handling whole rows here
_COUNTING_SHARE = 50  # and making numbers is so much cheaper than handling rows of tables
_FEW = 100_000  # rows that may come from Spark in one piece
ENDLESS = 10**10  # numbers that nobody waits for: here they are counted as far as somebody asks
MANY = 10_000  # numbers that Spark rather makes itself
_WHOLE_SERIES = frozenset(
    ("generate_series_int4", "generate_series_step_int4", "generate_series_int8", "generate_series_step_int8")
)


def choose(session: Session, query: Query, context: Context, *, by_columns: bool = True) -> Choice:
    """The engine of a query whose rows are shown. `by_columns`: False if whole columns have been tried."""
    counted = counted_rows(query, context)
    unfit = ""
    if counted > ENDLESS:
        unfit = "numbers without end"
    elif not counted and not has_user_tables(query):
        unfit = "no rows of tables"

    def best_here() -> str:
        if _only_gives_rows(query):
            return "the rows of one table as they stand"
        return "a LIMIT ends it early" if _ends_early(query, context) else ""

    return engine.choose(
        session,
        lambda: extent_of(session, query, context) + _rows(counted // _COUNTING_SHARE),
        unfit=unfit,
        best_here=best_here,
        by_columns=lambda: by_columns and group_columns.fits(query, context),
        cold=engine.COLD,
    )


def choose_to_write(session: Session, query: Query, context: Context) -> Choice:
    """The engine of a query whose rows are written: a query that returns the rows of one table unchanged is not best
    read here then; and each generated number becomes a row."""
    choice = choose(session, query, context)
    made = 0 if any(uses_groups(level) for level in levels(query)) else counted_rows(query, context)
    known_few = choice.rows > 0 and max(choice.rows, made) <= engine.local_rows(session)
    if choice.on_spark or known_few or made > ENDLESS or not engine.is_auto(session):
        return choice
    return engine.choose(session, lambda: extent_of(session, query, context, 1) + _rows(made), cold=engine.COLD_WRITES)


def gives_few(query: Query, context: Context, choice: Choice) -> bool:
    """Whether the result is known to be small."""
    return (choice.rows <= _FEW and not _multiplies(query)) or _is_small(query, context)


def is_for_spark(query: Query, context: Context) -> bool:
    """Whether the query reads anything that Spark reads itself; otherwise its rows would be sent there."""
    if has_user_tables(query) or counted_rows(query, context) > 0:
        return True
    return any(isinstance(entry.rows, OutsideRows) for level in levels(query) for entry in level.rtable)


def extent_of(session: Session, query: Query, context: Context, cold: int = engine.COLD) -> Extent:
    """The rows of user tables after files are skipped by the query's conditions; rows are counted where that is worth
    it. `cold`: see engine.choose."""
    from pgrepl.lake.files import Extent, extent
    from pgrepl.lake.table import lake_table

    total = Extent()
    for level in levels(query):
        tables = [(varno, entry) for varno, entry in enumerate(level.rtable, 1) if is_user_table(entry)]
        bounds = bounds_of(level, context) if tables else {}
        for varno, entry in tables:
            for member in members(session, entry.relid, entry.inh):
                below = member.bounds(bounds.get(varno, ()))
                table = lake_table(session, member.relation.oid)
                found = extent(session, table, below)
                rows = _by_key(session, member, below, found.rows)
                if below and engine.is_worth_a_look(session, rows, cold):
                    rows = rows // _KEY_SHARE + _within(session, table, below, engine.local_rows(session) * cold)
                total += Extent(rows, found.bytes)
    return total


def _within(session: Session, table: LakeTable, bounds: Sequence[Bound], most: int) -> int:
    """How many rows are within the bounds, up to `most`: reads the columns of the bounds, which the query then has at
    hand."""
    from pgrepl.lake.local import counts

    found = 0
    for count in counts(session, table, bounds):
        found += count
        if found > most:
            break
    return found


def _rows(count: int) -> Extent:
    from pgrepl.lake.files import Extent

    return Extent(count)


def _by_key(session: Session, member: Member, bounds: Sequence[Bound], rows: int) -> int:
    """The rows that remain when the bounds give the values of a unique key."""
    if not bounds or rows <= _KEY_SHARE:
        return rows
    from pgrepl.catalog.indexes import indexes

    counts: dict[int, int] = {}
    for bound in bounds:
        if bound.values is not None:
            counts[bound.attnum] = len(bound.values)
        elif bound.low is not None and bound.low == bound.high:
            counts[bound.attnum] = 1
    for index in indexes(session, member.relation.oid):
        keys = index.indkey[: index.indnkeyatts]
        if index.indisunique and index.indisvalid and not index.indpred and all(key in counts for key in keys):
            found = 1
            for key in keys:
                found *= counts[key]
            rows = min(rows, found + rows // _KEY_SHARE)
    return rows


def counted_rows(query: Query, context: Context) -> int:
    """How many rows generate_series returns, where they are many."""
    total = 0
    for level in levels(query):
        for entry in level.rtable:
            if entry.kind is RteKind.FUNCTION and len(entry.functions) == 1:
                total += series_length(entry.functions[0], context)
    return total if total >= MANY else 0


def series_length(function: tree.Expr, context: Context) -> int:
    """The length of a generate_series over constant whole numbers; 0 for anything else."""
    ends = series_ends(function, context) if is_whole_series(function) else None
    return 0 if ends is None else length_of(*ends)


def is_whole_series(function: tree.Expr) -> TypeGuard[tree.FuncExpr]:
    """Whether it is generate_series over whole numbers."""
    proc = proc_by_oid(function.func) if isinstance(function, tree.FuncExpr) else None
    return proc is not None and proc.src in _WHOLE_SERIES


def series_ends(function: tree.FuncExpr, context: Context) -> tuple[int, int, int] | None:
    """Its start, stop and step, if they are known."""
    values = [value_of(arg, context) for arg in function.args if not isinstance(arg, tree.NamedArg)]
    known = [value for value in (*values, 1) if value is not None]
    if len(values) < len(function.args) or len(known) <= len(values) or not known[2]:
        return None
    return known[0], known[1], known[2]


def length_of(start: int, stop: int, step: int) -> int:
    return max((stop - start) // step + 1, 0)


# --- what the query does with the rows ------------------------------------------------------------------------------


def _only_source(query: Query) -> Rte | None:
    """The one entry of FROM whose rows the query returns unchanged; None: it does more with them."""
    if (
        query.where is not None
        or query.sort
        or query.distinct is not None
        or query.windows
        or query.has_sublinks
        or uses_groups(query)
    ):
        return None
    return only_entry(query)


def _only_gives_rows(query: Query) -> bool:
    """Whether the query returns the rows of one table in their order, all of them up to a LIMIT."""
    entry = _only_source(query)
    if entry is None or query.ctes:
        return False
    if entry.kind is RteKind.SUBQUERY:
        return entry.subquery is not None and _only_gives_rows(entry.subquery)
    return is_user_table(entry) and entry.sample is None


def _ends_early(query: Query, context: Context) -> bool:
    """Whether the query is a small LIMIT over rows that come one by one: numbers, or a table's rows unchanged."""
    limit = value_of(query.limit, context) if query.limit is not None else None
    offset = value_of(query.offset, context) if query.offset is not None else 0
    return (
        limit is not None
        and offset is not None
        and limit + offset <= _FEW
        and not query.with_ties
        and _streams(query, query)
    )


def _streams(query: Query, top: Query) -> bool:
    entry = _only_source(query)
    if entry is None:
        return False
    if entry.kind is RteKind.CTE:
        found = [cte for cte in top.ctes if cte.name == entry.cte and not cte.recursive]
        return bool(found) and _streams(found[0].query, top)
    if entry.kind is RteKind.SUBQUERY:
        return entry.subquery is not None and _streams(entry.subquery, top)
    return entry.kind is RteKind.FUNCTION


def _multiplies(query: Query) -> bool:
    """Whether the query may return more rows than it reads."""
    return any(
        len(level.from_) > 1
        or any(not isinstance(item, RangeRef) for item in level.from_)
        or level.has_target_srfs
        or level.recursive
        or level.grouping_sets is not None
        for level in levels(query)
    )


def _is_small(query: Query, context: Context) -> bool:
    if query.limit is not None:
        limit = value_of(query.limit, context)
        if limit is not None and limit <= _FEW and not query.with_ties:
            return True
    plain_groups = not query.group and query.grouping_sets is None
    return query.set_operation is None and uses_groups(query) and plain_groups and not query.has_target_srfs
