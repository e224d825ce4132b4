"""Expressions as text, as ruleutils.c prints them, with the casts, parentheses and schema names that make the text
parse to the same expression."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from pgrepl.catalog.facts import namespace
from pgrepl.catalog.facts.relation import display_name, relation
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES
from pgrepl.expr.print.printer import Printer, type_with_typmod
from pgrepl.expr.tree import MERGE_ACTION, Const, Expr, OpExpr, RteKind, Var
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import BoolOp, CoercionForm, NullTestType, SubLinkType
from pgrepl.types import oids

IMPLICIT = CoercionForm.IMPLICIT_CAST


class UnknownForm(PgError):
    """The error when no loaded module prints a node of this class."""

    def __init__(self, expr: Expr) -> None:
        super().__init__("0A000", f"printing {type(expr).__name__} is not supported")


@singledispatch
def print_expr(expr: Expr, out: Printer, implicit: bool) -> None:
    """Print a node; `implicit` prints implicit casts too (get_rule_expr). Rare nodes are printed by modules loaded on
    demand (deparse.load_forms)."""
    raise UnknownForm(expr)


@frozen
class Printed(tree.Typed):
    """A part of an expression whose text is given, such as a subquery in EXPLAIN."""

    text: str = ""


@print_expr.register(Printed)
def _(expr: Printed, out: Printer, implicit: bool) -> None:
    out.put(expr.text)


def print_list(exprs: Sequence[Expr], out: Printer, implicit: bool) -> None:
    for number, expr in enumerate(exprs):
        if number:
            out.put(", ")
        print_expr(expr, out, implicit)


def print_part(expr: Expr, out: Printer, implicit: bool, parent: Expr) -> None:
    """Print a part of a larger expression; in pretty mode with parentheses only where needed (get_rule_expr_paren)."""
    parens = out.style.paren and not is_simple(expr, parent, out)
    if parens:
        out.put("(")
    print_expr(expr, out, implicit)
    if parens:
        out.put(")")


def print_top(expr: Expr, out: Printer, implicit: bool) -> None:
    """Print an item of a list. A whole row needs a cast there, as `t.*` would be expanded to columns."""
    if isinstance(expr, Var):
        print_var(expr, out, top=True)
    else:
        print_expr(expr, out, implicit)


def _open(out: Printer) -> None:
    if not out.style.paren:
        out.put("(")


def _close(out: Printer) -> None:
    if not out.style.paren:
        out.put(")")


# --- parentheses --------------------------------------------------------------------------------------------------

_ATOMS = (
    tree.Var,
    tree.Const,
    tree.Param,
    tree.Variable,
    tree.SetToDefault,
    tree.CoerceToDomainValue,
    tree.SubscriptingRef,
    tree.ArrayExpr,
    tree.RowExpr,
    tree.CoalesceExpr,
    tree.MinMaxExpr,
    tree.SQLValueFunction,
    tree.NextValueExpr,
    tree.NullIfExpr,
    tree.Aggref,
    tree.GroupingFunc,
    tree.WindowFunc,
    tree.FuncExpr,
    tree.CaseExpr,
    tree.JsonConstructorExpr,
    tree.JsonExpr,
)
_CASTS = (tree.CoerceToDomain, tree.RelabelType, tree.CoerceViaIO, tree.ArrayCoerceExpr, tree.ConvertRowtypeExpr)
_TESTS = (OpExpr, tree.SubLink, tree.NullTest, tree.BooleanTest, tree.DistinctExpr, tree.JsonIsPredicate)
# nodes that are printed with brackets around their parts
_ENCLOSING = (
    tree.SubscriptingRef,
    tree.ArrayExpr,
    tree.RowExpr,
    tree.CoalesceExpr,
    tree.MinMaxExpr,
    tree.NullIfExpr,
    tree.Aggref,
    tree.GroupingFunc,
    tree.WindowFunc,
    tree.CaseExpr,
)


def is_simple(expr: Expr | None, parent: Expr, out: Printer) -> bool:
    """Whether a node can stand in its parent without parentheses (isSimpleNode)."""
    if isinstance(expr, _ATOMS):
        return True
    if isinstance(expr, tree.FieldSelect):
        return not isinstance(parent, tree.FieldSelect)
    if isinstance(expr, _CASTS):
        return is_simple(expr.arg, expr, out)
    if isinstance(expr, tree.JsonValueExpr):
        return is_simple(expr.raw, expr, out)
    if isinstance(expr, OpExpr) and out.style.paren and isinstance(parent, OpExpr):
        return _binds_tighter(expr, parent, out)
    if isinstance(expr, _TESTS):
        return _encloses(parent) or isinstance(parent, tree.BoolExpr)
    if isinstance(expr, tree.BoolExpr):
        if isinstance(parent, tree.BoolExpr):
            if not out.style.paren:
                return False
            if expr.op is BoolOp.OR:
                return parent.op is BoolOp.OR
            return parent.op is not BoolOp.NOT
        return _encloses(parent)
    return False


def _encloses(parent: Expr) -> bool:
    if isinstance(parent, tree.FuncExpr):
        return parent.form is CoercionForm.EXPLICIT_CALL
    return isinstance(parent, _ENCLOSING)


def _binds_tighter(expr: OpExpr, parent: OpExpr, out: Printer) -> bool:
    """Whether an operator binds tighter than its parent. Only known for + - and * / %."""
    own, around = _arithmetic(expr, out), _arithmetic(parent, out)
    if not own or not around:
        return False
    if own in "*/%" and around in "+-":
        return True
    if own in "+-" and around in "*/%":
        return False
    return expr is parent.args[0]


def _arithmetic(expr: OpExpr, out: Printer) -> str:
    if len(expr.args) != 2:
        return ""
    name = operator_name(out, expr.op, expr.args[0].type, expr.args[1].type)
    return name if name in ("+", "-", "*", "/", "%") else ""


# --- names --------------------------------------------------------------------------------------------------------


def operator_name(out: Printer, oid: int, left: int, right: int) -> str:
    """The operator's symbol, schema-qualified when the symbol alone would find another operator
    (generate_operator_name)."""
    op = namespace.operator(out.session, oid)
    assert op is not None
    operands = left if op.kind == "b" else 0, right
    if operands == (op.left, op.right) and not namespace.has_user_operators(out.session, op.name):
        return op.name
    from pgrepl.expr.analyse.operators import find_operator_or_none
    from pgrepl.expr.analyse.scope import Scope

    scope = Scope(out.session)
    meant = find_operator_or_none(scope, (op.name,), *operands)
    if meant is not None and meant.oid == oid:
        return op.name
    return f"OPERATOR({namespace.operator_text(out.session, oid)})"


def collation_text(out: Printer, oid: int) -> str:
    return namespace.collation_text(out.session, oid) or "???"


@print_expr.register(Var)
def _(expr: Var, out: Printer, implicit: bool) -> None:
    print_var(expr, out)


def print_var(var: Var, out: Printer, *, top: bool = False, levels: int = 0) -> str | None:
    """Print a column by its name in this query; returns the bare name (get_variable)."""
    names = out.names[var.levelsup + levels]
    varno, attnum = (var.varno_written, var.attnum_written) if var.varno_written else (var.varno, var.attnum)
    if attnum == MERGE_ACTION:
        out.put("MERGE_ACTION()")
        return None
    rte = names.rtable[varno - 1]
    refname = names.relations[varno - 1]
    if rte.kind is RteKind.JOIN and rte.alias is None and attnum > 0:
        stands_for = rte.join_vars[attnum - 1]
        if isinstance(stands_for, Var):
            return print_var(stands_for, out, top=top, levels=var.levelsup + levels)
    if attnum == 0:
        name = None
    elif attnum > 0:
        name = names.columns[varno - 1][attnum - 1] or "?dropped?column?"
    else:
        name = SYSTEM_COLUMN_NAMES[attnum]
    if refname is not None and (out.prefix or name is None or _would_be_a_result(var, name, out)):
        out.put(f"{quote_identifier(refname)}.")
    if name is not None:
        out.put(quote_identifier(name))
    else:
        out.put("*")
        if top:
            out.put(f"::{type_with_typmod(out.session, var.type, var.typmod)}")
    return name


def _would_be_a_result(var: Var, name: str, out: Printer) -> bool:
    """Whether ORDER BY would take the bare name for an output column."""
    if not out.in_order_by or out.in_group_by:
        return False
    number = 0
    for target in out.targets:
        if target.junk:
            continue
        label = target.name
        if out.result_names is not None and number < len(out.result_names):
            label = out.result_names[number]
        number += 1
        if label == name and target.expr != var:
            return True
    return False


# --- constants ----------------------------------------------------------------------------------------------------


@print_expr.register(Const)
def _(expr: Const, out: Printer, implicit: bool) -> None:
    print_const(expr, out, 0)


def simple_quote(text: str, out: Printer) -> str:
    """A string literal as simple_quote_literal writes it; backslashes are doubled only with
    standard_conforming_strings off."""
    if "\\" in text and not out.session.settings.string_rules.conforming:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def print_const(const: Const, out: Printer, show_type: int) -> None:
    """Print a constant (get_const_expr). show_type: -1 never prints the type, 0 only where the text alone would have
    another type, 1 always."""
    label = show_type >= 0
    if const.value is None:
        out.put("NULL")
        if label:
            out.put(f"::{type_with_typmod(out.session, const.type, const.typmod)}")
            _const_collation(const, out)
        return
    text = lookup.write_value(out.session, const.value, const.type)
    bare = False
    if const.type == oids.INT4:
        bare = not text.startswith("-")
    elif const.type == oids.NUMERIC:
        bare = text[:1].isdigit() and any(c in text for c in "eE.")
    if const.type == oids.BOOL:
        out.put("true" if const.value else "false")
    else:
        out.put(text if bare else simple_quote(text, out))
    if not label:
        return
    if const.type in (oids.BOOL, oids.UNKNOWN):
        needed = False
    elif const.type == oids.INT4:
        needed = not bare
    elif const.type == oids.NUMERIC:
        needed = not bare or const.typmod >= 0
    else:
        needed = True
    if needed or show_type > 0:
        out.put(f"::{type_with_typmod(out.session, const.type, const.typmod)}")
    _const_collation(const, out)


def _const_collation(const: Const, out: Printer) -> None:
    if const.collation and const.collation != lookup.collation(const.type):
        out.put(f" COLLATE {collation_text(out, const.collation)}")


@print_expr.register(tree.Variable)
def _(expr: tree.Variable, out: Printer, implicit: bool) -> None:
    """A parameter by its name, with the function's name where a column could be meant (get_parameter)."""
    function, names = out.routine or ("", ())
    name = names[expr.number - 1] if expr.number <= len(names) else ""
    if not name:
        out.put(f"${expr.number}")
        return
    qualified = any(level.rtable for level in out.names)
    out.put((f"{quote_identifier(function)}." if qualified else "") + quote_identifier(name))


@print_expr.register(tree.Param)
def _(expr: tree.Param, out: Printer, implicit: bool) -> None:
    out.put(f"${expr.number}")


@print_expr.register(tree.CoerceToDomainValue)
def _(expr: tree.CoerceToDomainValue, out: Printer, implicit: bool) -> None:
    out.put("VALUE")


@print_expr.register(tree.SetToDefault)
def _(expr: tree.SetToDefault, out: Printer, implicit: bool) -> None:
    out.put("DEFAULT")


@print_expr.register(tree.SQLValueFunction)
def _(expr: tree.SQLValueFunction, out: Printer, implicit: bool) -> None:
    out.put(expr.name.upper() + (f"({expr.typmod})" if expr.typmod >= 0 else ""))


@print_expr.register(tree.NextValueExpr)
def _(expr: tree.NextValueExpr, out: Printer, implicit: bool) -> None:
    name = simple_quote(display_name(out.session, relation(out.session, expr.sequence)), out)
    out.put(f"nextval({name}::regclass)")


# --- casts --------------------------------------------------------------------------------------------------------


def print_cast(arg: Expr, out: Printer, typoid: int, typmod: int, parent: Expr) -> None:
    """Print a cast as get_coercion_expr does; a constant of the type itself needs no parentheses."""
    if isinstance(arg, Const) and arg.type == typoid and arg.typmod == -1:
        print_const(arg, out, -1)
    else:
        _open(out)
        print_part(arg, out, False, parent)
        _close(out)
    out.put(f"::{type_with_typmod(out.session, typoid, typmod)}")


@print_expr.register(tree.RelabelType)
@print_expr.register(tree.CoerceViaIO)
@print_expr.register(tree.ArrayCoerceExpr)
@print_expr.register(tree.ConvertRowtypeExpr)
@print_expr.register(tree.CoerceToDomain)
def _(
    expr: tree.RelabelType | tree.CoerceViaIO | tree.ArrayCoerceExpr | tree.ConvertRowtypeExpr | tree.CoerceToDomain,
    out: Printer,
    implicit: bool,
) -> None:
    assert expr.arg is not None
    if expr.form is IMPLICIT and not implicit:
        print_part(expr.arg, out, False, expr)
        return
    has_typmod = isinstance(expr, (tree.RelabelType, tree.ArrayCoerceExpr, tree.CoerceToDomain))
    print_cast(expr.arg, out, expr.type, expr.typmod if has_typmod else -1, expr)


@print_expr.register(tree.CollateExpr)
def _(expr: tree.CollateExpr, out: Printer, implicit: bool) -> None:
    assert expr.arg is not None
    _open(out)
    print_part(expr.arg, out, implicit, expr)
    out.put(f" COLLATE {collation_text(out, expr.collation)}")
    _close(out)


# --- operators ----------------------------------------------------------------------------------------------------


@print_expr.register(OpExpr)
def _(expr: OpExpr, out: Printer, implicit: bool) -> None:
    _open(out)
    if len(expr.args) == 2:
        left, right = expr.args
        print_part(left, out, True, expr)
        out.put(f" {operator_name(out, expr.op, left.type, right.type)} ")
        print_part(right, out, True, expr)
    else:
        (arg,) = expr.args
        out.put(f"{operator_name(out, expr.op, 0, arg.type)} ")
        print_part(arg, out, True, expr)
    _close(out)


@print_expr.register(tree.DistinctExpr)
def _(expr: tree.DistinctExpr, out: Printer, implicit: bool) -> None:
    _open(out)
    print_part(expr.args[0], out, True, expr)
    out.put(" IS DISTINCT FROM ")
    print_part(expr.args[1], out, True, expr)
    _close(out)


@print_expr.register(tree.NullIfExpr)
def _(expr: tree.NullIfExpr, out: Printer, implicit: bool) -> None:
    out.put("NULLIF(")
    print_list(expr.args, out, True)
    out.put(")")


@print_expr.register(tree.ScalarArrayOpExpr)
def _(expr: tree.ScalarArrayOpExpr, out: Printer, implicit: bool) -> None:
    left, right = expr.args
    _open(out)
    print_part(left, out, True, expr)
    name = operator_name(out, expr.op, left.type, lookup.base_element(right.type))
    out.put(f" {name} {'ANY' if expr.use_or else 'ALL'} (")
    print_part(right, out, True, expr)
    if isinstance(right, tree.SubLink) and right.kind is SubLinkType.EXPR:
        # without a cast it would be ANY (subquery)
        out.put(f"::{type_with_typmod(out.session, right.type, right.typmod)}")
    out.put(")")
    _close(out)


@print_expr.register(tree.BoolExpr)
def _(expr: tree.BoolExpr, out: Printer, implicit: bool) -> None:
    _open(out)
    if expr.op is BoolOp.NOT:
        out.put("NOT ")
        print_part(expr.args[0], out, False, expr)
    else:
        for number, arg in enumerate(expr.args):
            if number:
                out.put(f" {expr.op.name} ")
            print_part(arg, out, False, expr)
    _close(out)


@print_expr.register(tree.NullTest)
def _(expr: tree.NullTest, out: Printer, implicit: bool) -> None:
    assert expr.arg is not None
    is_null = expr.kind is NullTestType.IS_NULL
    _open(out)
    print_part(expr.arg, out, True, expr)
    if expr.argisrow or not lookup.is_row(expr.arg.type):
        out.put(" IS NULL" if is_null else " IS NOT NULL")
    else:
        out.put(" IS NOT DISTINCT FROM NULL" if is_null else " IS DISTINCT FROM NULL")
    _close(out)


@print_expr.register(tree.BooleanTest)
def _(expr: tree.BooleanTest, out: Printer, implicit: bool) -> None:
    assert expr.arg is not None
    _open(out)
    print_part(expr.arg, out, False, expr)
    out.put(f" {expr.kind.value}")
    _close(out)
