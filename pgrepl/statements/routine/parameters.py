"""A new routine: its parameters and result, standard bodies as trees, what CREATE OR REPLACE must leave, what it
depends on, and where an error of its body stands in CREATE FUNCTION.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.depend import forget_dependencies, record_dependency
from pgrepl.catalog.facts.relation import without_transition_tables
from pgrepl.catalog.store.system import PG_CLASS, PG_NAMESPACE, PG_PROC, ObjectAddress
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query, transform
from pgrepl.expr.analyse.casts import type_name_text, type_of_name_or_none
from pgrepl.expr.analyse.coerce import coerce_to_specific
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import body_of
from pgrepl.expr.catalog_names import text_of
from pgrepl.expr.dml_tree import query_of, with_literals
from pgrepl.expr.rewrite.inline import SqlVariables, analysing
from pgrepl.expr.tree import Expr, Query, has_modifying_cte
from pgrepl.expr.walk import has_vars
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes import MODIFYING, FunctionParameter, ResTarget, ReturnStmt, SelectStmt, Statement, TypeName
from pgrepl.sql.statements import command_tag
from pgrepl.statements.dependencies import record_expressions, record_query_parts, record_types
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.expr.dml_tree import Modify

_VARIADIC_ELEMENTS = {oids.ANYARRAY: oids.ANYELEMENT, oids.ANYCOMPATIBLEARRAY: oids.ANYCOMPATIBLE, oids.ANY: oids.ANY}


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
            variadic = _VARIADIC_ELEMENTS.get(typoid) or lookup.element(typoid)
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
    if result not in lookup.POLYMORPHIC or any(typoid in _DECIDED_BY[result] for typoid in inputs):
        return
    needed = [lookup.type_text(session, typoid) for typoid in _DECIDED_BY[result]]
    listed = f"{needed[0]} or {needed[1]}" if len(needed) == 2 else f"{', '.join(needed[:-1])}, or {needed[-1]}"
    raise PgError(
        "42P13",
        "cannot determine result data type",
        detail=f"A result of type {lookup.type_text(session, result)} requires at least one input of type {listed}.",
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


# --- replacing --------------------------------------------------------------------------------------------------------


_KINDS = {"f": "a function", "p": "a procedure"}


def check_replaceable(session: Session, old: pg_proc, new: pg_proc) -> None:
    if old.prokind != new.prokind:
        raise PgError("42809", "cannot change routine kind", detail=f'"{old.proname}" is {_KINDS[old.prokind]}.')
    drop = "DROP PROCEDURE" if old.prokind == "p" else "DROP FUNCTION"
    hint = f"Use {drop} {text_of(session, oids.REGPROCEDURE, old.oid)} first."
    if old.prorettype != new.prorettype or old.proretset != new.proretset:
        message = "cannot change return type of existing function"
        if old.prokind == "p":
            message = "cannot change whether a procedure has output parameters"
        raise PgError("42P13", message, hint=hint)
    if new.prorettype == oids.RECORD and _outputs(old) != _outputs(new):
        raise PgError(
            "42P13",
            "cannot change return type of existing function",
            detail="Row type defined by OUT parameters is different.",
            hint=hint,
        )
    for before, after in zip(_input_names(old), _input_names(new), strict=True):
        if before and before != after:
            raise PgError("42P13", f'cannot change name of input parameter "{before}"', hint=hint)
    _check_defaults(session, old, new, hint)


def outputs_of(routine: pg_proc) -> list[tuple[str, int]]:
    """Names and types of the output parameters."""
    modes, types = routine.proargmodes or (), routine.proallargtypes or ()
    names = routine.proargnames or [""] * len(types)
    return [(name, typoid) for mode, typoid, name in zip(modes, types, names, strict=True) if mode in ("o", "b", "t")]


def _outputs(routine: pg_proc) -> list[tuple[str, int]]:
    """As build_function_result_tupdesc_d names them; a single one makes no row, unless it is a procedure's."""
    outputs = [(name or f"column{number}", typoid) for number, (name, typoid) in enumerate(outputs_of(routine), 1)]
    return outputs if len(outputs) > 1 or routine.prokind == "p" else []


def _input_names(routine: pg_proc) -> list[str]:
    names = routine.proargnames
    if names is None:
        return [""] * int(routine.pronargs)
    modes = routine.proargmodes or ["i"] * len(names)
    return [name for name, mode in zip(names, modes, strict=True) if mode in ("i", "b", "v")]


def _check_defaults(session: Session, old: pg_proc, new: pg_proc, hint: str) -> None:
    before, after = old.proargdefaults or [], new.proargdefaults or []
    if len(before) > len(after):
        raise PgError("42P13", "cannot remove parameter defaults from existing function", hint=hint)
    for one, other in zip(before, after[len(after) - len(before) :], strict=True):
        if stored.from_json(one, session).type != stored.from_json(other, session).type:
            raise PgError("42P13", "cannot change data type of existing parameter default value", hint=hint)


# --- standard body ----------------------------------------------------------------------------------------------------


def stored_body(
    session: Session,
    function: str,
    names: Sequence[str],
    types: Sequence[int],
    body: ReturnStmt | tuple[Statement, ...],
) -> dict[str, Any]:
    """The body as it is stored (expr/analyse/targets.py: body_of)."""
    if any(typoid in lookup.POLYMORPHIC for typoid in types):
        raise PgError("0A000", "SQL function with unquoted function body cannot have polymorphic arguments")
    statements = body if isinstance(body, tuple) else (body,)
    with without_transition_tables(session), analysing(session, SqlVariables(session, function, names, types)):
        trees = [stored.to_json(_analyzed(session, stmt)) for stmt in statements]
    return {
        "return": not isinstance(body, tuple),
        "returns": [number for number, stmt in enumerate(statements) if isinstance(stmt, ReturnStmt)],
        "statements": trees,
    }


def _analyzed(session: Session, stmt: Statement) -> Query | Modify:
    if isinstance(stmt, ReturnStmt):
        return analyze_query(session, SelectStmt(targets=(ResTarget(stmt.value, location=stmt.location),)))
    if isinstance(stmt, SelectStmt) and stmt.into is None:
        query = analyze_query(session, stmt)
        if not has_modifying_cte(query.ctes):
            return query
    elif isinstance(stmt, MODIFYING):
        modify = with_literals(analyze_modifying(session, stmt))
        if not has_modifying_cte(modify.ctes):
            return modify
    raise PgError("0A000", f"{command_tag(stmt)} is not yet supported in unquoted SQL function body")


def record_uses(session: Session, routine: pg_proc, *, replaced: bool) -> None:
    self = ObjectAddress(PG_PROC, routine.oid)
    if replaced:
        forget_dependencies(session, self)
    record_dependency(session, self, ObjectAddress(PG_NAMESPACE, routine.pronamespace))
    record_types(session, self, [routine.prorettype, *(routine.proallargtypes or routine.proargtypes)])
    if routine.prosqlbody is not None:
        parts = body_of(session, routine.prosqlbody)
        changing = [part for part in parts if not isinstance(part, Query)]
        record_query_parts(
            session,
            self,
            [part if isinstance(part, Query) else query_of(part) for part in parts],
            [ObjectAddress(PG_CLASS, part.relid, number) for part in changing for number in part.named],
        )
    record_expressions(session, self, [stored.from_json(data, session) for data in routine.proargdefaults or ()])


# --- errors of a body -------------------------------------------------------------------------------------------------


@contextmanager
def transposed(session: Session, source: str, context: str | None = None) -> Iterator[None]:
    """An error with a place in `source` gets its place in the running statement, where `source` is a string constant;
    one without a place gets the CONTEXT, if there is one."""
    try:
        yield
    except PgError as error:
        position = error.report.position
        if position is None:
            raise error if context is None else error.with_context(context) from None
        place = _place_in_statement(session.query, source, position)
        if place is None:
            error.inside(source)
        else:
            error.report = replace(error.report, position=place)
        raise


def _place_in_statement(statement: str, source: str, position: int) -> int | None:
    """The place of a character of the body in the statement, if the body occurs once as a string constant
    (match_prosrc_to_query)."""
    only: int | None = None
    for start, char in enumerate(statement):
        place = None
        if char == "$":
            delimiter = statement.find("$", start + 1)
            if delimiter > 0 and statement.startswith(source + statement[start : delimiter + 1], delimiter + 1):
                place = delimiter + 1 + position
        elif char == "'":
            place = _place_in_literal(statement, start + 1, source, position)
        if place is not None:
            if only is not None:
                return None
            only = place
    return only


def _place_in_literal(statement: str, start: int, source: str, position: int) -> int | None:
    """The same for a constant in quotes, in which quotes and backslashes may be doubled (match_prosrc_to_literal)."""
    at, place = start, None
    for number, char in enumerate(source, 1):
        if number == position:
            place = at + 1
        if statement[at : at + 1] == "\\" or statement[at : at + 2] == "''":
            at += 1
        if statement[at : at + 1] != char:
            return None
        at += 1
    if position == len(source) + 1:
        place = at + 1
    return place if statement[at : at + 1] == "'" and statement[at + 1 : at + 2] != "'" else None
