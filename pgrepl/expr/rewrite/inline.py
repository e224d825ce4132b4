"""Functions in SQL as parts of the statements that call them (inline_function and inline_set_returning_function in
clauses.c): their expressions and queries then take part in the choice of files, columns and engine.

    SELECT half(a) FROM t          half: RETURN $1 / 2           →  SELECT a / 2 FROM t
    SELECT * FROM big(5)           big: SELECT * FROM t WHERE a > $1
                                                                 →  SELECT * FROM (SELECT * FROM t WHERE a > 5)

A statement names a function's parameters $1, name, function.name, name.field (`SqlVariables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_execute, has_column_privilege, has_table_privilege, permission_denied
from pgrepl.catalog.facts.namespace import SQL_LANGUAGE, routine_row
from pgrepl.catalog.facts.relation import relation
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.analyse.calls import project
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import Conflict
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import body_of
from pgrepl.expr.evaluate.compiler import arguments
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.folding import folded
from pgrepl.expr.tree import Column, Const, Expr, FuncExpr, Query, RangeRef, Rte, RteKind, Target, Var, Variable
from pgrepl.expr.walk import (
    contains_mutable_functions,
    functions_used,
    is_volatile,
    map_children,
    map_parts,
    walk,
    walk_deep,
    with_levels,
)
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import BoolOp, CoercionForm, DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt
from pgrepl.sql.parser import parse
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc


_CHEAP = 10  # the cost of an argument that may be computed several times, in calls of simple functions
# not strict, whatever functions are in them
_NOT_STRICT = (
    tree.SubLink, tree.CaseExpr, tree.ArrayExpr, tree.RowExpr, tree.RowCompareExpr, tree.CoalesceExpr, tree.MinMaxExpr,
    tree.NullTest, tree.BooleanTest, tree.FieldStore, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr,
)  # fmt: skip


def inlined(session: Session, call: FuncExpr, active: frozenset[int]) -> Expr | None:
    """The expression that a call of a user's function stands for; None: the function is to be called. `active`: the
    functions whose expressions this call stands in."""
    if call.func in active or call.retset or call.input_collation not in (0, oids.DEFAULT_COLLATION):
        return None
    routine = routine_row(session, call.func)
    if routine is None:
        return None
    args = arguments(call, Context(session))
    if routine.provolatile == "i" and all(isinstance(arg, Const) for arg in args) and not lookup.is_row(call.type):
        value = evaluate(replace(call, args=tuple(args)), (), Context(session))
        return Const(call.type, typmod=call.typmod, collation=call.collation, value=value)
    if not _may_inline(session, routine) or routine.prokind != "f" or routine.prorettype == oids.RECORD:
        return None
    expr = _expression(session, routine, [arg.type for arg in args], call.type)
    if expr is None or not _arguments_fit(session, routine, expr, args):
        return None
    return _put(expr, args, 0)


def inlined_set(session: Session, entry: Rte) -> Query | None:
    """The query that a function in FROM stands for; None: the function is to be called."""
    call = entry.functions[0]
    if len(entry.functions) != 1 or entry.ordinality or not isinstance(call, FuncExpr) or not call.volatile:
        return None
    routine = routine_row(session, call.func)
    if routine is None or not call.retset or not _may_inline(session, routine):
        return None
    if routine.provolatile == "v" or routine.proisstrict or call.type == oids.VOID:
        return None
    args = arguments(call, Context(session))
    if any(is_volatile(node) or isinstance(node, tree.SubLink) for arg in args for node in walk(arg)):
        return None
    query = _query(session, routine, [arg.type for arg in args], call.type)
    if query is None or query.row_marks or not _may_read(session, query):
        return None
    fitted = _fitted(session, query, entry.columns)
    if fitted is None:
        return None

    def put(inner: Query, depth: int) -> Query:
        return map_parts(inner, lambda expr: _put(expr, args, depth), lambda nested: put(nested, depth + 1))

    return put(fitted, 1)


def _may_inline(session: Session, routine: pg_proc) -> bool:
    if routine.prolang != SQL_LANGUAGE or routine.prosecdef or routine.proconfig is not None:
        return False
    try:
        check_execute(session, routine)
    except PgError:
        return False  # the call raises it
    return True


def _may_read(session: Session, query: Query) -> bool:
    """Whether the role may read all tables of the query as a whole; otherwise the call finds out what it may read."""
    entries = list(query.rtable) + [
        entry
        for node, _ in walk_deep(query)
        if isinstance(node, tree.SubLink) and node.query is not None
        for entry in node.query.rtable
    ]
    for entry in entries:
        if entry.subquery is not None and not _may_read(session, entry.subquery):
            return False
        if entry.kind is RteKind.RELATION:
            rel = relation(session, entry.relid)
            if not has_table_privilege(session, rel, "SELECT"):
                if not any(has_column_privilege(session, rel, a.num, "SELECT") for a in rel.columns):
                    raise permission_denied(rel)
                return False
    return all(_may_read(session, cte.query) for cte in query.ctes)


# --- the body -------------------------------------------------------------------------------------------------------


def _query(session: Session, routine: pg_proc, argtypes: Sequence[int], result: int) -> Query | None:
    """The analysed query of a body that is one SELECT; None: it is something else."""
    path = session.settings.get("search_path")
    key = ("inlined", routine.oid, tuple(argtypes), result, path, session.role)
    if key not in session.derived:
        session.derived[key] = _analysed(session, routine, argtypes)
    query: Query | None = session.derived[key]
    return query


def _analysed(session: Session, routine: pg_proc, argtypes: Sequence[int]) -> Query | None:
    if routine.prosqlbody is not None:
        body = body_of(session, routine.prosqlbody)
        return body[0] if len(body) == 1 and isinstance(body[0], Query) else None
    names = input_names(routine.proargnames, routine.proargmodes, routine.pronargs)
    variables = SqlVariables(session, routine.proname, names, argtypes)
    try:
        statements = parse(routine.prosrc, session.report, session.settings.string_rules)
        if len(statements) != 1:
            return None
        stmt = statements[0].stmt
        with analysing(session, variables):
            if isinstance(stmt, (InsertStmt, UpdateStmt, DeleteStmt, MergeStmt)):
                analyze_modifying(session, stmt)  # what is wrong with it is told as PostgreSQL does
            if not isinstance(stmt, SelectStmt) or stmt.into is not None or stmt.locking:
                return None
            query = analyze_query(session, stmt)
    except PgError as error:
        raise error.inside(routine.prosrc).with_context(f'SQL function "{routine.proname}" during inlining') from None
    return None if tree.has_modifying_cte(query.ctes) else query


def _expression(session: Session, routine: pg_proc, argtypes: Sequence[int], result: int) -> Expr | None:
    """The expression of a body that is SELECT of one, and of the result's type."""
    query = _query(session, routine, argtypes, result)
    if query is None or len(query.targets) != 1 or query != Query(query.targets):
        return None
    target = query.targets[0].expr
    if any(isinstance(node, tree.SubLink) for node in walk(target)):
        return None
    expr = _cast(session, target, result, -1)
    if expr is None:
        declared, actual = lookup.type_text(session, routine.prorettype), lookup.type_text(session, target.type)
        raise PgError(
            "42P13",
            f"return type mismatch in function declared to return {declared}",
            detail=f"Actual return type is {actual}.",
            context=f'SQL function "{routine.proname}" during inlining',
        )
    if expr.type != result:
        return None
    if routine.provolatile == "i" and contains_mutable_functions(expr):
        return None
    if routine.provolatile == "s" and is_volatile(expr):
        return None
    return expr


def _cast(session: Session, expr: Expr, target: int, typmod: int) -> Expr | None:
    cast = coerce_to_target(
        Scope(session), expr, expr.type, target, typmod, CastContext.ASSIGNMENT, CoercionForm.IMPLICIT_CAST, -1
    )
    return None if cast is None else cast if cast is expr else assign_collations(cast)


def _fitted(session: Session, query: Query, columns: Sequence[Column]) -> Query | None:
    """The query with the types of the columns that the function is declared to return."""
    given = query.columns
    if len(given) != len(columns) or any(column.dropped for column in columns):
        return None
    pairs = list(zip(given, columns, strict=True))
    if all(one.type == other.type and (one.typmod == other.typmod or other.typmod == -1) for one, other in pairs):
        return query
    targets = []
    for number, (one, other) in enumerate(pairs, 1):
        var = Var(one.type, typmod=one.typmod, collation=one.collation, attnum=number)
        expr = _cast(session, var, other.type, other.typmod)
        if expr is None:
            return None
        targets.append(Target(expr, other.name, number))
    entry = Rte(RteKind.SUBQUERY, "*FUNCTION*", given, alias="*FUNCTION*", subquery=query)
    return Query(tuple(targets), (entry,), (RangeRef(1),))


# --- the arguments --------------------------------------------------------------------------------------------------


def _put(expr: Expr, args: Sequence[Expr], depth: int) -> Expr:
    """The expression with the arguments in the places of the parameters; it stands `depth` query levels below them."""

    def put_query(query: Query, at: int) -> Query:
        return map_parts(query, lambda part: put(part, at), lambda nested: put_query(nested, at + 1))

    def put(node: Expr, at: int) -> Expr:
        if isinstance(node, Variable):
            return with_levels(args[node.number - 1], at)
        node = map_children(node, lambda child: put(child, at))
        if isinstance(node, tree.SubLink) and node.query is not None:
            return replace(node, query=put_query(node.query, at + 1))
        return node

    return put(expr, depth)


def _arguments_fit(session: Session, routine: pg_proc, expr: Expr, args: Sequence[Expr]) -> bool:
    """Whether the arguments may be computed as often as the expression names them; a strict function must be NULL for
    each NULL."""
    uses = [node.number for node in walk(expr) if isinstance(node, Variable)]
    if routine.proisstrict and _has_not_strict(session, expr):
        return False
    for number, arg in enumerate(args, 1):
        count = uses.count(number)
        if count == 0 and routine.proisstrict:
            return False
        if count > 1 and (is_volatile(arg) or not _is_cheap(session, arg)):
            return False
    return True


def _has_not_strict(session: Session, expr: Expr) -> bool:
    """Whether an expression may turn NULL into something else (contain_nonstrict_functions)."""
    context = Context(session)
    for node in walk(expr):
        if isinstance(node, _NOT_STRICT) or (isinstance(node, tree.BoolExpr) and node.op is not BoolOp.NOT):
            return True
        for oid in functions_used(node):
            proc = context.proc(oid)
            if proc is None or not proc.strict:
                return True
    return False


def _is_cheap(session: Session, expr: Expr) -> bool:
    context = Context(session)
    cost = 0.0
    for node in walk(expr):
        if isinstance(node, tree.SubLink):
            return False
        for oid in functions_used(node):
            proc = context.proc(oid)
            cost += proc.cost if proc is not None else _CHEAP
    return cost <= _CHEAP


def inliner(session: Session, *, is_certain: bool) -> Callable[[Expr], Expr]:
    """The function that inlines a call, and the calls in what it stands for. `is_certain`: the call is evaluated in any
    case, so that an error in a constant is raised at once."""

    def inline(expr: Expr, active: frozenset[int]) -> Expr:
        call = _call_of(expr)
        body = None if call is None else inlined(session, call, active)
        if call is None or body is None:
            return expr
        deep = map_children_of(body, active | {call.func})
        return _checked(session, deep, call.func) if is_certain else deep

    def map_children_of(expr: Expr, active: frozenset[int]) -> Expr:
        return inline(map_children(expr, lambda child: map_children_of(child, active)), active)

    return lambda expr: inline(expr, frozenset())


def _call_of(expr: Expr) -> FuncExpr | None:
    """The call of a user's function, or of the function of a user's operator, that an expression is."""
    if isinstance(expr, tree.OpExpr) and expr.func:
        return FuncExpr(
            expr.type, typmod=expr.typmod, collation=expr.collation, location=expr.location, func=expr.func,
            args=expr.args, retset=expr.retset, input_collation=expr.input_collation, volatile=expr.volatile,
        )  # fmt: skip
    return expr if isinstance(expr, FuncExpr) and expr.volatile else None


def with_inlined(session: Session, expr: Expr) -> Expr:
    """The expression with all its calls of users' functions inlined that can be."""
    inline = inliner(session, is_certain=False)

    def deep(node: Expr) -> Expr:
        return inline(map_children(node, deep))

    return deep(expr)


def is_immutable(session: Session, expr: Expr) -> bool:
    """Whether all functions are immutable, once others are inlined (contain_mutable_functions_after_planning)."""
    return not contains_mutable_functions(expr) or not contains_mutable_functions(with_inlined(session, expr))


def _checked(session: Session, expr: Expr, function: int) -> Expr:
    """The expression with its constants folded."""
    if any(isinstance(node, (Var, tree.SubLink, tree.Aggref, tree.WindowFunc)) for node in walk(expr)):
        return expr
    routine = routine_row(session, function)
    try:
        return folded(session, expr)
    except PgError as error:
        name = routine.proname if routine is not None else ""
        raise error.with_context(f'SQL function "{name}" during inlining') from None


class SqlVariables:
    """`values` None: a parameter stands for itself, as a `Variable` with its number; else for its value."""

    conflict = Conflict.COLUMN

    def __init__(
        self,
        session: Session,
        function: str,
        names: Sequence[str],
        types: Sequence[int],
        values: Sequence[Any] | None = None,
    ) -> None:
        self._scope = Scope(session)
        self._function = function
        self._names = names
        self._types = types
        self._values = values
        self._found: dict[int, int] = {}  # the number of the parameter that stands at a place

    def of(self, values: Sequence[Any]) -> SqlVariables:
        """The parameters with these values."""
        return SqlVariables(self._scope.session, self._function, self._names, self._types, values)

    def value(self, variable: Variable) -> Expr:
        """The value of a parameter as a constant."""
        assert self._values is not None
        return Const(
            variable.type,
            typmod=variable.typmod,
            collation=variable.collation,
            location=variable.location,
            value=self._values[variable.number - 1],
        )

    def numbered(self, number: int, location: int) -> Expr | None:
        if not 0 < number <= len(self._types):
            return None
        self._found[location] = number
        typoid = self._types[number - 1]
        variable = Variable(typoid, collation=lookup.collation(typoid), location=location, number=number)
        return variable if self._values is None else self.value(variable)

    def number_at(self, location: int) -> int:
        return self._found[location]

    def named(self, names: tuple[str, ...], location: int, *, must_have_field: bool) -> Expr | None:
        """A parameter of a function in SQL, by its name (sql_fn_post_column_ref)."""
        if len(names) > 1 and names[0] == self._function:
            parameter = self._parameter(names[1], location)
            rest = names[2:]
            if parameter is not None:
                return self._field(parameter, rest, location)
        parameter = self._parameter(names[0], location)
        return None if parameter is None else self._field(parameter, names[1:], location)

    def _parameter(self, name: str, location: int) -> Expr | None:
        if not name or name not in self._names:
            return None
        return self.numbered(self._names.index(name) + 1, location)

    def _field(self, parameter: Expr, rest: tuple[str, ...], location: int) -> Expr | None:
        if not rest:
            return parameter
        return project(self._scope, rest[0], parameter, location) if len(rest) == 1 else None

    def starred(self, names: tuple[str, ...], location: int) -> Expr | None:
        value = self.named(names, location, must_have_field=False)
        return value if value is not None and lookup.is_row(value.type) else None


def input_names(names: Sequence[str] | None, modes: Sequence[str] | None, count: int) -> list[str]:
    """The names of the input parameters of a routine; empty ones have none."""
    if names is None:
        return [""] * count
    return [name for name, mode in zip(names, modes or "i" * len(names), strict=True) if mode in "ibv"]


@contextmanager
def analysing(session: Session, variables: SqlVariables | None) -> Iterator[None]:
    """Statements see the variables, and no parameters of the client's statement."""
    before, parameters = session.variables, session.parameters
    session.variables, session.parameters = variables, None
    try:
        yield
    finally:
        session.variables, session.parameters = before, parameters
