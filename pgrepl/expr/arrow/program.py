"""A condition or a value over the columns of a table, as plain data that can be sent to an executor; and which
expressions can be evaluated without a session, in a task of Spark's or by a program over Arrow's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyarrow import types

from pgrepl.catalog.facts.namespace import is_user_routine
from pgrepl.expr import tree
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, with_rows
from pgrepl.expr.arrow.operations import CastByText, cast_by_text, check_column, columnar, hint, with_casts
from pgrepl.expr.evaluate.compiler import Compiled, constraints, test_of
from pgrepl.expr.evaluate.evaluate import compile, evaluate
from pgrepl.expr.functions import misc, own
from pgrepl.expr.functions.registry import Context, source_of
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import (
    calls_volatile,
    children,
    contains_mutable_functions,
    functions_used,
    rewrite,
    var_attnums,
    walk,
)
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.sql.nodes import BoolOp, BoolTestType
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, proc_by_oid, type_by_oid
from pgrepl.types.lake.arrays import Form, plain_array, storage_type
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.names import format_type
from pgrepl.types.style import TextStyle
from pgrepl.types.user_types import parts_of

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_NEVER = (tree.Aggref, tree.WindowFunc, tree.GroupingFunc, tree.SubLink, tree.Param, tree.NextValueExpr)
_RANDOM = ("drandom", "drandom_normal", "int4random", "int8random", "numeric_random")
_REGISTERED = frozenset(
    {
        oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE,
        oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.ACLITEM,
    }
)  # fmt: skip


class WorkerContext(Context):
    """A runtime context without catalog. The partition keys that a program needs are sent with it."""

    def __init__(self, style: TextStyle, hash_keys: dict[int, tuple[tuple[int, int], ...]]) -> None:
        style = replace(style, check_domain=self._check_domain, check_domains=self._check_domains)
        super().__init__(None, style)
        self._hash_keys = hash_keys

    def hash_classes(self, parent: int) -> tuple[tuple[int, int], ...] | None:
        return self._hash_keys[parent]

    def _check_domain(self, domain: int, value: Any) -> None:
        test = test_of(domain, self)
        if test is not None:
            test(value)

    def _check_domains(self, domain: int, array: Any) -> None:
        check_column(domain, array, self)

    @property
    def session(self) -> Session:
        raise unsupported("a function that asks the catalog for each row on Spark")


def refuse(what: str) -> PgError:
    return unsupported(f"{what} on Spark")


def check_without_session(body: tree.Expr, context: Context) -> None:
    """Refuse nodes that only a query can compute, names that need the catalog, and functions that need the session
    (nextval)."""
    for node in walk(body):
        if isinstance(node, _NEVER) or (isinstance(node, tree.Var) and node.attnum <= 0):
            raise refuse(f"{type(node).__name__} in this place")
        if isinstance(node, tree.CoerceViaIO) and node.arg is not None:
            for typoid in (node.type, node.arg.type):
                if typoid in _REGISTERED:
                    raise refuse("the name of a catalog object computed for each row")
        for oid in functions_used(node):
            proc = proc_by_oid(oid)
            if proc is not None:
                _check_function(proc, context)
            elif is_user_routine(oid):
                raise refuse("calling a user-defined function")


HashKeys = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]  # operator classes and types by partitioned table


def hash_keys(body: tree.Expr, context: Context) -> HashKeys:
    """The partition keys that satisfies_hash_partition() needs; they travel with the expression."""
    keys: dict[int, tuple[tuple[int, int], ...]] = {}
    for node in walk(body):
        proc = proc_by_oid(node.func) if isinstance(node, tree.FuncExpr) else None
        if proc is None or proc.src != "satisfies_hash_partition" or not isinstance(node, tree.FuncExpr):
            continue
        parent = node.args[0]
        if not isinstance(parent, tree.Const):
            raise refuse("the key of another table for each row")
        key = None if parent.value is None else context.hash_classes(parent.value)
        if key is None:
            raise refuse("satisfies_hash_partition() of what is no hash-partitioned table")
        keys[parent.value] = key
    return tuple(sorted(keys.items()))


def check_types(body: tree.Expr, context: Context, *, words_errors: bool = True) -> None:
    """Refuse the row types of tables, whose columns the catalog knows, and casts to domains whose constraints need the
    session, or whose name in an error does."""
    for node in walk(body):
        for part in parts_of(node.type) if isinstance(node, tree.Typed) else ():
            row = type_by_oid(part)
            if row is None:
                raise refuse("a table's row type")
            if row.typtype == "d" and isinstance(node, (tree.CoerceToDomain, tree.CoerceViaIO, tree.FuncExpr)):
                _check_domain(part, context, words_errors=words_errors)


def _check_domain(domain: int, context: Context, *, words_errors: bool) -> None:
    if words_errors and context.has_session and format_type(domain) != type_text(context.session, domain):
        raise refuse("a domain in no schema of the search path")
    for _, expr in constraints(domain)[1]:
        check_without_session(expr, context)
        check_types(expr, context, words_errors=words_errors)
        if contains_mutable_functions(expr):
            raise refuse("a domain whose constraints call functions that are not immutable")


def _check_function(proc: Proc, context: Context) -> None:
    known = own(source_of(proc))
    if known is None and context.catalog_function(source_of(proc)) is not None:
        raise refuse(f"function {proc.name}")
    if proc.src == "setseed" or (proc.src in _RANDOM and context.has_session and misc.is_seeded(context.session)):
        raise refuse("a random number after setseed()")  # the sequence depends on the order of rows


def style_fields(style: TextStyle) -> dict[str, Any]:
    return {
        "datestyle": style.datestyle,
        "timezone": style.timezone,
        "intervalstyle": style.intervalstyle,
        "extra_float_digits": style.extra_float_digits,
        "bytea_output": style.bytea_output,
        "release": style.release,
        "now": style.now,
    }


Test = Callable[[Columns, int], Any]  # (columns, number of rows) → an array of booleans without NULL


@frozen
class Program:
    """A condition, compiled where it is used. `style` has the settings that output functions depend on."""

    expr: Expr
    style: tuple[tuple[str, Any], ...]
    keys: HashKeys = ()

    @property
    def attnums(self) -> frozenset[int]:
        return var_attnums(self.expr)

    def test(self, forms: Mapping[int, Form]) -> Test:
        """The compiled condition. `forms` are the lake forms of the columns, by attnum."""
        lead, rest = divided(with_casts(with_rows(self.expr, forms), self._context().style))
        exact = _by_rows([self.expr], forms, self._context())
        if not rest:
            return lambda columns, count: _tried(lead, columns, count, exact)
        spared = hint(rest[0])
        if spared is not None:
            lead = [*lead, spared]
        if not lead:
            return exact
        others = _by_rows(rest, forms, self._context())

        def run(columns: Columns, count: int) -> Any:
            return _in_turn(lead, others, columns, count, exact)

        return run

    @property
    def is_columnar(self) -> bool:
        """Whether Arrow computes all of the condition, if columns are kept as their types are."""
        return not divided(with_rows(self.expr))[1]

    @property
    def is_quick(self) -> bool:
        """Whether Arrow computes all of it, or which rows are left to evaluate one by one."""
        rest = divided(with_rows(self.expr))[1]
        return not rest or hint(rest[0]) is not None

    def exact(self) -> Compiled:
        """The condition compiled for the evaluator, for one row at a time."""
        return compile(self.expr, self._context())

    def _context(self) -> Context:
        return _context(self.style, self.keys)


@frozen
class Value:
    """A value of each row, compiled where it is used, as an array in the storage type of the value's lake form."""

    expr: Expr
    style: tuple[tuple[str, Any], ...]
    keys: HashKeys = ()

    @property
    def attnums(self) -> frozenset[int]:
        return var_attnums(self.expr)

    def values(self, forms: Mapping[int, Form], own: Form | None = None) -> Test:
        """The compiled value. It raises PgError or Arrow's error if any row has an error. `own`: the form of the column
        that gets it, which a row type needs."""
        context = _context(self.style, self.keys)
        if own is None or not is_row_type(self.expr.type):
            own = form(self.expr.type, self.expr.typmod)
        return by_columns(self.expr, own, forms, context) or _values_by_rows(self.expr, own, forms, context)

    def exact(self) -> Compiled:
        return compile(self.expr, _context(self.style, self.keys))


def _context(style: tuple[tuple[str, Any], ...], keys: HashKeys) -> Context:
    return WorkerContext(TextStyle(**dict(style)), dict(keys))


def program_of(expr: Expr, context: Context) -> Program | None:
    """The condition as a Program; None: it needs the session, or calls a function that is not immutable."""
    parts = _portable(expr, context)
    return None if parts is None else Program(*parts)


def value_of(expr: Expr, context: Context) -> Value | None:
    """The value of an expression as a Value; None as in `program_of`."""
    parts = _portable(expr, context)
    return None if parts is None else Value(*parts)


def conversion_of(expr: Expr, context: Context) -> Value | None:
    """A conversion of types as a Value. Its input and output functions are stable, as they depend on the style. The
    errors of a row are found again, and worded, by somebody who has the session."""
    parts = _portable(expr, context, is_conversion=True)
    return None if parts is None else Value(*parts)


def _portable(
    expr: Expr, context: Context, *, is_conversion: bool = False
) -> tuple[Expr, tuple[tuple[str, Any], ...], HashKeys] | None:
    expr = folded(expr, context)
    try:
        check_without_session(expr, context)
        check_types(expr, context, words_errors=not is_conversion)
        keys = hash_keys(expr, context)
    except PgError:
        return None
    if not is_conversion and contains_mutable_functions(expr):
        return None
    return expr, tuple(style_fields(context.style).items()), keys


def folded(expr: Expr, context: Context) -> Expr:
    """The expression with the parts computed that have one value for all rows of a statement, such as now()."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, (tree.Const, tree.RowExpr)) or not is_constant(node):
            return None
        try:
            value = evaluate(node, (), context)
        except PgError:  # raised again when a row is evaluated
            return None
        return tree.Const(node.type, typmod=node.typmod, collation=node.collation, value=value)

    return rewrite(expr, visit)


def is_constant(expr: Expr, named: Callable[[Expr], object] = lambda node: None, tested: bool = False) -> bool:
    """Whether a node has the same value for all rows and at every evaluation. `named`: not None for nodes that have a
    column; `tested`: the value that CASE or an array's cast tests is known."""
    if isinstance(expr, (Var, tree.SetToDefault, *_NEVER)) or (isinstance(expr, tree.CaseTestExpr) and not tested):
        return False
    if calls_volatile(expr) or named(expr) is not None:
        return False
    tested |= isinstance(expr, tree.ArrayCoerceExpr) or (isinstance(expr, tree.CaseExpr) and expr.arg is not None)
    return all(is_constant(child, named, tested) for child in children(expr))


def any_is_true(exprs: Sequence[Expr]) -> Expr:
    """The condition that one of the expressions is true; those after the first true one are not evaluated."""
    return _joined(BoolOp.OR, [tree.BooleanTest(oids.BOOL, arg=expr, kind=BoolTestType.IS_TRUE) for expr in exprs])


def none_is_false(exprs: Sequence[Expr]) -> Expr:
    """The condition of CHECK constraints: no expression is false."""
    tests = [tree.BooleanTest(oids.BOOL, arg=expr, kind=BoolTestType.IS_NOT_FALSE) for expr in exprs]
    return _joined(BoolOp.AND, tests)


def all_are_true(exprs: Sequence[Expr]) -> Expr:
    """The condition of WHERE: all expressions are true; those after the first that is not are not evaluated
    (ExecQual)."""
    return _joined(BoolOp.AND, [tree.BooleanTest(oids.BOOL, arg=expr, kind=BoolTestType.IS_TRUE) for expr in exprs])


def _joined(op: BoolOp, tests: Sequence[Expr]) -> Expr:
    return tests[0] if len(tests) == 1 else tree.BoolExpr(oids.BOOL, op=op, args=tuple(tests))


# --- by columns, then by rows -----------------------------------------------------------------------------------------


def divided(expr: Expr) -> tuple[list[Columnar], list[Expr]]:
    """The conditions that AND joins: those at the beginning that Arrow can compute, and the rest."""
    if isinstance(expr, tree.BooleanTest) and expr.kind is BoolTestType.IS_TRUE and expr.arg is not None:
        expr = expr.arg  # IS TRUE around an AND changes nothing for a filter
    parts = _conjuncts(expr)
    lead: list[Columnar] = []
    for part in parts:
        try:
            lead.append(columnar(part))
        except NotColumnar:
            break
    return lead, parts[len(lead) :]


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, tree.BoolExpr) and expr.op is BoolOp.AND:
        return [conjunct for arg in expr.args for conjunct in _conjuncts(arg)]
    return [expr]


def _known(lead: Sequence[Columnar], columns: Columns, count: int) -> Any:
    """Whether all leading conditions hold: true, false or NULL for each row."""
    holds = reduce(pc.and_kleene, (part.run(columns) for part in lead))
    return pa.repeat(holds, count) if isinstance(holds, pa.Scalar) else holds


def _tried(lead: Sequence[Columnar], columns: Columns, count: int, exact: Test) -> Any:
    try:
        return pc.fill_null(_known(lead, columns, count), False)
    except pa.ArrowException:  # an error, unless PostgreSQL does not evaluate that part for the row
        return exact(columns, count)


def _in_turn(lead: Sequence[Columnar], others: Test, columns: Columns, count: int, exact: Test) -> Any:
    """Test the other conditions for the rows where the leading ones are not false; where those are NULL, only to raise
    the errors that PostgreSQL would."""
    try:
        known = _known(lead, columns, count)
    except pa.ArrowException:
        return exact(columns, count)
    places = pc.indices_nonzero(pc.fill_null(known, True))
    if not len(places):
        return pc.fill_null(known, False)
    left = others({attnum: array.take(places) for attnum, array in columns.items()}, len(places))
    passed = np.zeros(count, np.bool_)
    passed[places.to_numpy()] = left.to_numpy(zero_copy_only=False)
    return pc.and_(pa.array(passed), pc.fill_null(known, False))


def _by_rows(exprs: Sequence[Expr], forms: Mapping[int, Form], context: Context) -> Test:
    """The test by the evaluator, row by row."""
    expr = _joined(BoolOp.AND, list(exprs))
    return _evaluated(expr, forms, context, lambda values: pa.array([value is True for value in values], pa.bool_()))


def _values_by_rows(expr: Expr, own: Form, forms: Mapping[int, Form], context: Context) -> Test:
    return _evaluated(expr, forms, context, lambda values: plain_array(own.to_array(values)))


def by_columns(expr: Expr, own: Form, forms: Mapping[int, Form], context: Context) -> Test | None:
    """The value computed by whole columns, in the form `own`. It raises Arrow's error if any row has an error. None:
    Arrow cannot compute it."""
    try:
        expr = with_casts(expr, context.style, own, forms)
        compiled = cast_by_text(expr) if isinstance(expr, CastByText) else columnar(expr)
        _check_kept(compiled.type, storage_type(own.arrow()))
    except NotColumnar:
        return None
    return lambda columns, count: _in_form(compiled.run(columns), own, count)


def _evaluated(
    expr: Expr, forms: Mapping[int, Form], context: Context, array_of: Callable[[list[Any]], pa.Array]
) -> Test:
    """The expression evaluated for each row of the columns that it uses; of a single column, for each value once."""
    numbers = sorted(var_attnums(expr))
    place = {attnum: n for n, attnum in enumerate(numbers, 1)}

    def dense(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return Var(node.type, typmod=node.typmod, collation=node.collation, attnum=place[node.attnum])
        return None

    value = compile(rewrite(expr, dense), context)

    def run(columns: Columns, count: int) -> Any:
        arrays, places = [columns[attnum] for attnum in numbers], None
        if len(arrays) == 1:
            arrays[0], places = once(arrays[0])
        values = [forms[attnum].from_array(array) for attnum, array in zip(numbers, arrays, strict=True)]
        column = array_of([value(row) for row in (zip(*values, strict=True) if values else [()] * count)])
        return column if places is None else column.take(places)

    return run


def once(array: Any) -> tuple[pa.Array, pa.Array | None]:
    """The different values of a column, and for each row the place of its value. None: there is a value for each row,
    as few are equal, or as values differ that Arrow takes for equal (0 and -0)."""
    array = plain_array(array)
    if types.is_nested(array.type) or types.is_floating(array.type):
        return array, None
    first = array.slice(0, _SAMPLE)
    if len(first.unique()) > 0.98 * len(first):
        return array, None
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.dictionary, encoded.indices


_SAMPLE = 1000  # rows that tell whether values repeat


def _check_kept(arrow_type: Any, kind: Any) -> None:
    """Raise NotColumnar if a cast from one Arrow type to the other could change a value without an error."""
    if arrow_type == kind or (types.is_integer(arrow_type) and types.is_integer(kind)):
        return
    if types.is_decimal(arrow_type) and types.is_decimal(kind) and arrow_type.scale == kind.scale:
        return
    raise NotColumnar("a value that is kept in another way")


def _in_form(column: Any, own: Form, count: int) -> Any:
    kind = storage_type(own.arrow())
    if isinstance(column, pa.Scalar):
        column = pa.repeat(column, count)
    return column if column.type == kind else column.cast(kind)
