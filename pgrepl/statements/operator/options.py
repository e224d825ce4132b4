"""The options of CREATE and ALTER OPERATOR: types, functions and flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import check_execute
from pgrepl.catalog.routines import is_user_routine, routine_row
from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.calls import procs_named
from pgrepl.expr.scope import Scope
from pgrepl.types import oids
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Names = tuple[str, ...]

_RESTRICT = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT4)
_JOIN = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT2, oids.INTERNAL)


def function_of(session: Session, name: Names, types: Sequence[int]) -> Proc:
    """The function with exactly these argument types (LookupFuncName), which the role may execute."""
    found = _function_or_none(session, name, types)
    if found is None:
        given = ", ".join(typefacts.type_text(session, typoid) for typoid in types)
        raise PgError("42883", f"function {'.'.join(name)}({given}) does not exist")
    if is_user_routine(found.oid):
        row = routine_row(session, found.oid)
        assert row is not None
        check_execute(session, row)
    return found


def _function_or_none(session: Session, name: Names, types: Sequence[int]) -> Proc | None:
    named = procs_named(Scope(session), name)
    return next((proc for proc in named if proc.argtypes == tuple(types) and proc.kind != "p"), None)


def restriction_estimator(session: Session, name: Names) -> int:
    """As ValidateRestrictionEstimator does."""
    return _estimator(session, "restriction", name, _RESTRICT)


def join_estimator(session: Session, name: Names) -> int:
    """As ValidateJoinEstimator does: the signature with four arguments is an old one."""
    five, four = (_function_or_none(session, name, types) for types in (_JOIN, _JOIN[:4]))
    if five is not None and four is not None:
        text = ".".join(name)
        raise PgError("42725", f"join estimator function {text} has multiple matches")
    return _estimator(session, "join", name, _JOIN if four is None else _JOIN[:4])


def _estimator(session: Session, word: str, name: Names, types: Sequence[int]) -> int:
    found = function_of(session, name, types)
    if found.rettype != oids.FLOAT8:
        raise PgError("42P17", f"{word} estimator function {'.'.join(name)} must return type float8")
    return found.oid


def check_allowed(
    *,
    is_binary: bool,
    is_boolean: bool,
    commutator: bool = False,
    negator: bool = False,
    restrict: bool = False,
    join: bool = False,
    merges: bool = False,
    hashes: bool = False,
) -> None:
    """What only binary, or only boolean operators can have (OperatorValidateParams)."""
    of_binary = {"have commutators": commutator, "have join selectivity": join, "merge join": merges, "hash": hashes}
    of_boolean = {
        "have negators": negator, "have restriction selectivity": restrict, "have join selectivity": join,
        "merge join": merges, "hash": hashes,
    }  # fmt: skip
    for word, wanted, allowed in (("binary", of_binary, is_binary), ("boolean", of_boolean, is_boolean)):
        for what, given in wanted.items():
            if given and not allowed:
                raise PgError("42P13", f"only {word} operators can {what}")
