"""The base of the evaluator: how a node of the typed tree becomes a closure; casts; the constraints of domains."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, singledispatch
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import INTERNAL_LANGUAGE, is_user_routine
from pgrepl.expr import tree
from pgrepl.expr.analyse.coerce import with_default_types
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.analyse.targets import default_arguments
from pgrepl.expr.functions import implementation
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import CoerceToDomainValue, Expr
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import Proc, base_type, operator_by_oid, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.style import Record, RowType
from pgrepl.types.text import check_domain, read_text, reader, writer
from pgrepl.types.user_types import UserType, composite_type, described, tests_null

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Compiled = Callable[[Any], Any]
Special = Callable[[tree.Expr], "Compiled | None"]


class Compiler:
    """Compiles the nodes of one expression."""

    def __init__(self, context: Context, special: Special | None) -> None:
        self.context = context
        self.special = special
        self.tested: list[Any] = [None]  # where the CaseTestExpr of the innermost CASE finds its value

    def compile(self, expr: tree.Expr) -> Compiled:
        if self.special is not None:
            compiled = self.special(expr)
            if compiled is not None:
                return compiled
        return compile_node(expr, self)

    def all(self, exprs: Sequence[tree.Expr]) -> list[Compiled]:
        return [self.compile(expr) for expr in exprs]

    def call(self, oid: int, args: Sequence[tree.Expr], expr: tree.Typed, collation: int, variadic: bool) -> Compiled:
        """The closure of a function call over argument expressions."""
        proc = proc_of(oid, self.context)
        call = Call(self.context, tuple(arg.type for arg in args), expr.type, collation, variadic)
        return apply(function_of(proc, call), self.all(args), proc.strict)


def apply(function: Callable[..., Any], args: list[Compiled], strict: bool) -> Compiled:
    if not strict:
        return lambda env: function(*[arg(env) for arg in args])
    if len(args) == 1:
        (only,) = args

        def one(env: Any) -> Any:
            value = only(env)
            return None if value is None else function(value)

        return one
    if len(args) == 2:
        first, second = args

        def two(env: Any) -> Any:
            a, b = first(env), second(env)
            return None if a is None or b is None else function(a, b)

        return two

    def many(env: Any) -> Any:
        values = [arg(env) for arg in args]
        return None if None in values else function(*values)

    return many


@singledispatch
def compile_node(node: tree.Expr, compiler: Compiler) -> Compiled:
    raise unsupported(f"{type(node).__name__} in this place")


def _strict(function: Callable[..., Any], strict: bool) -> Callable[..., Any]:
    if not strict:
        return function
    return lambda *values: None if None in values else function(*values)


def proc_of(oid: int, context: Context) -> Proc:
    proc = context.proc(oid)
    if proc is None:
        raise unsupported(f"function {oid}")
    return proc


def function_of(proc: Proc, call: Call) -> Callable[..., Any]:
    function = plain_function(proc, call)
    columns = out_columns(proc)
    if columns is None or proc.retset:
        return function
    return lambda *values: as_record(function(*values), columns)


def plain_function(proc: Proc, call: Call) -> Callable[..., Any]:
    """A routine as a function of its arguments."""
    if is_user_routine(proc.oid) and proc.lang != INTERNAL_LANGUAGE:  # the constructors of ranges
        routine: Callable[..., Any] = call.session.hooks.routine(call.session, proc, call)
        return routine
    implemented = implementation(proc, call.context)
    return partial(implemented.function, call) if implemented.wants_call else implemented.function


def out_columns(proc: Proc) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Types and names of the OUT parameters of a function that returns rows."""
    if proc.rettype != oids.RECORD or proc.allargtypes is None or proc.argmodes is None:
        return None
    out = [number for number, mode in enumerate(proc.argmodes) if mode in "obt"]
    names = proc.argnames or ()
    return tuple(proc.allargtypes[n] for n in out), tuple(names[n] for n in out)


def as_record(row: Any, columns: tuple[tuple[int, ...], tuple[str, ...]]) -> Any:
    return row if row is None or isinstance(row, Record) else Record(row, *columns)


def named_row_type(typoid: int, compiler: Compiler) -> RowType | None:
    """The named row type of a type; None: the type is no row type."""
    composite = composite_type(base_type(typoid))
    if composite is not None:
        return composite
    known = type_by_oid(typoid)
    if (known is not None and not known.relid) or compiler.context.style.lookup is None:
        return None
    return compiler.context.style.lookup.row_type(typoid)


def field_index(typoid: int, fieldnum: int, compiler: Compiler) -> int | None:
    """The index, in values of the row type, of the column with this attnum; None: it has been dropped."""
    row = named_row_type(typoid, compiler)
    return fieldnum - 1 if row is None else row.index(fieldnum)


def operator_function(oid: int, context: Context | None = None, operand: int = 0) -> Callable[..., Any]:
    """An operator as a Python function of values, of which an enum's operator must know the type. A strict operator
    returns NULL for a NULL argument."""
    operator = operator_by_oid(oid)
    if operator is None:
        raise unsupported(f"operator {oid}")
    operands = (operator.left, operator.right) if operator.left else (operator.right,)
    if operand and operator.left == oids.ANYENUM:
        operands = (operand, operand)
    context = context or Context()
    proc = proc_of(operator.code, context)
    call = Call(context, operands, operator.result)
    return _strict(function_of(proc, call), proc.strict)


def arguments(node: tree.FuncExpr, context: Context) -> list[tree.Expr]:
    """The arguments in parameter order, with defaults filled in (as expand_function_arguments does)."""
    proc = proc_of(node.func, context)
    given: dict[int, tree.Expr] = {}
    filled: set[int] = set()
    for position, arg in enumerate(node.args):
        if isinstance(arg, tree.NamedArg):
            assert arg.arg is not None
            given[arg.argnumber] = arg.arg
        else:
            given[position] = arg
    if len(given) < proc.nargs:
        first = proc.nargs - proc.ndefaults
        own = default_arguments(context.session, proc.oid) if is_user_routine(proc.oid) else None
        for number in range(first, proc.nargs):
            if number in given:
                continue
            if own is not None:
                given[number] = own[number - first]
                filled.add(number)
            else:
                typoid = proc.argtypes[number]
                given[number] = tree.Const(typoid, value=_default(proc.defaults[number - first], typoid))
    args = [given[number] for number in sorted(given)]
    return with_default_types(context.session, proc.argtypes, args, filled) if filled else args


def _default(text: str, typoid: int) -> Any:
    """The default of a parameter. Built-in functions have only plain constants as defaults."""
    word = text.partition("::")[0]
    if word == "NULL":
        return None
    return read_text(word.strip("'"), typoid)


# --- domains ----------------------------------------------------------------------------------------------------------


Test = Callable[[Any], None]

_CONTEXT = ("domain tests",)  # of `derived`


def domain_value(typoid: int, typmod: int, collation: int) -> CoerceToDomainValue:
    """The node of VALUE in the constraints of a domain over this type."""
    return CoerceToDomainValue(typoid, typmod=typmod, collation=collation)


def test_of(domain: int, context: Context) -> Test | None:
    """The function that raises PostgreSQL's error for a value, NULL included, that is none of the domain's. None: the
    domain has no constraints. It is compiled once in a context."""
    known = context.domain_tests
    if domain not in known:
        known[domain] = _compiled(domain, context)
    test: Test | None = known[domain]
    return test


def _compiled(domain: int, context: Context) -> Test | None:
    not_null, exprs = constraints(domain)
    checks = [(name, Compiler(context, None).compile(expr)) for name, expr in exprs]
    if not not_null and not checks:
        return None

    def test(value: Any) -> None:
        if value is None and not_null:
            raise _fault("23502", domain, f"domain {_name(domain, context)} does not allow null values")
        for name, check in checks:
            try:
                holds = check((value,))
            except PgError as error:
                error.is_hard = True
                raise
            if holds is False:
                message = f'value for domain {_name(domain, context)} violates check constraint "{name}"'
                raise _fault("23514", domain, message, name)

    return test


def check_value(domain: int, value: Any, session: Session) -> None:
    """Test one value (domain_check). The caller has imported evaluate.py, which knows how nodes are compiled."""
    test = test_of(domain, session_context(session))
    if test is not None:
        test(value)


def session_context(session: Session) -> Context:
    """The context in which constraints are compiled for the session, until definitions, settings, role or transaction
    change."""
    style, role = session.text_style, session.role
    known = session.derived.get(_CONTEXT)
    if known is None or known[0] is not session or known[1] is not style or known[2] != role:
        known = session.derived[_CONTEXT] = session, style, role, Context(session)
    context: Context = known[3]
    return context


@cache
def constraints(domain: int) -> tuple[bool, tuple[tuple[str, Expr], ...]]:
    """Whether the domain is NOT NULL, and its CHECK constraints: of the domain below before its own, each by their
    names (load_domaintype_info)."""
    levels = list(_levels(domain))
    checks = []
    for typoid, _ in reversed(levels):
        known = described(typoid)
        if known is not None and isinstance(typoid, UserType):
            checks += [(name, from_json(json.loads(text), typoid.types)) for name, text in known.checks]
    return any(row.notnull for _, row in levels), tuple(checks)


def _levels(domain: int) -> Iterator[tuple[int, Any]]:
    """The domain and the domains that it is over."""
    row = type_by_oid(domain)
    while row is not None and row.typtype == "d":
        yield domain, row
        domain = row.basetype
        row = type_by_oid(domain)


def _name(domain: int, context: Context) -> str:
    if context.has_session:
        return type_text(context.session, domain)
    return format_type(domain)


def _fault(sqlstate: str, domain: int, message: str, constraint: str | None = None) -> PgError:
    row = type_by_oid(domain)
    assert row is not None
    return PgError(sqlstate, message, schema=row.schema, datatype=row.name, constraint=constraint)


# --- compile coercions ------------------------------------------------------------------------------------------------


_UNSIGNED = frozenset(
    {
        oids.OID, oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE,
        oids.REGROLE, oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.XID,
    }
)  # fmt: skip


@compile_node.register
def _(node: tree.RelabelType, compiler: Compiler) -> Compiled:
    """A cast between binary coercible types. Only between signed and unsigned integers does the Python value change."""
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    if node.type in _UNSIGNED and node.arg.type == oids.INT4:
        return lambda env: None if (value := arg(env)) is None else value & 0xFFFFFFFF
    if node.type == oids.INT4 and node.arg.type in _UNSIGNED:
        return lambda env: None if (value := arg(env)) is None else value - (value >> 31 << 32)
    return arg


@compile_node.register
def _(node: tree.CoerceViaIO, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    write, read = writer(node.arg.type), reader(node.type)
    context = compiler.context
    may_refuse = tests_null(node.type)

    def convert(env: Any) -> Any:
        value = arg(env)
        if value is None:
            if may_refuse:
                check_domain(node.type, None, context.style)
            return None
        style = context.style
        return read(write(value, style), -1, style)

    return convert


@compile_node.register
def _(node: tree.ArrayCoerceExpr, compiler: Compiler) -> Compiled:
    assert node.arg is not None and node.elem is not None
    arg = compiler.compile(node.arg)
    outer, compiler.tested = compiler.tested, [None]
    cell, element = compiler.tested, compiler.compile(node.elem)
    compiler.tested = outer
    element_type = node.elem.type

    def convert(env: Any) -> PgArray | None:
        array = arg(env)
        if array is None:
            return None
        items = []
        for item in array.items:
            cell[0] = item
            items.append(element(env))
        return PgArray(element_type, array.dims, array.lbounds, tuple(items))

    return convert


@compile_node.register
def _(node: tree.CaseTestExpr, compiler: Compiler) -> Compiled:
    cell = compiler.tested
    return lambda env: cell[0]


@compile_node.register
def _(node: tree.CoerceToDomainValue, compiler: Compiler) -> Compiled:
    return lambda env: env[0]


@compile_node.register
def _(node: tree.CoerceToDomain, compiler: Compiler) -> Compiled:

    assert node.arg is not None
    arg, test = compiler.compile(node.arg), test_of(node.type, compiler.context)
    if test is None:
        return arg

    def tested(env: Any) -> Any:
        value = arg(env)
        test(value)
        return value

    return tested


@compile_node.register(tree.CollateExpr)
@compile_node.register(tree.ConvertRowtypeExpr)
def _(node: tree.CollateExpr | tree.ConvertRowtypeExpr, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    return compiler.compile(node.arg)
