"""The options of CREATE and ALTER OPERATOR; commutators and negators, which name each other before they are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import routines
from pgrepl.catalog.facts.acl import check_execute, check_owner
from pgrepl.catalog.facts.depend import forget_dependencies, record_dependency
from pgrepl.catalog.facts.namespace import schema_for_creation
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.routines import is_user_routine, routine_row
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_NAMESPACE, PG_OPERATOR, ObjectAddress
from pgrepl.catalog.store.tables import pg_operator
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import procs_named
from pgrepl.expr.analyse.operators import operators_named
from pgrepl.expr.analyse.scope import Scope
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.statements.dependencies import record_functions, record_types
from pgrepl.types import oids
from pgrepl.types.builtin import Operator, Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Names = tuple[str, ...]

_RESTRICT = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT4)
_JOIN = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT2, oids.INTERNAL)


def function_of(session: Session, name: Names, types: Sequence[int]) -> Proc:
    """The function with exactly these argument types (LookupFuncName), which the role may execute."""
    found = _function_or_none(session, name, types)
    if found is None:
        given = ", ".join(lookup.type_text(session, typoid) for typoid in types)
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
    """The estimator that is named, with the signature that it must have (ValidateRestrictionEstimator)."""
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


# --- links ------------------------------------------------------------------------------------------------------------


_OPERATOR_CHARACTERS = frozenset("~!@#^&|`?+-*/%<>=")
_MOST_BYTES = 63  # of a name
_WORDS = {"oprcom": "commutator", "oprnegate": "negator"}


def check_name(name: str) -> None:
    """As validOperatorName does, which follows the scanner."""
    valid = 0 < len(name) <= _MOST_BYTES and set(name) <= _OPERATOR_CHARACTERS
    if "/*" in name or "--" in name or name == "!=":
        valid = False
    if len(name) > 1 and name[-1] in "+-" and not set(name[:-1]) & set("~!@#^&|`?%"):
        valid = False
    if not valid:
        raise PgError("42602", f'"{name}" is not a valid operator name')


def operator_of_types(session: Session, name: Names, left: int, right: int) -> Operator | None:
    """The operator with exactly these operands (OpernameGetOprid)."""
    named = operators_named(Scope(session), name)
    return next((o for o in named if (o.left, o.right) == (left, right)), None)


def other_operator(session: Session, name: Names, left: int, right: int, own: tuple[int, str, int, int]) -> int:
    """The operator that is named as commutator or negator, or a shell of it; 0: it is the operator itself, whose
    schema, name and operands are `own` (get_other_operator)."""
    known = operator_of_types(session, name, left, right)
    if known is None:
        schema, symbol = lookup.split_name(session, name)
        namespace = schema_for_creation(session, schema)
        if (namespace, symbol, left, right) == own:
            return 0
        return make_shell(session, namespace, symbol, left, right)
    row = routines.operator_row(session, known.oid)
    check_owner(session, "operator", ".".join(name), BOOTSTRAP_SUPERUSER if row is None else row.oprowner)
    return known.oid


def make_shell(session: Session, namespace: int, name: str, left: int, right: int) -> int:
    check_name(name)
    oid = store.new_oid(session)
    store.insert(
        session, pg_operator, datid=session.database_oid, oid=oid, oprname=name, oprnamespace=namespace,
        oprowner=session.role, oprkind="b" if left else "l", oprcanmerge=False, oprcanhash=False, oprleft=left,
        oprright=right, oprresult=0, oprcom=0, oprnegate=0, oprcode=0, oprrest=0, oprjoin=0,
    )  # fmt: skip
    record_uses(session, oid)
    return oid


def record_uses(session: Session, oid: int) -> None:
    """As makeOperatorDependencies does: commutator and negator are not among them."""
    row = routines.operator_row(session, oid)
    assert row is not None
    self = ObjectAddress(PG_OPERATOR, oid)
    forget_dependencies(session, self)
    record_dependency(session, self, ObjectAddress(PG_NAMESPACE, row.oprnamespace))
    record_types(session, self, (row.oprleft, row.oprright, row.oprresult))
    record_functions(session, self, (row.oprcode, row.oprrest, row.oprjoin))


def link(session: Session, oid: int, *, commutator: int, negator: int) -> None:
    """The other operators name this one (OperatorUpd)."""
    for column, other in (("oprcom", commutator), ("oprnegate", negator)):
        if not other:
            continue
        row = routines.operator_row(session, other)
        known = routines.operator(session, other)
        assert known is not None
        linked = known.commutator if column == "oprcom" else known.negator
        if linked == oid:
            continue
        if linked:
            word = _WORDS[column]
            third = routines.operator(session, linked)
            shown = str(linked) if third is None else third.name
            raise PgError("42P17", f"{word} operator {known.name} is already the {word} of operator {shown}")
        if row is None:
            described = describe_object(session, ObjectAddress(PG_OPERATOR, other))
            raise unsupported(f"changing the built-in {described}")
        store.update(session, pg_operator, {"oid": other}, **{column: oid})


def unlink(session: Session, oid: int) -> None:
    """No operator names one that is dropped."""
    for column in _WORDS:
        where = {"datid": session.database_oid, column: oid}
        store.update(session, pg_operator, where, **{column: 0})
