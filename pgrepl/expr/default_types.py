"""Defaults of polymorphic parameters, whose types follow from the other arguments (recheck_cast_function_args)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.polymorphic import resolve
from pgrepl.expr.scope import Scope
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Expr


def with_default_types(
    session: Session, declared: Sequence[int], args: Sequence[Expr], filled: Collection[int]
) -> list[Expr]:
    """The arguments of all input parameters; those that defaults have filled are cast to the types that the polymorphic
    ones among them have here."""
    found = list(args)
    if not any(declared[number] in typefacts.POLYMORPHIC for number in filled):
        return found
    types, _ = resolve(session, [arg.type for arg in args], declared, oids.VOID)
    scope = Scope(session)
    for number in filled:
        given, wanted = found[number], types[number]
        made = coerce_to_target(scope, given, given.type, wanted, -1, Context.IMPLICIT, IMPLICIT_CAST, -1)
        found[number] = given if made is None else made
    return found
