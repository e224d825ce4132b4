"""The fall-back: expressions without equivalent Spark SQL are evaluated in Python on Spark's executors, over Arrow
batches.

The function for a subtree is named by its content; one subtree in many places, or in many statements, is one function.
It returns a struct of a value `v` and an error `e`: Spark calls it for all rows beforehand, even where a CASE or an AND
does not use the value, and only rows that use the value may raise the error.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.spark.sql import Sql, decimal_size, decimal_typmod, form_type, let, numeric_text
from pgrepl.expr.spark.statement import FallBack, Statement
from pgrepl.expr.stored import to_json
from pgrepl.expr.walk import is_volatile, rewrite, walk
from pgrepl.expr.without_session import check_without_session, refuse, style_fields
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.user_types import UserType


class Columns(Protocol):
    """The part of `compiler.Compiler` that the fall-back needs."""

    @property
    def statement(self) -> Statement: ...

    def named(self, expr: tree.Expr) -> Sql | None: ...

    def is_constant(self, expr: tree.Expr) -> bool: ...


def fall_back(expr: tree.Expr, compiler: Columns, key: bool = False, unless: str = "") -> Sql:
    """The SQL of a subtree that Python computes from its columns. `key`: compute the bytes that sort its values
    (order_bytes) instead. `unless`: a condition in SQL; rows that meet it are skipped."""
    columns: list[tuple[tree.Expr, Sql]] = []

    def replaced(node: tree.Expr) -> tree.Expr | None:
        found = compiler.named(node)
        if found is None:
            return _folded(node, compiler)
        for number, (other, _) in enumerate(columns, 1):
            if other == node:
                return tree.Var(node.type, typmod=node.typmod, attnum=number)
        columns.append((node, found))
        return tree.Var(node.type, typmod=node.typmod, collation=node.collation, attnum=len(columns))

    body = rewrite(expr, replaced)
    check_without_session(body, compiler.statement.context)
    arguments = [argument_form(node, sql) for node, sql in columns]
    volatile = is_volatile(body)
    program: dict[str, Any] = {
        "expr": to_json(body),
        **carried_types(expr, *[node for node, _ in columns], body),
        "arguments": [form for form, _ in arguments],
        "result": [expr.type, expr.typmod],
        "style": style_fields(compiler.statement.context.style),
    }
    hash_keys = _hash_keys(body, compiler)
    if hash_keys:
        program["hash_keys"] = hash_keys
    texts = [text for _, text in arguments] or ["1"]
    if unless:
        program["sparse"] = True
        texts = [f"CASE WHEN {unless} THEN NULL ELSE {text} END" for text in texts]
    if key:
        return call(compiler, {**program, "key": True}, texts, "BINARY", volatile)
    return call(compiler, program, texts, form_type(expr.type, expr.typmod), volatile)


def _folded(node: tree.Expr, compiler: Columns) -> tree.Expr | None:
    """A constant subtree, evaluated here because executors have no session; None for other nodes."""
    if isinstance(node, (tree.Const, tree.RowExpr)) or not compiler.is_constant(node):
        return None
    try:
        value = evaluate(node, (), compiler.statement.context)
    except PgError:
        return None
    return tree.Const(node.type, typmod=node.typmod, collation=node.collation, value=value)


def _hash_keys(body: tree.Expr, compiler: Columns) -> list[Any]:
    """The partition keys that satisfies_hash_partition() needs; they travel with the program."""
    found: dict[int, Any] = {}
    for node in walk(body):
        proc = proc_by_oid(node.func) if isinstance(node, tree.FuncExpr) else None
        if proc is None or proc.src != "satisfies_hash_partition" or not isinstance(node, tree.FuncExpr):
            continue
        parent = node.args[0]
        if not isinstance(parent, tree.Const):
            raise refuse("the key of another table for each row")
        key = None if parent.value is None else compiler.statement.context.hash_classes(parent.value)
        if key is None:
            raise refuse("satisfies_hash_partition() of what is no hash-partitioned table")
        found[parent.value] = key
    return sorted(found.items())


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


def call(compiler: Columns, program: dict[str, Any], texts: list[str], result: str, volatile: bool = False) -> Sql:
    """The value that a program computes, or the error it found."""
    function = FallBack(json.dumps(program, ensure_ascii=True, sort_keys=True), result, volatile)
    answer = Sql(compiler.statement.call(function, texts), "")
    if volatile:  # it must be computed once only
        named = f"element_at(transform(array({answer.text}), v0 -> {_opened('v0')}), 1)"
        return Sql(named, result)
    return Sql(let([answer], _opened), result)


def _opened(answer: str) -> str:
    return f"CASE WHEN {answer}.e IS NULL THEN {answer}.v ELSE raise_error({answer}.e) END"
