"""UNION, INTERSECT and EXCEPT, subqueries in expressions, WITH RECURSIVE; rows into Spark and out of it.

Where Spark's equality is not PostgreSQL's, rows are grouped by keys and counted. Spark's IN is never NULL, so it
stands in conditions alone. A recursion fetches its rows between rounds; over small tables it is Declined. Large
results come through files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.engine.choice import choose
from pgrepl.engine.result_spark import fetched
from pgrepl.engine.scan_spark import arrow_frame, storage_array
from pgrepl.engine.spark import pg_errors
from pgrepl.expr import exchange as expressions
from pgrepl.expr import tree
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.sorting import check_recursive_union
from pgrepl.expr.exchange import Sql
from pgrepl.expr.exchange.sql import form_type
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Column, Cte, Expr, Query, RangeRef, SetOperation
from pgrepl.expr.walk import walk_deep
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import pa
from pgrepl.lake.read.data_file import RowPlace
from pgrepl.query.engine_choice import extent_of
from pgrepl.query.local.env import Env
from pgrepl.query.local.select import compile_query
from pgrepl.query.local.sublinks import array_of_rows
from pgrepl.query.shape import depends, hashable_equalities, sees_outside
from pgrepl.query.spark.level import Level, Text, WithQuery
from pgrepl.sql.nodes import BoolOp, CoercionForm, SetOp, SubLinkType
from pgrepl.types import oids
from pgrepl.types.lake.forms import form
from pgrepl.types.values import row_hash_form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def set_operation(level: Level) -> Text:
    assert level.query.set_operation is not None
    return _part(level, level.query.set_operation)


def _part(level: Level, part: SetOperation | RangeRef) -> Text:
    if isinstance(part, RangeRef):
        nested = level.query.rtable[part.varno - 1].subquery
        assert nested is not None
        return level.inside(nested).text()
    left, right = side(level, part.left, part.columns), side(level, part.right, part.columns)
    types = tuple(form_type(c.type, c.typmod) for c in part.columns)
    if not part.columns or all(_is_plain(level, column) for column in part.columns):
        word = f"{_WORDS[part.op]}{' ALL' if part.all else ''}"
        return Text(f"({left}) {word} ({right})", types)
    return Text(_counted(level, part, left, right), types)


def side(level: Level, part: SetOperation | RangeRef, columns: tuple[Column, ...]) -> str:
    """One side of an operation, with these columns."""
    return _as_columns(level, _part(level, part), _columns(level, part), columns)


_WORDS = {SetOp.UNION: "UNION", SetOp.INTERSECT: "INTERSECT", SetOp.EXCEPT: "EXCEPT"}


def _columns(level: Level, part: SetOperation | RangeRef) -> tuple[Column, ...]:
    if isinstance(part, SetOperation):
        return part.columns
    nested = level.query.rtable[part.varno - 1].subquery
    assert nested is not None
    return nested.columns


def _as_columns(level: Level, text: Text, given: tuple[Column, ...], wanted: tuple[Column, ...]) -> str:
    """One side with the lake forms of the operation's columns: an integer beside a numeric becomes one."""
    alias = level.job.name("x")
    if not wanted:
        return text.text
    compiler = expressions.over_columns(text.columns(alias), level.job.statement)
    scope = Scope(level.job.session)
    items = []
    for number, (own, column) in enumerate(zip(given, wanted, strict=True), 1):
        expr: tree.Expr = tree.Var(own.type, typmod=own.typmod, collation=own.collation, attnum=number)
        if own.type != column.type:
            form = CoercionForm.IMPLICIT_CAST
            cast = coerce_to_target(scope, expr, own.type, column.type, column.typmod, CastContext.IMPLICIT, form, -1)
            expr = expr if cast is None else cast
        value = compiler.value(expr)
        items.append(f"{expressions.to_form(value, column.type, column.typmod)} AS c{number}")
    return f"SELECT {', '.join(items)} FROM ({text.text}) AS {alias}"


def _key(level: Level, column: Column, text: str) -> str:
    holder = tree.Var(column.type, typmod=column.typmod, collation=column.collation, attnum=1)
    columns = {1: Sql(text, form_type(column.type, column.typmod))}
    return expressions.equal_key(holder, expressions.over_columns(columns, level.job.statement))


def _is_plain(level: Level, column: Column) -> bool:
    return _key(level, column, "c") == "c"


def _counted(level: Level, part: SetOperation, left: str, right: str) -> str:
    if part.op is SetOp.UNION and part.all:
        return f"({left}) UNION ALL ({right})"
    alias = level.job.name("y")
    keys = ", ".join(_key(level, column, f"{alias}.c{n}") for n, column in enumerate(part.columns, 1))
    names = [f"c{n}" for n in range(1, len(part.columns) + 1)]
    both = f"(SELECT *, 1 AS l FROM ({left})) UNION ALL (SELECT *, 0 AS l FROM ({right}))"
    first = ", ".join(
        f"coalesce(any_value({alias}.{n}) FILTER (WHERE {alias}.l = 1), any_value({alias}.{n})) AS {n}" for n in names
    )
    counted = f"SELECT {first}, sum({alias}.l) AS m, sum(1 - {alias}.l) AS n FROM ({both}) AS {alias} GROUP BY {keys}"
    listed = ", ".join(f"z.{name}" for name in names)
    if part.op is SetOp.UNION:
        return f"SELECT {listed} FROM ({counted}) AS z"
    if not part.all:
        test = "z.n > 0" if part.op is SetOp.INTERSECT else "z.n = 0"
        return f"SELECT {listed} FROM ({counted}) AS z WHERE z.m > 0 AND {test}"
    number = "least(z.m, z.n)" if part.op is SetOp.INTERSECT else "z.m - z.n"
    return (
        f"SELECT {listed} FROM ({counted}) AS z LATERAL VIEW explode(sequence(1L, {number})) v AS i WHERE {number} > 0"
    )


# --- sublinks ---------------------------------------------------------------------------------------------------------


def condition(level: Level, expr: Expr) -> str:
    """A condition for WHERE, in which NULL counts as false."""
    if isinstance(expr, tree.BoolExpr):
        if expr.op is not BoolOp.NOT:
            word = " AND " if expr.op is BoolOp.AND else " OR "
            return "(" + word.join(condition(level, arg) for arg in expr.args) + ")"
        (arg,) = expr.args
        if isinstance(arg, tree.SubLink):
            membership = _in(level, arg)
            return f"(NOT {membership})" if membership is not None else level.form(expr)
    if isinstance(expr, tree.SubLink):
        membership = _in(level, expr)
        if membership is not None:
            return membership
    return level.form(expr)


def sublink(level: Level, link: tree.SubLink) -> Sql:
    """A subquery as a value."""
    if link.query is None:
        raise Declined("an empty subquery")
    if link.kind is SubLinkType.EXISTS:
        return Sql(f"EXISTS ({_text(level, link).text})", "BOOLEAN")
    if link.kind is SubLinkType.EXPR:
        text = _text(level, link)
        return Sql(f"({text.text})", text.types[0])
    if link.kind is SubLinkType.ARRAY:
        return _array(level, link)
    if link.kind in (SubLinkType.ANY, SubLinkType.ALL):
        return _quantified(level, link)
    raise Declined("a comparison of rows with a subquery")


def _text(level: Level, link: tree.SubLink) -> Text:
    assert link.query is not None
    return level.inside(link.query).text()


def _array(level: Level, link: tree.SubLink) -> Sql:
    """ARRAY(SELECT …): the order of its rows is known only once it has been executed."""
    assert link.query is not None
    if depends(link.query):
        raise Declined("an array of a subquery that depends on the row")
    if level.job.apart is None:
        return level.compiler.value(tree.Const(link.type))
    value = array_of_rows(link, level.job.apart(level.job.session, link.query))
    return level.compiler.value(tree.Const(link.type, value=value))


def _in(level: Level, link: tree.SubLink) -> str | None:
    """`x IN (…)` for a condition, if the test is a plain equality."""
    if link.kind is not SubLinkType.ANY or link.test is None:
        return None
    pairs = _equalities(link.test)
    if pairs is None:
        return None
    text = _text(level, link)
    alias = level.job.name("q")
    compiler = _with_columns(level, text, alias)
    own = [level.key(expr) for expr, _ in pairs]
    other = [expressions.equal_key(level.flat(expr), compiler) for _, expr in pairs]
    columns = ", ".join(f"{key} AS k{n}" for n, key in enumerate(other, 1))
    left = own[0] if len(own) == 1 else f"({', '.join(own)})"
    return f"({left} IN (SELECT {columns} FROM ({text.text}) AS {alias}))"


def _equalities(test: Expr) -> list[tuple[Expr, Expr]] | None:
    """The test's pairs of operands, if Spark compares them all as they are."""
    pairs = hashable_equalities(test)
    for own, other in pairs or ():
        if _has_params(own) or (own.type != other.type and not {own.type, other.type} <= oids.INTEGERS):
            return None
    return pairs


def _has_params(expr: Expr) -> bool:
    return any(isinstance(node, tree.Param) for node, _ in walk_deep(expr))


def _quantified(level: Level, link: tree.SubLink) -> Sql:
    """op ANY is true if the test is true for some row, else NULL if it is NULL for some, else false; op ALL is its
    mirror image."""
    assert link.test is not None
    text = _text(level, link)
    alias = level.job.name("q")
    compiler = _with_columns(level, text, alias)
    test = compiler.text(level.flat(link.test))
    some = f"EXISTS (SELECT 1 FROM ({text.text}) AS {alias} WHERE "
    pairs = _equalities(link.test)
    if link.kind is SubLinkType.ANY and pairs is not None and len(pairs) == 1:
        ((own, other),) = pairs
        mine = level.form(own)
        column = compiler.text(level.flat(other))
        unknown = f"({mine} IS NULL AND {some}true)) OR {some}{column} IS NULL)"
    else:
        unknown = f"{some}({test}) IS NULL)"
    if link.kind is SubLinkType.ANY:
        return Sql(f"CASE WHEN {some}{test}) THEN true WHEN {unknown} THEN NULL ELSE false END", "BOOLEAN")
    return Sql(f"CASE WHEN {some}NOT {test}) THEN false WHEN {unknown} THEN NULL ELSE true END", "BOOLEAN")


def _with_columns(level: Level, text: Text, alias: str) -> expressions.Compiler:
    """The compiler of expressions over this level and a subquery's columns."""
    columns = text.columns(alias)
    return expressions.Compiler(
        lambda node: columns[node.number] if isinstance(node, tree.Param) else level.names(node), level.job.statement
    )


# --- fetch ------------------------------------------------------------------------------------------------------------


TOO_LARGE = "the result is too large to be fetched"
Row = tuple[Any, ...]


def batches(frame: DataFrame, columns: Sequence[Column], data_path: str, *, whole: bool = False) -> Iterator[list[Row]]:
    """The rows of a frame whose columns c1 … cn have the Spark forms of these types."""
    readers = [_reader(column) for column in columns]
    for batch in _record_batches(frame, data_path, whole):
        if batch.num_rows:
            yield _rows(batch, readers)


def _record_batches(frame: DataFrame, data_path: str, whole: bool) -> Iterator[pa.RecordBatch]:
    pieces = _in_one_piece(frame) if whole else None
    return fetched(frame, data_path) if pieces is None else iter(pieces)


def _in_one_piece(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """The whole result; None: it is larger than spark.driver.maxResultSize."""
    try:
        with pg_errors():
            batches: list[pa.RecordBatch] = frame.toArrow().to_batches()
            return batches
    except PgError as error:
        if error.message != TOO_LARGE:
            raise
        return None


def _reader(column: Column) -> Callable[[Any], list[Any]]:
    read = form(column.type, column.typmod).from_array
    return lambda array: _places(array) if _is_place(array) else read(array)


def _is_place(array: Any) -> bool:
    return pa.types.is_struct(array.type) and [field.name for field in array.type] == ["file", "pos", "row"]


def _places(array: Any) -> list[Any]:
    return [None if place is None else RowPlace(**place) for place in array.to_pylist()]


def _rows(batch: pa.RecordBatch, readers: Sequence[Callable[[Any], list[Any]]]) -> list[Row]:
    if not readers:
        return [()] * batch.num_rows
    return list(zip(*[read(batch.column(n)) for n, read in enumerate(readers)], strict=True))


# --- shipped ----------------------------------------------------------------------------------------------------------


def ship(columns: Sequence[Column], numbers: Sequence[int], rows: Iterable[Sequence[Any]]) -> Callable[[], DataFrame]:
    """Rows of Python values as a frame: the columns of these numbers, counted from 1, as c{number}. The rows are read
    now; the frame is made when Spark has started."""
    forms = [form(columns[number - 1].type, columns[number - 1].typmod) for number in numbers]
    held = list(rows)
    arrays = [
        storage_array(kind.to_array([row[number - 1] for row in held]))
        for number, kind in zip(numbers, forms, strict=True)
    ]
    names = [f"c{number}" for number in numbers]
    types = [kind.spark for kind in forms]
    if not names:  # the number of rows still matters
        arrays, names, types = [pa.nulls(len(held), pa.int32())], ["c0"], ["INT"]
    table = pa.table(arrays, names=names)

    def make() -> DataFrame:
        return arrow_frame(table, types)

    return make


def played(query: Query, context: Context) -> list[tuple[Any, ...]]:
    """The rows of a query without user tables."""
    return list(compile_query(query, context)(Env([], None)))


# --- recursive --------------------------------------------------------------------------------------------------------


_SMALL = 500_000  # a recursive query that reads fewer rows is executed in this process


def recursive_query(level: Level, cte: Cte) -> WithQuery:
    job, operation = level.job, cte.query.set_operation
    _check(level, cte)
    assert isinstance(operation, SetOperation)
    check_recursive_union(job.session, operation)
    columns = operation.columns
    types = tuple(form_type(c.type, c.typmod) for c in columns)
    working = job.frame(ship(columns, _numbers(columns), ()))
    inner = level.inside(cte.query)
    first = side(inner, operation.left, columns)
    level.ctes[cte.name] = WithQuery(working, types)
    again = side(inner, operation.right, columns)
    every: list[Row] = []
    if job.apart is not None:
        seen: set[Any] | None = None if operation.all else set()
        fresh = _fresh(_recursive_rows(level, first, columns), columns, seen)
        while fresh:
            every += fresh
            job.replace_frame(working, ship(columns, _numbers(columns), fresh))
            fresh = _fresh(_recursive_rows(level, again, columns), columns, seen)
    return WithQuery(job.frame(ship(columns, _numbers(columns), every)), types)


def _check(level: Level, cte: Cte) -> None:
    operation = cte.query.set_operation
    if cte.search is not None or cte.cycle is not None or cte.query.ctes:
        raise Declined("SEARCH, CYCLE or WITH in a recursive query")
    if not isinstance(operation, SetOperation) or sees_outside(cte.query):
        raise Declined("a recursive query that depends on the row")
    around: Level | None = level
    while around is not None:
        if around.query.limit is not None:
            raise Declined("a recursive query under a LIMIT")
        around = around.parent
    session, context = level.job.session, level.job.context
    if not choose(session, lambda: extent_of(session, cte.query, context), limit=_SMALL).on_spark:
        raise Declined("a recursive query over few rows")


def _numbers(columns: Sequence[Column]) -> list[int]:
    return list(range(1, len(columns) + 1))


def _recursive_rows(level: Level, text: str, columns: Sequence[Column]) -> Iterator[Row]:
    frame = level.job.run(level.job.with_list() + text)
    for batch in batches(frame, columns, level.job.session.catalog.data_path, whole=True):
        yield from batch


def _fresh(rows: Iterable[Row], columns: Sequence[Column], seen: set[Any] | None) -> list[Row]:
    """The new rows; all of them in UNION ALL."""
    if seen is None:
        return list(rows)
    form = row_hash_form(column.type for column in columns)
    fresh = []
    for row in rows:
        key = form(row)
        if key not in seen:
            seen.add(key)
            fresh.append(row)
    return fresh
