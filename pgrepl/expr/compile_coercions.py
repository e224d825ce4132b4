"""Casts, compiled: relabelling, casts through text, casts of array elements, and casts that change nothing."""

from __future__ import annotations

from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.compiler import Compiled, Compiler, compile_node
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.text import check_domain, reader, writer
from pgrepl.types.user_types import tests_null

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
    from pgrepl.expr.domains import test_of

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
