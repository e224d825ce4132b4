"""Groups and aggregates over one table by whole columns, in this process.

    SELECT k, count(*), sum(v) FROM t GROUP BY k HAVING … ORDER BY …

Arrow groups each portion of rows, and then the groups of all portions; only the final groups become Python values. The
rest of the query is executed over these rows. Queries that Arrow does not compute as PostgreSQL does are Declined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, repeat
from math import isfinite, nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.evaluate.evaluate import accumulator
from pgrepl.expr.tree import Column, Expr, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import lookup, rewrite, var_attnums, walk
from pgrepl.ground.errors import Declined
from pgrepl.ground.lazy import pa, pc
from pgrepl.lake.read.files import EXACT
from pgrepl.query.shape import aggregates, uses_groups
from pgrepl.query.table_rows import TableColumns, condition, only_table
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.names import numeric_precision_scale

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.expr.functions.registry import Context
    from pgrepl.types.lake.arrays import Form

# equal values have equal bytes in a file
_KEYS = oids.INTEGERS | {
    oids.OID,
    oids.BOOL,
    oids.DATE,
    oids.TIMESTAMP,
    oids.TIMESTAMPTZ,
    oids.TEXT,
    oids.VARCHAR,
    oids.UUID,
}
_ORDERED = oids.INTEGERS | {oids.OID, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.TEXT, oids.VARCHAR}
_FLOATS = frozenset((oids.FLOAT4, oids.FLOAT8))
_SUMMED = frozenset(("sum", "avg"))
_EXTREMES = {"min": "min", "max": "max"}
_TRUTHS = {"bool_and": "all", "every": "all", "bool_or": "any"}
_SAFE_DIGITS = 27  # digits of a decimal whose sums fit into 38
_LOT = 1 << 20  # groups of portions that are merged together
_MOST_GROUPS = 1 << 20  # groups that may become Python values
_HALF = 32  # bits: sums of int8 are kept in two halves, so that they cannot overflow


def fits(query: Query, context: Context) -> bool:
    """Whether the shape and types of a query allow grouping by whole columns."""
    if _source(query) is None or not all(map(_is_known, aggregates(query))):
        return False
    if any(key.type not in _KEYS for key in _keys(query)):
        return False
    return _program(query, context) is not None and all(map(_is_columnar, _inputs(query)))


def _source(query: Query) -> Rte | None:
    """The one table that is grouped."""
    if (
        query.grouping_sets is not None
        or query.has_sublinks
        or query.has_target_srfs
        or query.row_marks
        or not uses_groups(query)
    ):
        return None
    return only_table(query)


def _program(query: Query, context: Context) -> Program | None:
    """The condition of WHERE for Arrow; None: it is evaluated row by row."""
    program = condition(query, context)
    return program if program is not None and program.is_quick else None


def _inputs(query: Query) -> list[Expr]:
    """The expressions computed for each row: the keys, and the arguments and conditions of aggregates."""
    inputs = list(_keys(query))
    for node in aggregates(query):
        inputs += [*node.args, *([node.filter] if node.filter is not None else [])]
    return list(dict.fromkeys(inputs))


def _is_columnar(expr: Expr) -> bool:
    from pgrepl.expr.arrow.compiler import NotColumnar
    from pgrepl.expr.arrow.operations import columnar

    try:
        columnar(expr)
    except NotColumnar:
        return False
    return not any(isinstance(node, tree.Var) and (node.attnum <= 0 or node.levelsup) for node in walk(expr))


def _keys(query: Query) -> list[Expr]:
    by_resno = {target.resno: target.expr for target in query.targets}
    return list(dict.fromkeys(by_resno[group.resno] for group in query.group))


def _is_known(node: tree.Aggref) -> bool:
    if node.order or node.distinct or node.kind != "n" or node.levelsup:
        return False
    name, types = _name(node), [arg.type for arg in node.args]
    if name == "count":
        return len(types) < 2
    short = types[0] == oids.NUMERIC and node.args[0].typmod >= 0 and _is_short(node.args[0].typmod)
    if name in _SUMMED:  # not real: its sums round each time to six digits, in the order of the rows
        return types[0] in oids.INTEGERS or types[0] == oids.FLOAT8 or short
    if name in _EXTREMES:
        return types[0] in _ORDERED | _FLOATS or short
    return name in _TRUTHS and types[0] == oids.BOOL


def _is_short(typmod: int) -> bool:
    return numeric_precision_scale(typmod)[0] <= _SAFE_DIGITS


def _name(node: tree.Aggref) -> str:
    proc = proc_by_oid(node.func)
    return "" if proc is None else proc.name


def over_groups(session: Session, query: Query, context: Context) -> Query:
    """The query rewritten over its computed groups, which have a column for each key and for each aggregate."""
    entry = _source(query)
    assert entry is not None
    keys, computed_aggregates = _keys(query), aggregates(query)
    columns = {
        expr: Column("?column?", expr.type, expr.typmod, expr.collation) for expr in (*keys, *computed_aggregates)
    }
    number_of = lookup({expr: number for number, expr in enumerate(columns, 1)})

    def computed(node: Expr) -> Expr | None:
        number = number_of(node)
        if number is None:
            return None
        return tree.Var(node.type, typmod=node.typmod, collation=node.collation, varno=1, attnum=number)

    targets = tuple(replace(target, expr=rewrite(target.expr, computed)) for target in query.targets)
    having = None if query.having is None else rewrite(query.having, computed)
    over = [target.expr for target in targets] + ([having] if having is not None else [])
    if any(_reads_more(expr, len(columns)) for expr in over):
        raise Declined("columns that a key decides")
    rows: list[tuple[Any, ...]] = list(_Groups(session, query, context).rows())
    groups = Rte(RteKind.VALUES, entry.name, tuple(columns.values()), alias=entry.alias, rows=rows)
    return replace(
        query,
        targets=targets,
        rtable=(groups,),
        from_=(RangeRef(1),),
        where=having,
        group=(),
        having=None,
        has_aggregates=False,
        constraint_deps=(),
    )


def _reads_more(expr: Expr, columns: int) -> bool:
    """Whether the expression still reads a column of the table."""
    return any(isinstance(node, tree.Var) and not 0 < node.attnum <= columns for node in walk(expr))


class _Part:
    """Arrow's partial aggregates for one aggregate of the query, and its result. `place` and `passes` are those of its
    argument and of its FILTER among the inputs of a row."""

    def __init__(self, node: tree.Aggref, place: int | None, passes: int | None) -> None:
        self.place = place
        self._node = node
        self._passes = passes
        self._name = _name(node)
        self._in_halves = self._name in _SUMMED and node.args[0].type == oids.INT8

    def columns(self, inputs: Sequence[Any], rows: int) -> list[tuple[Any, str]]:
        """The columns of a portion to aggregate, and Arrow's function for each."""
        array = pa.repeat(pa.scalar(1, pa.int64()), rows) if self.place is None else inputs[self.place]
        if self._passes is not None:
            array = pc.if_else(pc.fill_null(inputs[self._passes], False), array, pa.scalar(None, array.type))
        known = (pc.cast(array.is_valid(), pa.int64()), "sum")
        if self._name == "count":
            return [known]
        if self._name in _EXTREMES and pa.types.is_floating(array.type):  # Arrow passes over NaN, which is the greatest
            nans = pc.is_nan(array)
            return [(pc.if_else(nans, None, array), _EXTREMES[self._name]), (pc.cast(nans, pa.int8()), "max")]
        if self._name in _EXTREMES:
            return [(array, _EXTREMES[self._name])]
        if self._name in _TRUTHS:
            return [(array, _TRUTHS[self._name])]
        if pa.types.is_decimal(array.type):
            return [(array.cast(pa.decimal128(38, array.type.scale)), "sum"), known]
        if pa.types.is_floating(array.type):
            return [(array, "sum"), known]
        array = array.cast(pa.int64())
        if not self._in_halves:
            return [(array, "sum"), known]
        high = pc.shift_right(array, _HALF)
        return [(high, "sum"), (pc.subtract(array, pc.shift_left(high, _HALF)), "sum"), known]

    def results(self, kept: Iterator[pa.ChunkedArray], context: Context) -> list[Any]:
        """The aggregate of each group, from its partial aggregates."""
        if self._name in _EXTREMES:
            extremes = _form(self._node.args[0]).from_array(next(kept))
            if self._node.args[0].type not in _FLOATS:
                return extremes
            nans = next(kept).to_pylist()
            of_max = self._name == "max"
            return [
                nan if with_nan and (of_max or v is None) else v for v, with_nan in zip(extremes, nans, strict=True)
            ]
        values: list[Any] = next(kept).to_pylist()
        if self._name == "count":
            return [value or 0 for value in values]
        if self._name in _TRUTHS:
            return values
        if self._in_halves:
            lows = next(kept).to_pylist()
            values = [None if low is None else (high << _HALF) + low for high, low in zip(values, lows, strict=True)]
        extremes = []
        for value, known in zip(values, next(kept).to_pylist(), strict=True):
            if isinstance(value, float) and not isfinite(value):
                raise Declined("a sum that may be out of range")
            state: Any = accumulator(self._node, context)
            if known:
                state.add_part(value, known)
            extremes.append(state.result())
        return extremes


def ends_asked(query: Query) -> set[int] | None:
    """The columns whose least or greatest values are, beside the number of rows, all that a query asks of a table, and
    whose statistics have them; None: it asks for more."""
    if _source(query) is None or query.group or query.where is not None or query.ctes:
        return None
    attnums = set[int]()
    for node in aggregates(query):
        if node.filter is not None or node.order or node.distinct or node.kind != "n" or node.levelsup:
            return None
        if _name(node) == "count" and not node.args:
            continue
        arg = node.args[0] if _name(node) in _EXTREMES else None
        if not isinstance(arg, tree.Var) or arg.type not in EXACT or arg.attnum <= 0 or arg.levelsup:
            return None
        attnums.add(arg.attnum)
    return attnums


def _form(expr: Expr) -> Form:
    return form(expr.type, expr.typmod)


class _Groups:
    def __init__(self, session: Session, query: Query, context: Context) -> None:
        from pgrepl.expr.arrow.operations import columnar

        self._context = context
        program, inputs = _program(query, context), _inputs(query)
        if program is None:
            raise Declined("a condition that Arrow does not compute")
        self._keys = _keys(query)
        self._parts = []
        for node in aggregates(query):
            place = inputs.index(node.args[0]) if node.args else None
            self._parts.append(_Part(node, place, None if node.filter is None else inputs.index(node.filter)))
        self._compiled = [columnar(expr) for expr in inputs]
        wanted = {attnum for expr in inputs for attnum in var_attnums(expr)}
        self._table = TableColumns(session, query, context, program, wanted)
        self._wants_ends = ends_asked(query) is not None
        self._how: list[str] = []  # of each kept column

    def rows(self) -> Iterable[tuple[Any, ...]]:
        if not self._keys and not self._table.filters and not self._compiled:  # only count(*)
            return [(self._table.count(),) * len(self._parts)]
        try:
            groups = self._all()
        except pa.ArrowException as problem:
            raise Declined("an error in some row") from problem
        columns = [_form(key).from_array(groups[f"k{n}"]) for n, key in enumerate(self._keys)]
        kept = (groups[f"v{n}"] for n in count())
        columns += [part.results(kept, self._context) for part in self._parts]
        if self._wants_ends:  # a file gave two rows, or the statistics of all
            columns = [
                [self._table.count()] if part.place is None else column
                for part, column in zip(self._parts, columns, strict=True)
            ]
        return zip(*columns, strict=True) if columns else repeat((), groups.num_rows)

    def _all(self) -> pa.Table:
        """The groups of all rows."""
        known: list[pa.Table] = []
        waiting = 0
        rows, node = partial(self._table.portions, ends=self._wants_ends), self._table.node
        portions = rows if node is None else partial(node.run, rows, itemgetter(0))
        for size, columns in portions():
            groups = self._grouped(size, columns)
            known.append(groups)
            waiting += groups.num_rows
            if waiting > _LOT:
                known = [self._few(self._aggregated(pa.concat_tables(known)))]
                waiting = 0
        return self._few(self._aggregated(pa.concat_tables(known)))

    @staticmethod
    def _few(groups: pa.Table) -> pa.Table:
        if groups.num_rows > _MOST_GROUPS:
            raise Declined("too many groups")
        return groups

    def _grouped(self, size: int, columns: dict[int, Any]) -> pa.Table:
        inputs = []
        for program in self._compiled:
            value = program.run(columns)
            inputs.append(pa.repeat(value, size) if isinstance(value, pa.Scalar) else value)
        arrays = {f"k{n}": inputs[n] for n in range(len(self._keys))}  # keys are the first inputs
        self._how = []
        for part in self._parts:
            for values, how in part.columns(inputs, size):
                arrays[f"v{len(self._how)}"] = values
                self._how.append(how)
        return self._aggregated(pa.table(arrays))

    def _aggregated(self, rows: pa.Table) -> pa.Table:
        """The groups in the order of their first rows."""
        keys = [f"k{n}" for n in range(len(self._keys))]
        groups = rows.group_by(keys, use_threads=False).aggregate([(f"v{n}", how) for n, how in enumerate(self._how)])
        names = {f"v{n}_{how}": f"v{n}" for n, how in enumerate(self._how)}
        return groups.rename_columns([names.get(name, name) for name in groups.column_names])
