"""The parameters and the result type of a new routine (interpret_function_parameter_list, compute_return_type)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.analyze import transform
from pgrepl.expr.coerce import coerce_to_specific
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr
from pgrepl.expr.typenames import type_name_text, type_of_name_or_none
from pgrepl.expr.walk import has_vars
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import FunctionParameter, TypeName
from pgrepl.types import oids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session

_VARIADIC_ELEMENTS = {
    oids.ANYARRAY: oids.ANYELEMENT,
    oids.ANYCOMPATIBLEARRAY: oids.ANYCOMPATIBLE,
    oids.ANY: oids.ANY,
}


@frozen
class Parameters:
    """The parameters as pg_proc has them. all_types, modes: None if there are only input parameters."""

    types: tuple[int, ...]
    all_types: tuple[int, ...] | None
    modes: str | None
    names: tuple[str, ...] | None
    defaults: tuple[Expr, ...]
    variadic: int
    result: int  # the type that output parameters give the result; 0: there are none


def interpret(session: Session, parameters: Sequence[FunctionParameter], *, is_procedure: bool) -> Parameters:
    inputs: list[int] = []
    every: list[int] = []
    modes: list[str] = []
    names: list[str] = []
    defaults: list[Expr] = []
    outputs: list[int] = []
    variadic = 0
    for parameter in parameters:
        mode = "i" if parameter.mode == "d" else parameter.mode
        typoid = _type(session, parameter, is_procedure)
        if parameter.is_input:
            if variadic:
                raise PgError("42P13", "VARIADIC parameter must be the last input parameter")
            inputs.append(typoid)
        if mode in "ob" and is_procedure and variadic:
            raise PgError("42P13", "VARIADIC parameter must be the last parameter")
        if mode in "obt":
            outputs.append(typoid)
        if mode == "v":
            variadic = _VARIADIC_ELEMENTS.get(typoid) or typefacts.element(typoid)
            if not variadic:
                raise PgError("42P13", "VARIADIC parameter must be an array")
        _check_name(parameters[: len(every)], parameter, mode)
        if parameter.default is not None:
            if not parameter.is_input:
                raise PgError("42P13", "only input parameters can have default values")
            defaults.append(_default(session, parameter, typoid))
        elif parameter.is_input and defaults:
            raise PgError("42P13", "input parameters after one with a default value must also have defaults")
        elif is_procedure and mode == "o" and defaults:
            raise PgError("42P13", "procedure OUT parameters cannot appear after one with a default value")
        every.append(typoid)
        modes.append(mode)
        names.append(parameter.name or "")
    only_inputs = set(modes) <= {"i"}
    result = 0
    if outputs:
        result = outputs[0] if len(outputs) == 1 and not is_procedure else oids.RECORD
    return Parameters(
        tuple(inputs),
        None if only_inputs else tuple(every),
        None if only_inputs else "".join(modes),
        tuple(names) if any(names) else None,
        tuple(defaults),
        variadic,
        result,
    )


def _type(session: Session, parameter: FunctionParameter, is_procedure: bool) -> int:
    typoid = type_of_name_or_none(session, parameter.type_name)
    if typoid is None:
        raise PgError("42704", f"type {type_name_text(parameter.type_name)} does not exist")
    if parameter.type_name.setof:
        raise PgError("42P13", f"{'procedures' if is_procedure else 'functions'} cannot accept set arguments")
    return typoid


def _check_name(before: Sequence[FunctionParameter], parameter: FunctionParameter, mode: str) -> None:
    """A name may be used for an input and for an output parameter."""
    if not parameter.name:
        return
    for other in before:
        known = "i" if other.mode == "d" else other.mode
        if other.name != parameter.name:
            continue
        if (mode in "iv" and known in "ot") or (mode in "ot" and known in "iv"):
            continue
        raise PgError("42P13", f'parameter name "{parameter.name}" used more than once')


def _default(session: Session, parameter: FunctionParameter, typoid: int) -> Expr:
    assert parameter.default is not None
    scope = Scope(session)
    expr = transform(scope, parameter.default, ExprKind.FUNCTION_DEFAULT)
    expr = assign_collations(coerce_to_specific(scope, expr, typoid, "DEFAULT"))
    if has_vars(expr):
        raise PgError("42P10", "cannot use table references in parameter default value")
    return expr


def result_type(session: Session, name: TypeName) -> tuple[int, bool]:
    """The type of RETURNS, and whether it is a set of it (compute_return_type)."""
    typoid = type_of_name_or_none(session, name)
    if typoid is None:
        raise PgError("42704", f'type "{type_name_text(name)}" does not exist')
    return typoid, name.setof


def check_polymorphic(session: Session, result: int, inputs: Sequence[int]) -> None:
    """A polymorphic result needs an input that decides its type (check_valid_polymorphic_signature)."""
    if result not in typefacts.POLYMORPHIC or any(typoid in _DECIDED_BY[result] for typoid in inputs):
        return
    needed = [typefacts.type_text(session, typoid) for typoid in _DECIDED_BY[result]]
    listed = f"{needed[0]} or {needed[1]}" if len(needed) == 2 else f"{', '.join(needed[:-1])}, or {needed[-1]}"
    raise PgError(
        "42P13",
        "cannot determine result data type",
        detail=f"A result of type {typefacts.type_text(session, result)} requires at least one input of type {listed}.",
    )


def check_internal(result: int, inputs: Sequence[int]) -> None:
    if result == oids.INTERNAL and oids.INTERNAL not in inputs:
        raise PgError(
            "42P13",
            'unsafe use of pseudo-type "internal"',
            detail="A result of type internal requires at least one input of type internal.",
        )


_FAMILY_1 = (oids.ANYELEMENT, oids.ANYARRAY, oids.ANYNONARRAY, oids.ANYENUM, oids.ANYRANGE, oids.ANYMULTIRANGE)
_FAMILY_2 = (
    oids.ANYCOMPATIBLE,
    oids.ANYCOMPATIBLEARRAY,
    oids.ANYCOMPATIBLENONARRAY,
    oids.ANYCOMPATIBLERANGE,
    oids.ANYCOMPATIBLEMULTIRANGE,
)
_DECIDED_BY = {
    **dict.fromkeys(_FAMILY_1[:4], _FAMILY_1),
    **dict.fromkeys(_FAMILY_1[4:], _FAMILY_1[4:]),
    **dict.fromkeys(_FAMILY_2[:3], _FAMILY_2),
    **dict.fromkeys(_FAMILY_2[3:], _FAMILY_2[3:]),
}
