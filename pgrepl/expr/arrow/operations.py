"""Operators and functions by columns: arithmetic and casts of whole numbers, casts through texts and to domains, and
conditions on json and jsonb.

Arrow's checked kernels raise where PostgreSQL reports an error, and also for rows that it may not evaluate: the
caller then evaluates row by row. So it does where a value breaks a domain's constraint. A document can only match if
certain words stand in its text; the evaluator judges the rows that are left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.comparisons import compared, sign_of
from pgrepl.expr.arrow.compiler import (
    Columnar,
    Columns,
    NotColumnar,
    Run,
    argument,
    boolean,
    columnar,
    condition,
    storage_of,
)
from pgrepl.expr.arrow.values import TEXTS, Make
from pgrepl.expr.evaluate.compiler import constraints, test_of
from pgrepl.expr.functions import columns_form
from pgrepl.expr.functions.registry import Context, in_columns, source_of
from pgrepl.expr.walk import rewrite
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, base_type, base_type_and_typmod, operator_by_oid, proc_by_oid
from pgrepl.types.json import parse_tree
from pgrepl.types.lake.arrays import Form, storage_type
from pgrepl.types.lake.column_values import through_text
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.expr.tree import Expr

__all__ = ["columnar"]  # with the operations registered


@columnar.register
def _(node: tree.OpExpr) -> Columnar:
    operator = operator_by_oid(node.op)
    if operator is None or node.retset:
        raise NotColumnar("an operator")
    called = _called(proc_by_oid(operator.code), node.args)
    if called is not None:
        return called
    if len(node.args) != 2:
        raise NotColumnar("an operator")
    left, right = node.args
    return compared(sign_of(node.op), columnar(left), columnar(right))


@columnar.register
def _(node: tree.FuncExpr) -> Columnar:
    called = _called(proc_by_oid(node.func), node.args)
    if called is None:
        raise NotColumnar("a function")
    return called


def _called(proc: Proc | None, args: Sequence[tree.Expr]) -> Columnar | None:
    """A call of a function that has a form of columns."""
    form = None if proc is None else columns_form(source_of(proc))
    if form is None or proc is None:
        return None
    return _kernel(form, proc, args) if isinstance(form, str) else form(args)


def _kernel(name: str, proc: Proc, args: Sequence[tree.Expr]) -> Columnar:
    """A call that one of Arrow's kernels computes. Whole numbers are cast to the result's type before, if that is a
    number; `cast` does nothing else."""
    kind = storage_of(proc.rettype, -1)
    runs = []
    for arg, declared in zip(args, proc.argtypes, strict=True):
        value = argument(arg, TEXTS if declared in TEXTS else (declared,))
        is_cast = declared in oids.INTEGERS and pa.types.is_primitive(kind)
        runs.append(_cast(value, kind, safe=not pa.types.is_floating(kind)) if is_cast else value.run)
    if name == "cast":
        return Columnar(proc.rettype, kind, runs[0])
    compute = getattr(pc, name)
    return Columnar(proc.rettype, kind, lambda columns: compute(*[run(columns) for run in runs]))


def _cast(value: Columnar, kind: Any, *, safe: bool = True) -> Run:
    run = value.run
    return run if value.type == kind else lambda columns: pc.cast(run(columns), kind, safe=safe)


def _to_numeric(digits: int) -> Make:
    def make(args: Sequence[tree.Expr]) -> Columnar:
        kind = pa.decimal128(digits, 0)
        return Columnar(oids.NUMERIC, kind, _cast(argument(args[0], oids.INTEGERS), kind))

    return make


for _bytes, _digits in {2: 5, 4: 10, 8: 19}.items():
    in_columns(f"int{_bytes}_numeric")(_to_numeric(_digits))


@in_columns("int2mod", "int4mod", "int8mod")
def _remainder(args: Sequence[tree.Expr]) -> Columnar:
    one, other = [argument(arg, oids.INTEGERS) for arg in args]
    return Columnar(one.typoid, one.type, _modulo(one.run, other.run, args[1]))


def _modulo(dividend: Run, divisor: Run, by: tree.Expr) -> Run:
    """The remainder, with the sign of the dividend."""
    value = by.value if isinstance(by, tree.Const) else None
    if value is not None and value > 0 and value & (value - 1) == 0:
        return _by_power_of_two(dividend, divisor, value)

    def run(columns: Columns) -> Any:
        a, b = dividend(columns), divisor(columns)
        if value is None:  # the least integer / -1 is out of range, but the remainder is 0
            b = pc.if_else(pc.equal(b, -1), pa.scalar(1, b.type), b)
        elif value == -1:
            b = pa.scalar(1, b.type)
        return pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))

    return run


def _by_power_of_two(dividend: Run, divisor: Run, value: int) -> Run:
    def run(columns: Columns) -> Any:
        a, b = dividend(columns), divisor(columns)
        rest = pc.bit_wise_and(a, pa.scalar(value - 1, b.type))
        least = pc.min(a).as_py() if isinstance(a, (pa.Array, pa.ChunkedArray)) else a.as_py()
        if least is None or least >= 0:
            return rest
        below = pc.and_(pc.less(a, 0), pc.not_equal(rest, 0))
        return pc.if_else(below, pc.subtract(rest, b), rest)

    return run


# --- casts ------------------------------------------------------------------------------------------------------------


@frozen
class CastByText(tree.Typed):
    """CoerceViaIO where the settings are known. `kind`: the form of the result; `given`: that of the argument, if this
    is a column of rows."""

    arg: Expr
    style: TextStyle
    kind: Form
    given: Form | None = None


def with_casts(expr: Expr, style: TextStyle, own: Form | None = None, forms: Mapping[int, Form] | None = None) -> Expr:
    """The expression with its casts by text as such nodes, where Arrow has no cast for them. `own`: the form of its
    value, if that is a row; `forms`: of the columns, by attnum."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, tree.CoerceViaIO) or node.arg is None:
            return None
        node = replace(node, arg=rewrite(node.arg, visit))
        try:
            columnar(node)
        except NotColumnar:
            return _by_text(node, style, own, forms or {})
        return node

    return rewrite(expr, visit)


def _by_text(node: tree.CoerceViaIO, style: TextStyle, own: Form | None, forms: Mapping[int, Form]) -> Expr:
    assert node.arg is not None
    given = None
    if is_row_type(node.arg.type):
        given = forms.get(node.arg.attnum) if isinstance(node.arg, tree.Var) else None
        if given is None:
            return node
    if is_row_type(node.type) and own is None:
        return node
    kind = own if own is not None and is_row_type(node.type) else form(node.type, -1)
    return CastByText(node.type, arg=node.arg, style=style, kind=kind, given=given)


@columnar.register
def _(node: CastByText) -> Columnar:
    cast = cast_by_text(node)
    if cast.typoid == oids.NUMERIC and not pa.types.is_decimal(cast.type):
        raise NotColumnar("a numeric that is kept as text")
    return cast


def cast_by_text(node: CastByText) -> Columnar:
    """The cast, also to a numeric that is kept as text, with which Arrow computes no further."""
    given = form(node.arg.type, node.arg.typmod) if node.given is None else node.given
    source, target = (base_type(node.arg.type), node.arg.typmod), base_type(node.type)
    kind = storage_type(node.kind.arrow())
    argument = _argument(node)

    def run(columns: Columns) -> Any:
        value = argument(columns)
        one = isinstance(value, pa.Scalar)
        array = pa.array([value.as_py()], value.type) if one else value
        try:
            cast = through_text(array, source, given, (node.type, -1), node.kind, node.style)
        except PgError as problem:  # raised again for the row that it is about
            raise pa.ArrowInvalid(problem.message) from problem
        return cast[0] if one else cast

    return Columnar(target, kind, run)


def _argument(node: CastByText) -> Callable[[Columns], Any]:
    if node.given is None:
        return columnar(node.arg).run
    assert isinstance(node.arg, tree.Var)
    attnum = node.arg.attnum
    return lambda columns: columns[attnum]


_MOST = 3  # words that are looked for
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f]+')
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_EXPONENT = "[0-9][eE][-+0-9]"
_TEXT_OF_MEMBER = ("json_object_field_text", "jsonb_object_field_text", "json_array_element_text",
                   "jsonb_array_element_text")  # fmt: skip
_MEMBER = ("json_object_field", "jsonb_object_field", "json_array_element", "jsonb_array_element")


def hint(expr: tree.Expr) -> Columnar | None:
    """A condition that holds wherever this one is true; None: nothing is known that would spare rows."""
    source, args = _call(expr)
    if source == "jsonb_contained":
        source, args = "jsonb_contains", args[::-1]
    if len(args) != 2 or not isinstance(args[1], tree.Const) or args[1].value is None:
        return None
    value = args[1].value
    if source in ("jsonb_contains", "jsonb_eq"):
        return _having(args[0], list(_words(parse_tree(value))))
    if source == "jsonb_exists":
        return _having(args[0], list(_words(value)))
    if source == "texteq" and _call(args[0])[0] in _TEXT_OF_MEMBER:
        return _having(args[0], list(_member_words(value)))
    return None


def _call(expr: tree.Expr) -> tuple[str, Sequence[tree.Expr]]:
    """The function of an operator, by its prosrc, and the operands."""
    operator = operator_by_oid(expr.op) if isinstance(expr, tree.OpExpr) else None
    proc = None if operator is None else proc_by_oid(operator.code)
    if proc is None or not isinstance(expr, tree.OpExpr):
        return "", ()
    return proc.src, expr.args


def _words(document: Any) -> Iterator[str]:
    """The words of a document that stand in the texts of all that are equal to it, or contain it, and patterns of its
    numbers."""
    if isinstance(document, str):
        if _PLAIN.fullmatch(document):
            yield f'"{document}"'
    elif document is None or isinstance(document, bool):
        yield {None: "null", True: "true", False: "false"}[document]
    elif isinstance(document, Decimal):
        yield _number(document)
    else:
        for item in document:
            yield from _words(item)
        if isinstance(document, dict):
            for item in document.values():
                yield from _words(item)


def _number(number: Decimal) -> str:
    """The pattern of all spellings of a number that have no exponent, and perhaps of its negative."""
    text = f"{abs(number):f}"
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return _alone(rf"{whole}\.{fraction}0*" if fraction else rf"{whole}(?:\.0*)?")


def _alone(digits: str) -> str:
    return f"(?:^|[^0-9.]){digits}(?:[^0-9.]|$)"


def _member_words(text: str) -> Iterator[str]:
    """What stands in the text of a document that has this one as the text of a member, which is a string, a number, or
    a boolean."""
    if _NUMBER.fullmatch(text):
        yield _alone(text.removeprefix("-").replace(".", r"\."))
    elif text in ("true", "false"):
        yield text
    elif text[:1] not in ("[", "{"):
        yield from _words(text)


def _having(document: tree.Expr, words: list[str]) -> Columnar | None:
    """The condition that the column has the words in it, and the keys that lead from the column to the document."""
    while not isinstance(document, tree.Var):
        source, args = _call(document)
        if source not in (*_MEMBER, *_TEXT_OF_MEMBER):
            return None
        document, member = args
        if isinstance(member, tree.Const) and isinstance(member.value, str):
            words += _words(member.value)
    if document.attnum <= 0 or document.levelsup or base_type(document.type) not in (oids.JSON, oids.JSONB):
        return None
    chosen = sorted(set(words), key=len, reverse=True)[:_MOST]
    return _found(document.attnum, chosen) if chosen else None


def _found(attnum: int, words: Sequence[str]) -> Columnar:
    patterns = [word for word in words if word.startswith(_alone("")[:3])]

    def run(columns: Columns) -> Any:
        texts = columns[attnum]
        if not pa.types.is_string(texts.type):
            raise pa.ArrowInvalid("a document that is kept in another way")
        tests = [pc.match_substring(texts, word) for word in words if word not in patterns]
        if patterns:
            spelled = reduce(pc.and_, [pc.match_substring_regex(texts, pattern) for pattern in patterns])
            tests.append(pc.or_(spelled, pc.match_substring_regex(texts, _EXPONENT)))
        return pc.or_(reduce(pc.and_, tests), pc.match_substring(texts, "\\"))

    return boolean(run)


# --- domains ----------------------------------------------------------------------------------------------------------


Holds = Callable[[Any], bool]


def check_column(domain: int, array: Any, context: Context) -> None:
    """Raise the error of the first value of a column, in storage form, that is none of the domain's."""
    key = ("column", domain)
    if key not in context.domain_tests:
        context.domain_tests[key] = _test_or_none(domain)
    holds: Holds | None = context.domain_tests[key]
    test = test_of(domain, context)
    if test is None or (holds is not None and holds(array)):
        return
    for value in form(domain).from_array(array):
        test(value)


@columnar.register
def _(node: tree.CoerceToDomain) -> Columnar:
    assert node.arg is not None
    arg, holds = columnar(node.arg), _test(node.type)
    if holds is None:
        return arg
    if arg.type != storage_of(*base_type_and_typmod(node.type, -1)):
        raise NotColumnar("a domain of another form")

    def run(columns: Columns) -> Any:
        value = arg.run(columns)
        if not holds(pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value):
            raise pa.ArrowInvalid("a value that is none of the domain's")
        return value

    return Columnar(arg.typoid, arg.type, run)


def _test_or_none(domain: int) -> Holds | None:
    try:
        return _test(domain)
    except NotColumnar:
        return None


def _test(domain: int) -> Holds | None:
    """Whether all values of a column are the domain's, NULLs among them. None: it has no constraints."""
    not_null, checks = constraints(domain)
    tests = [condition(_over_column(expr)) for _, expr in checks]
    if not not_null and not tests:
        return None

    def holds(array: Any) -> bool:
        if not_null and array.null_count:
            return False
        try:
            return all(pc.all(test({1: array})).as_py() is not False for test in tests)
        except pa.ArrowException:  # an error for some value, maybe
            return False

    return holds


def _over_column(expr: tree.Expr) -> tree.Expr:
    """A constraint with column 1 as VALUE."""

    def visit(node: tree.Expr) -> tree.Expr | None:
        if isinstance(node, tree.CoerceToDomainValue):
            return tree.Var(node.type, typmod=node.typmod, collation=node.collation, attnum=1)
        return None

    return rewrite(expr, visit)
