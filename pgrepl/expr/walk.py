"""Walking and rewriting typed trees.

`children` and `map_children` know every node's parts from its dataclass fields; everything else is built on them. A
subquery (`SubLink.query`, the queries in a Query's range table) is not a child: `walk_deep` goes down into those, and
counts the levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from operator import is_
from typing import Any, TypeVar, cast

from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query
from pgrepl.ground.frozen import replace
from pgrepl.sql.location import leftmost
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import builtin, oids

_PLAIN = frozenset({"type", "typmod", "collation", "location"})
_parts: dict[type, tuple[str, ...]] = {}


def _part_names(kind: type) -> tuple[str, ...]:
    """The fields of a node class that can hold expressions."""
    names = _parts.get(kind)
    if names is None:
        names = tuple(
            f.name
            for f in fields(kind)
            if f.name not in _PLAIN and ("Expr" in str(f.type) or "AggOrder" in str(f.type))
        )
        _parts[kind] = names
    return names


def _collect(part: Any, exprs: list[Expr]) -> None:
    if isinstance(part, Expr):
        exprs.append(part)
    elif isinstance(part, tuple):
        for item in part:
            _collect(item, exprs)
    elif isinstance(part, tree.AggOrder):
        exprs.append(part.expr)


def children(expr: Expr) -> list[Expr]:
    """The expressions directly inside this one, in the order PostgreSQL's expression_tree_walker sees them."""
    exprs: list[Expr] = []
    for name in _parts.get(type(expr)) or _part_names(type(expr)):
        part = getattr(expr, name)
        if isinstance(part, Expr):
            exprs.append(part)
        elif part:
            _collect(part, exprs)
    return exprs


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all expressions inside it, parents first; subqueries are not entered."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        if _part_names(type(node)):
            waiting += reversed(children(node))


_Part = TypeVar("_Part")
_Found = TypeVar("_Found")


def _mapped(part: _Part, function: Callable[[Expr], Expr]) -> _Part:
    if isinstance(part, Expr):
        return cast(_Part, function(part))
    if isinstance(part, tuple):
        items: list[Any] = []
        for item in part:  # no comprehension: an expression may be as deep as the stack allows
            items.append(function(item) if isinstance(item, Expr) else _mapped(item, function))
        return part if all(map(is_, items, part)) else cast(_Part, tuple(items))
    if isinstance(part, tree.AggOrder):
        expr = function(part.expr)
        return part if expr is part.expr else replace(part, expr=expr)
    return part


def map_children(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """The node with its children mapped; the node itself when none changed."""
    changed: dict[str, Any] = {}
    for name in _part_names(type(expr)):
        part = getattr(expr, name)
        mapped = _mapped(part, function)
        if mapped is not part:
            changed[name] = mapped
    return replace(expr, **changed) if changed else expr


def rewrite(expr: Expr, function: Callable[[Expr], Expr | None]) -> Expr:
    """Replace every node for which the function returns another, parents first; a replacement is not entered."""

    def visit(node: Expr) -> Expr:
        other = function(node)
        return map_children(node, visit) if other is None else other

    return visit(expr)


def lookup(known: Mapping[Expr, _Found]) -> Callable[[Expr], _Found | None]:
    """A function that looks an expression up among the known ones. One of a kind that is not among them is not looked
    up: that hashes all of it, and a rewriting asks for each part."""
    kinds = set(map(type, known))
    return lambda node: known.get(node) if type(node) in kinds else None


def substituted(expr: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """Put for each known expression what stands for it."""
    return rewrite(expr, lookup(known)) if known else expr


def first_location(exprs: tuple[Expr, ...] | list[Expr]) -> int:
    """The location of a list of expressions: the first known one."""
    for expr in exprs:
        location = location_of(expr)
        if location >= 0:
            return location
    return -1


def location_of(expr: Expr | None) -> int:
    """The location of an expression (exprLocation)."""
    if expr is None:
        return -1
    location: int = getattr(expr, "location", -1)
    if isinstance(
        expr, (tree.FuncExpr, tree.OpExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr, tree.BoolExpr)
    ):
        return leftmost(location, first_location(expr.args))
    if isinstance(
        expr,
        (
            tree.NamedArg,
            tree.RelabelType,
            tree.CoerceViaIO,
            tree.ArrayCoerceExpr,
            tree.ConvertRowtypeExpr,
            tree.CoerceToDomain,
            tree.NullTest,
            tree.BooleanTest,
        ),
    ):
        return leftmost(location, location_of(expr.arg))
    if isinstance(expr, tree.SubLink):
        return leftmost(location_of(expr.test), location)
    if isinstance(expr, (tree.FieldSelect, tree.CollateExpr)):
        return location_of(expr.arg)
    if isinstance(expr, tree.SubscriptingRef):
        return location_of(expr.container)
    if isinstance(expr, tree.RowCompareExpr):
        return first_location(expr.left)
    return location


def query_parts(query: Query, *, joins: bool = True) -> Iterator[Expr | Query]:
    """The expressions of a query and the queries one level down in its WITH list and range table, in the order
    PostgreSQL's query_tree_walker sees them. `joins`: with the columns of joins, which only name others."""
    for target in query.targets:
        yield target.expr
    for item in query.from_:
        yield from _join_quals(item)
    yield from (part for part in (query.where, query.having, query.offset, query.limit) if part is not None)
    for window in query.windows:
        yield from (offset for offset in (window.start_offset, window.end_offset) if offset is not None)
    for cte in query.ctes:
        yield cte.query
    for rte in query.rtable:
        if rte.sample is not None:
            yield from rte.sample.args
            if rte.sample.repeatable is not None:
                yield rte.sample.repeatable
        if rte.subquery is not None:
            yield rte.subquery
        if joins:
            yield from (var for var in rte.join_vars if var is not None)
        yield from rte.functions
        for row in rte.values:
            yield from row


def varnos(item: tree.RangeRef | tree.Join) -> Iterator[int]:
    """The relations of an item of FROM."""
    if isinstance(item, tree.RangeRef):
        yield item.varno
    else:
        yield from varnos(item.left)
        yield from varnos(item.right)


def _join_quals(item: tree.RangeRef | tree.Join) -> Iterator[Expr]:
    if isinstance(item, tree.Join):
        yield from _join_quals(item.left)
        yield from _join_quals(item.right)
        if item.quals is not None:
            yield item.quals


def query_exprs(query: Query, *, joins: bool = True) -> Iterator[Expr]:
    """The expressions of the query itself, without the subqueries in its range table and WITH list."""
    return (part for part in query_parts(query, joins=joins) if isinstance(part, Expr))


def subqueries(query: Query) -> Iterator[Query]:
    """The queries one level down in the WITH list and the range table."""
    return (part for part in query_parts(query) if isinstance(part, Query))


def walk_deep(root: Expr | Query, level: int = 0, *, joins: bool = True) -> Iterator[tuple[Expr, int]]:
    """All expressions, also those of subqueries, each with the number of query levels below the root."""
    waiting: list[tuple[Expr | Query, int]] = [(root, level)]
    while waiting:
        node, at = waiting.pop()
        if isinstance(node, Query):
            parts = [(part, at + 1 if isinstance(part, Query) else at) for part in query_parts(node, joins=joins)]
            waiting += reversed(parts)
            continue
        yield node, at
        if _parts.get(type(node)) == ():
            continue
        if isinstance(node, tree.SubLink) and node.query is not None:
            waiting.append((node.query, at + 1))
        waiting += [(child, at) for child in reversed(children(node))]


def map_parts(query: Query, expression: Callable[[Expr], Expr], nested: Callable[[Query], Query]) -> Query:
    """The query with its expressions mapped, and the queries one level down in its WITH list and range table mapped.
    The functions get whole expressions and descend themselves. Parts in which nothing changed stay."""

    def optional(expr: Expr | None) -> Expr | None:
        return expression(expr) if expr is not None else None

    def join(item: tree.RangeRef | tree.Join) -> tree.RangeRef | tree.Join:
        if isinstance(item, tree.RangeRef):
            return item
        return _with(item, left=join(item.left), right=join(item.right), quals=optional(item.quals))

    def sample(method: tree.TableSample) -> tree.TableSample:
        return _with(method, args=_each(method.args, expression), repeatable=optional(method.repeatable))

    def entry(rte: tree.Rte) -> tree.Rte:
        if rte.kind is tree.RteKind.RELATION and rte.sample is None:
            return rte
        return _with(
            rte,
            subquery=nested(rte.subquery) if rte.subquery is not None else None,
            functions=_each(rte.functions, expression),
            values=_each(rte.values, lambda row: _each(row, expression)),
            join_vars=_each(rte.join_vars, optional),
            sample=sample(rte.sample) if rte.sample is not None else None,
        )

    def window(clause: tree.Window) -> tree.Window:
        return _with(clause, start_offset=optional(clause.start_offset), end_offset=optional(clause.end_offset))

    return _with(
        query,
        targets=_each(query.targets, lambda target: _with(target, expr=expression(target.expr))),
        rtable=_each(query.rtable, entry),
        from_=_each(query.from_, join),
        where=optional(query.where),
        having=optional(query.having),
        limit=optional(query.limit),
        offset=optional(query.offset),
        windows=_each(query.windows, window),
        ctes=_each(query.ctes, lambda cte: _with(cte, query=nested(cte.query))),
    )


def _with(node: _Part, **parts: Any) -> _Part:
    """The node with other parts; the node itself if they are its own."""
    changed = {name: part for name, part in parts.items() if part is not getattr(node, name)}
    return replace(node, **changed) if changed else node


def _each(items: tuple[_Found, ...], function: Callable[[_Found], _Found]) -> tuple[_Found, ...]:
    if not items:
        return items
    mapped = tuple([function(item) for item in items])
    return items if all(map(is_, mapped, items)) else mapped


def with_levels(expr: Expr, by: int) -> Expr:
    """The expression moved down by `by` query levels, or up if negative (IncrementVarSublevelsUp)."""
    from_level = max(0, -by)

    def moved(expr: Expr, depth: int) -> Expr:
        def visit(node: Expr) -> Expr:
            node = map_children(node, visit)
            if isinstance(node, (tree.Var, tree.Aggref, tree.GroupingFunc)) and node.levelsup >= depth + from_level:
                return replace(node, levelsup=node.levelsup + by)
            if isinstance(node, tree.SubLink) and node.query is not None:
                return replace(node, query=moved_query(node.query, depth + 1))
            return node

        return visit(expr)

    def moved_query(query: Query, depth: int) -> Query:
        changed = map_parts(query, lambda part: moved(part, depth), lambda nested: moved_query(nested, depth + 1))
        entries = tuple(
            replace(entry, cte_levelsup=entry.cte_levelsup + by)
            if entry.kind is tree.RteKind.CTE and entry.cte_levelsup >= depth + from_level
            else entry
            for entry in changed.rtable
        )
        return replace(changed, rtable=entries)

    return moved(expr, 0) if by else expr


def has_vars(expr: Expr) -> bool:
    """Whether the expression uses a column of its own query level (contain_vars_of_level 0)."""
    return any(isinstance(node, tree.Var) and node.levelsup == level for node, level in walk_deep(expr))


def var_attnums(expr: Expr, varno: int = 1) -> frozenset[int]:
    """The columns of one relation that an expression uses (pull_varattnos): 0 is the whole row."""
    return frozenset(
        node.attnum
        for node, level in walk_deep(expr)
        if isinstance(node, tree.Var) and node.varno == varno and node.levelsup == level
    )


def without_implicit_casts(expr: Expr) -> Expr:
    """The expression under its implicit casts (strip_implicit_coercions)."""
    while True:
        if isinstance(expr, tree.FuncExpr) and expr.form is CoercionForm.IMPLICIT_CAST:
            expr = expr.args[0]
        elif isinstance(expr, _CASTS) and expr.form is CoercionForm.IMPLICIT_CAST:
            assert expr.arg is not None
            expr = expr.arg
        else:
            return expr


_CASTS = (tree.RelabelType, tree.CoerceViaIO, tree.ArrayCoerceExpr, tree.ConvertRowtypeExpr, tree.CoerceToDomain)


def returns_set(expr: Expr) -> bool:
    """Whether an expression returns a set (expression_returns_set)."""
    return any(isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset for node in walk(expr))


def functions_used(expr: Expr) -> Iterator[int]:
    """The functions that a node itself calls, as check_functions_in_node finds them."""
    if isinstance(expr, (tree.FuncExpr, tree.Aggref, tree.WindowFunc)):
        yield expr.func
    elif isinstance(expr, (tree.OpExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr)):
        yield expr.func or _operator_function(expr.op)
    elif isinstance(expr, tree.RowCompareExpr):
        for op in expr.ops:
            yield _operator_function(op)
    elif isinstance(expr, tree.CoerceViaIO) and expr.arg is not None:
        yield from _io_functions(expr.arg.type, expr.type)


def _operator_function(oid: int) -> int:
    operator = builtin.operator_by_oid(oid)
    return operator.code if operator is not None else 0


def _io_functions(source: int, target: int) -> Iterator[int]:
    for oid, name in ((target, "input"), (source, "output")):
        row = builtin.type_by_oid(oid) or builtin.type_by_oid(2249)  # a row type of a user: record_in, record_out
        procs = builtin.procs_by_name(getattr(row, name))
        if procs:
            yield procs[0].oid


def _volatility(oid: int, expr: Expr) -> str:
    proc = builtin.proc_by_oid(oid)
    return proc.volatile if proc is not None else volatility_of_user(expr) or "i"


def volatility_of_user(expr: Expr) -> str:
    """The volatility of the user's function or operator that a node itself calls; empty: it calls none."""
    return getattr(expr, "volatile", "")


def volatilities(expr: Expr) -> Iterator[str]:
    """The volatility of each function that a node itself calls."""
    return (_volatility(oid, expr) for oid in functions_used(expr))


def calls_routines(query: Query) -> bool:
    """Whether the query, or one inside it, calls a user's function."""
    return any(volatility_of_user(node) for node, _ in walk_deep(query, joins=False))


def calls_volatile_routines(query: Query) -> bool:
    """Whether one of these functions may write."""
    return any(volatility_of_user(node) == "v" for node, _ in walk_deep(query, joins=False))


# volatile functions that do nothing
_HARMLESS = frozenset(
    (
        "random", "random_normal", "setseed", "clock_timestamp", "timeofday", "gen_random_uuid", "pg_sleep",
        "pg_sleep_for", "pg_sleep_until", "uuidv4", "uuidv7",
    )
)  # fmt: skip


def has_effects(query: Query) -> bool:
    """Whether the query, or one inside it, calls functions that may do something: users', nextval(), pg_notify()."""
    return any(isinstance(node, tree.NextValueExpr) or _has_effects(node) for node, _ in walk_deep(query, joins=False))


def _has_effects(node: Expr) -> bool:
    if volatility_of_user(node):
        return True
    procs = (builtin.proc_by_oid(oid) for oid in functions_used(node))
    return any(proc is not None and proc.volatile == "v" and proc.name not in _HARMLESS for proc in procs)


# functions in SQL that turn their argument of any type into text: which one it is
_TEXT_OF_ARGUMENT = {1285: 0, 1290: 0, 2003: 1, 2004: 0}  # quote_literal, quote_nullable, textanycat, anytextcat


def contains_mutable_functions(expr: Expr) -> bool:
    """Whether a function is not immutable, with SQL functions inlined first
    (contain_mutable_functions_after_planning)."""
    for node, _ in walk_deep(expr):
        if isinstance(node, (tree.SQLValueFunction, tree.NextValueExpr)):
            return True
        if isinstance(node, tree.SqlJson):
            from pgrepl.expr.volatility import is_mutable  # knows paths, which few expressions have

            if is_mutable(node):
                return True
        if any(_volatility(oid, node) != "i" for oid in _inlined(node)):
            return True
    return False


def is_volatile(expr: Expr | Query) -> bool:
    """Whether an expression has a volatile function (contain_volatile_functions)."""
    return any(calls_volatile(node) for node, _ in walk_deep(expr, joins=False))


def calls_volatile(node: Expr) -> bool:
    """Whether a node itself calls a volatile function."""
    return isinstance(node, tree.NextValueExpr) or "v" in volatilities(node)


def _inlined(expr: Expr) -> Iterator[int]:
    for oid in functions_used(expr):
        if oid in _TEXT_OF_ARGUMENT and isinstance(expr, (tree.FuncExpr, tree.OpExpr)):
            yield from _io_functions(expr.args[_TEXT_OF_ARGUMENT[oid]].type, oids.TEXT)
        else:
            yield oid


def map_attnums(expr: Expr, numbers: dict[int, int] | Callable[[int], int], varno: int = 1) -> Expr:
    """The expression over a relation whose columns have other attnums (map_variable_attnos). System columns and the
    whole row (0) stay."""
    number = numbers.__getitem__ if isinstance(numbers, dict) else numbers

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, tree.Var) and node.varno == varno and node.levelsup == 0 and node.attnum > 0:
            attnum = number(node.attnum)
            return replace(node, attnum=attnum, attnum_written=attnum if node.varno_written else 0)
        return None

    return rewrite(expr, visit)
