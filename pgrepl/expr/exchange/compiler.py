"""The compiler of typed trees to Spark SQL, and a statement's named parameters and fall-back functions.

`native` dispatches on the node's class. A node without SQL is computed by the fall-back with everything inside it: in
Python on executors, over Arrow batches. Its function is named by the subtree's content, and returns a value `v` and an
error `e`, as Spark calls it for rows that do not use it; only rows that use the value may raise the error. Constants
are evaluated at compile time; their errors are raised only if Spark evaluates them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import singledispatch
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pgrepl.expr import tree
from pgrepl.expr.arrow.program import check_without_session, folded, hash_keys, is_constant, style_fields
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.exchange.sql import (
    FUNCTION_PREFIX,
    Sql,
    cast,
    decimal_size,
    decimal_type,
    decimal_typmod,
    form_type,
    let,
    null_of,
    numeric_text,
    quoted,
    raised,
)
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.stored import to_json
from pgrepl.expr.walk import is_volatile, rewrite, walk
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.internals.pyspark import arrow_function, check_types
from pgrepl.types import oids
from pgrepl.types.lake.arrays import Form
from pgrepl.types.lake.forms import form
from pgrepl.types.numbers import write_float4
from pgrepl.types.numeric import display_scale, write_numeric
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Names = Callable[[tree.Expr], "str | Sql | None"]

NOT_CONSTANT = object()


class Compiler:
    """The compiler of one statement's nodes over the same input columns."""

    def __init__(self, names: Names, statement: Statement) -> None:
        self.names = names
        self.statement = statement

    def named(self, expr: tree.Expr) -> Sql | None:
        """The column that holds a node's value."""
        name = self.names(expr)
        return Sql(name, form_type(expr.type, expr.typmod)) if isinstance(name, str) else name

    def value(self, expr: tree.Expr) -> Sql:
        number = self.number(expr)
        return number if number.special is None else Sql(numeric_text(number), "STRING")

    def number(self, expr: tree.Expr) -> Sql:
        """The SQL of a numeric, for callers that can handle a `special`."""
        column = self.named(expr)
        if column is not None:
            return column
        if self.is_constant(expr):
            try:
                return constant(evaluate(expr, (), self.statement.context), expr.type, expr.typmod, self.statement)
            except PgError as error:
                spark_type = form_type(expr.type, expr.typmod)
                return Sql(cast(raised(error), spark_type), spark_type)
        return native(expr, self) or fall_back(expr, self)

    def text(self, expr: tree.Expr) -> str:
        """The SQL of a node in its lake form."""
        return to_form(self.value(expr), expr.type, expr.typmod)

    def is_constant(self, expr: tree.Expr) -> bool:
        """Whether a node has the same value for all rows and at every evaluation."""
        return is_constant(expr, self.names)

    def constant(self, expr: tree.Expr) -> Any:
        """The value of a constant (None: NULL); NOT_CONSTANT for other nodes and for constants whose evaluation
        fails."""
        if self.named(expr) is not None or not self.is_constant(expr):
            return NOT_CONSTANT
        try:
            return evaluate(expr, (), self.statement.context)
        except PgError:
            return NOT_CONSTANT


def over_columns(columns: Mapping[int, Sql], statement: Statement) -> Compiler:
    """The compiler of expressions over columns by attnum."""
    return Compiler(lambda node: columns[node.attnum] if isinstance(node, tree.Var) else None, statement)


@singledispatch
def native(expr: tree.Expr, compiler: Compiler) -> Sql | None:
    """A node as Spark SQL; None when the fall-back has to compute it."""
    return None


def to_sql(expr: tree.Expr, names: Names, statement: Statement) -> str:
    return Compiler(names, statement).text(expr)


def to_form(sql: Sql, typoid: int, typmod: int = -1) -> str:
    """The text of a value in the lake form of a type. Only numerics can have another form before."""
    wanted = form_type(typoid, typmod)
    if sql.type == wanted and sql.special is None:
        return sql.text
    if typoid == oids.NUMERIC and wanted == "STRING":
        return numeric_text(sql)
    return cast(sql.text, wanted)


# --- gathered ---------------------------------------------------------------------------------------------------------


def gathered(node: tree.Aggref | tree.WindowFunc, compiler: Compiler, over: str) -> Sql:
    """An array of structs: a row's members are the arguments, then the ORDER BY keys."""
    order = node.order if isinstance(node, tree.Aggref) else ()
    direct = node.direct_args if isinstance(node, tree.Aggref) else ()
    members = [argument_form(expr, compiler.value(expr)) for expr in (*node.args, *[key.expr for key in order])]
    fields = [f"'m{number}', {text}" for number, (_, text) in enumerate(members)] or ["'m0', 1"]
    row = f"named_struct({', '.join(fields)})"
    if node.filter is not None:
        row = f"CASE WHEN {compiler.text(node.filter)} THEN {row} END"
    given = [argument_form(expr, compiler.value(expr)) for expr in direct]
    program: dict[str, Any] = {
        "aggregate": to_json(_without_expressions(node)),
        **carried_types(node),
        "members": [form for form, _ in members],
        "arguments": [form for form, _ in given],
        "result": [node.type, node.typmod],
        "style": style_fields(compiler.statement.context.style),
    }
    texts = [f"collect_list({row}){over}", *[text for _, text in given]]
    return call(compiler, program, texts, form_type(node.type, node.typmod))


def finished(step: str, compiler: Compiler, values: list[tuple[int, Sql]]) -> Sql:
    """A numeric that a last step in Python (accumulate.FINISHES) computes from Spark's sums, the `values`."""
    given = [argument_form(tree.Const(typoid), sql) for typoid, sql in values]
    program: dict[str, Any] = {
        "finish": step,
        "arguments": [form for form, _ in given],
        "result": [oids.NUMERIC, -1],
        "style": style_fields(compiler.statement.context.style),
    }
    return call(compiler, program, [text for _, text in given], "STRING")


def _without_expressions(node: tree.Aggref | tree.WindowFunc) -> tree.Aggref:
    """The aggregate over the members of a gathered row, in place of the original arguments."""
    args = tuple(_member(arg, number) for number, arg in enumerate(node.args))
    if isinstance(node, tree.WindowFunc):
        return tree.Aggref(
            node.type,
            typmod=node.typmod,
            collation=node.collation,
            func=node.func,
            args=args,
            star=node.star,
            input_collation=node.input_collation,
        )
    order = tuple(replace(key, expr=_member(key.expr, len(args) + number)) for number, key in enumerate(node.order))
    direct = tuple(_member(arg, number) for number, arg in enumerate(node.direct_args))
    return replace(node, args=args, order=order, direct_args=direct, filter=None)


def _member(expr: tree.Expr, number: int) -> tree.Var:
    return tree.Var(expr.type, typmod=expr.typmod, collation=expr.collation, attnum=number + 1)


_FUNCTION = re.compile(FUNCTION_PREFIX + "[0-9a-f]+")
_PARAMETER = re.compile(r":(p[0-9]+)\b")
_registered: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


@frozen
class FallBack:
    """A fall-back function to register; `program` is all that a Python worker needs, as JSON (see worker.py)."""

    program: str
    result: str  # Spark type of the value
    volatile: bool = False

    @property
    def name(self) -> str:
        return FUNCTION_PREFIX + hashlib.sha256(f"{self.result} {self.program}".encode()).hexdigest()[:20]

    def register(self, spark: SparkSession) -> None:
        from pgrepl.expr.exchange.worker import argument_types, function_of

        types = argument_types(self.program)
        check_types(self.result, types)
        function = arrow_function(function_of(self.program), f"struct<v:{self.result},e:string>", types)
        spark.udf.register(self.name, function.asNondeterministic() if self.volatile else function)


class Statement:
    """One statement, with one or many expressions."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or Context()
        self.arguments: dict[str, str | bytes] = {}
        self.functions: dict[str, FallBack] = {}
        self._names: dict[str | bytes, str] = {}

    def bind(self, value: str | bytes) -> str:
        """A named parameter for a value."""
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = f"p{len(self._names) + 1}"
            self.arguments[name] = value
        return f":{name}"

    def call(self, function: FallBack, arguments: list[str]) -> str:
        self.functions[function.name] = function
        return f"{function.name}({', '.join(arguments)})"

    def run(self, spark: SparkSession, text: str, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """The statement as a DataFrame, with its parameters and functions; `frames` are input DataFrames, named in
        braces."""
        known = _registered.setdefault(spark, set())
        for name in sorted(set(_FUNCTION.findall(text)) - known):
            if name in self.functions:
                self.functions[name].register(spark)
                known.add(name)
        used = {name: self.arguments[name] for name in _PARAMETER.findall(text) if name in self.arguments}
        return spark.sql(text, args=used or None, **(frames or {}))


# --- constants --------------------------------------------------------------------------------------------------------


MAX_DECIMAL = 38


def constant(value: Any, typoid: int, typmod: int, statement: Statement) -> Sql:
    """The SQL of a constant; PgError when the lake cannot store it."""
    if value is None:
        return null_of(_type_of_null(typoid, typmod))
    if typoid == oids.NUMERIC:
        return numeric_constant(value, statement)
    spark_type = form_type(typoid, typmod)
    if spark_type == "STRING":
        text = str(value) if typoid in (oids.UNKNOWN, oids.CSTRING, oids.VOID) else form(typoid, typmod).to_arrow(value)
        return Sql(statement.bind(text), spark_type)
    if spark_type == "BINARY":
        return Sql(statement.bind(form(typoid, typmod).to_arrow(value)), spark_type)
    return Sql(literal(form(typoid, typmod).to_arrow(value), form(typoid, typmod)), spark_type)


def _type_of_null(typoid: int, typmod: int) -> str:
    return "DECIMAL(1,0)" if typoid == oids.NUMERIC and typmod < 0 else form_type(typoid, typmod)


def numeric_constant(value: Decimal, statement: Statement) -> Sql:
    """A numeric constant, as a decimal of its display scale where it fits."""
    spark_type = type_of_decimal(value)
    if spark_type is None:
        return Sql(statement.bind(write_numeric(value)), "STRING")
    return Sql(cast(quoted(write_numeric(value)), spark_type), spark_type)


def type_of_decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return None
    scale = display_scale(value)
    whole = max(value.adjusted() + 1, 0) if value else 0
    precision = max(whole + scale, 1)
    return decimal_type(precision, scale) if precision <= MAX_DECIMAL else None


def literal(plain: Any, of: Form) -> str:
    """A value in Arrow form as an SQL literal."""
    if of.element is not None:
        items = [cast("NULL", of.element.spark) if item is None else literal(item, of.element) for item in plain]
        return f"array({', '.join(items)})" if items else cast("array()", of.spark)
    if decimal_size(of.spark) is not None:
        return cast(quoted(write_numeric(plain)), of.spark)
    return _LITERALS[of.spark](plain)


def float8_literal(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return cast(f"'{word}'", "DOUBLE")
    return f"{value!r}D" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0D"


def _float4(value: float) -> str:
    if math.isfinite(value):
        return cast(f"'{write_float4(value)}'", "FLOAT")
    return cast(float8_literal(value), "FLOAT")


def _bigint(value: int) -> str:
    return f"{value}L" if value > -(2**63) else "(-9223372036854775807L - 1L)"


def _time(usecs: int) -> str:
    if usecs >= 86_400_000_000:
        return cast(raised(PgError("0A000", "time 24:00:00 in a column on Spark is not supported")), "TIME(6)")
    seconds, fraction = divmod(usecs, 1_000_000)
    return f"TIME'{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}'"


_LITERALS: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": lambda v: "true" if v else "false",
    "SMALLINT": lambda v: f"{v}S" if v > -32768 else cast("-32768", "SMALLINT"),
    "INT": str,
    "BIGINT": _bigint,
    "FLOAT": _float4,
    "DOUBLE": float8_literal,
    "DATE": lambda v: f"date_from_unix_date({v})",
    "TIMESTAMP": lambda v: f"timestamp_micros({_bigint(v)})",
    "TIMESTAMP_NTZ": lambda v: cast(f"timestamp_micros({_bigint(v)})", "TIMESTAMP_NTZ"),
    "TIME(6)": _time,
    "STRING": quoted,
    "BINARY": lambda v: f"X'{v.hex()}'",
}


# --- fallback ---------------------------------------------------------------------------------------------------------


def fall_back(expr: tree.Expr, compiler: Compiler, key: bool = False, unless: str = "") -> Sql:
    """The SQL of a subtree that Python computes from its columns. `key`: compute the bytes that sort its values
    (order_bytes) instead. `unless`: a condition in SQL; rows that meet it are skipped."""
    columns: dict[tree.Expr, tree.Var] = {}
    texts: list[str] = []

    def replaced(node: tree.Expr) -> tree.Expr | None:
        column = compiler.named(node)
        if column is None:
            return None
        if node not in columns:
            (typoid, typmod), text = argument_form(node, column)
            columns[node] = tree.Var(typoid, typmod=typmod, collation=node.collation, attnum=len(columns) + 1)
            texts.append(text)
        return columns[node]

    # constants are evaluated here because executors have no session
    body = folded(rewrite(expr, replaced), compiler.statement.context)
    check_without_session(body, compiler.statement.context)
    volatile = is_volatile(body)
    program: dict[str, Any] = {
        "expr": to_json(body),
        **carried_types(expr, *columns, body),
        "arguments": [[column.type, column.typmod] for column in columns.values()],
        "result": [expr.type, expr.typmod],
        "style": style_fields(compiler.statement.context.style),
    }
    keys = hash_keys(body, compiler.statement.context)
    if keys:
        program["hash_keys"] = keys
    if volatile:
        program["volatile"] = True
    if unless:
        texts = [f"CASE WHEN {unless} THEN NULL ELSE {text} END" for text in texts]
    texts = texts or ["1"]
    if key:
        return call(compiler, {**program, "key": True}, texts, "BINARY", volatile)
    return call(compiler, program, texts, form_type(expr.type, expr.typmod), volatile)


def argument_form(node: tree.Expr, sql: Sql) -> tuple[list[int], str]:
    """The SQL of an argument, and the type and modifier of the lake form it is passed in."""
    size = decimal_size(sql.type)
    if node.type == oids.NUMERIC and size is not None and sql.special is None:
        return [oids.NUMERIC, decimal_typmod(*size)], sql.text
    if node.type == oids.NUMERIC:
        return [oids.NUMERIC, -1], numeric_text(sql)
    return [node.type, node.typmod], sql.text


def carried_types(*nodes: tree.Expr) -> dict[str, Any]:
    """The descriptions of the user's types that a program meets, if it meets any."""
    for node in nodes:
        for inner in walk(node):
            if isinstance(inner.type, UserType):
                return {"types": inner.type.types.to_json()}
    return {}


def call(compiler: Compiler, program: dict[str, Any], texts: list[str], result: str, volatile: bool = False) -> Sql:
    """The value that a program computes, or the error it found."""
    function = FallBack(json.dumps(program, ensure_ascii=True, sort_keys=True), result, volatile)
    answer = Sql(compiler.statement.call(function, texts), "")
    if volatile:  # it must be computed once only
        named = f"element_at(transform(array({answer.text}), v0 -> {_opened('v0')}), 1)"
        return Sql(named, result)
    return Sql(let([answer], _opened), result)


def _opened(answer: str) -> str:
    return f"CASE WHEN {answer}.e IS NULL THEN {answer}.v ELSE raise_error({answer}.e) END"
