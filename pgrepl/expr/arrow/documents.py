"""Conditions on json and jsonb, and casts to domains, by columns.

A document can only match if certain words stand in its text; the evaluator judges the rows that are left. Where a
value breaks a domain's constraint rows are evaluated one by one, up to PostgreSQL's error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, boolean, condition, storage_of
from pgrepl.expr.arrow.operations import columnar
from pgrepl.expr.evaluate.compiler import constraints, test_of
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import rewrite
from pgrepl.ground.lazy import pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, base_type_and_typmod, operator_by_oid, proc_by_oid
from pgrepl.types.json import parse_tree
from pgrepl.types.lake.forms import form

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
        found = [pc.match_substring(texts, word) for word in words if word not in patterns]
        if patterns:
            spelled = reduce(pc.and_, [pc.match_substring_regex(texts, pattern) for pattern in patterns])
            found.append(pc.or_(spelled, pc.match_substring_regex(texts, _EXPONENT)))
        return pc.or_(reduce(pc.and_, found), pc.match_substring(texts, "\\"))

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
