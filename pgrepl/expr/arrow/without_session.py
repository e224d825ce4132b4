"""Expressions that are evaluated without a session: in a task of Spark's, or by a program over Arrow's arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import is_user_routine
from pgrepl.expr import tree
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.arrow.documents import check_column
from pgrepl.expr.evaluate.compiler import constraints, test_of
from pgrepl.expr.functions import misc, own
from pgrepl.expr.functions.registry import Context, source_of
from pgrepl.expr.walk import contains_mutable_functions, functions_used, volatilities, walk
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, proc_by_oid, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.style import TextStyle
from pgrepl.types.user_types import parts_of

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_NEVER = (tree.Aggref, tree.WindowFunc, tree.GroupingFunc, tree.SubLink, tree.Param, tree.NextValueExpr)
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
    found: dict[int, tuple[tuple[int, int], ...]] = {}
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
        found[parent.value] = key
    return tuple(sorted(found.items()))


def check_types(body: tree.Expr, context: Context, *, words_errors: bool = True) -> None:
    """Refuse the row types of tables, whose columns the catalog knows, and casts to domains whose constraints need the
    session, or whose name in an error does."""
    for node in walk(body):
        for each in parts_of(node.type) if isinstance(node, tree.Typed) else ():
            row = type_by_oid(each)
            if row is None:
                raise refuse("a table's row type")
            if row.typtype == "d" and isinstance(node, (tree.CoerceToDomain, tree.CoerceViaIO, tree.FuncExpr)):
                _check_domain(each, context, words_errors=words_errors)


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
    if known is not None and known.function.__module__.endswith(".random"):
        _check_random(proc.src, context)


def _check_random(source: str, context: Context) -> None:
    """Refuse random() after setseed(): its sequence depends on the order of rows."""
    if source == "setseed" or (context.has_session and misc.is_seeded(context.session)):
        raise refuse("a random number after setseed()")


def calls_volatile(expr: tree.Expr) -> bool:
    """Whether the node itself calls a volatile function."""
    return any(volatility == "v" for volatility in volatilities(expr))


def style_fields(style: TextStyle) -> dict[str, Any]:
    return {
        "datestyle": style.datestyle,
        "timezone": style.timezone,
        "intervalstyle": style.intervalstyle,
        "extra_float_digits": style.extra_float_digits,
        "bytea_output": style.bytea_output,
        "now": style.now,
    }
