"""CREATE, ALTER and DROP OPERATOR (DefineOperator, OperatorCreate); commutators and negators, which name each other
before they are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_owner
from pgrepl.catalog.facts.depend import forget_dependencies, record_dependency
from pgrepl.catalog.facts.namespace import (
    check_may_execute,
    namespace_of,
    operator,
    operator_row,
    operators_called,
    schema_for_creation,
    schema_or_none,
)
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.roles import resolve_role
from pgrepl.catalog.facts.user_types import check_usage
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_NAMESPACE, PG_OPERATOR, ObjectAddress
from pgrepl.catalog.store.tables import pg_operator
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import procs_named
from pgrepl.expr.analyse.casts import type_name_text, type_of_name, type_of_name_or_none
from pgrepl.expr.analyse.operators import operators_named, signature
from pgrepl.expr.analyse.scope import Scope
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.location import get_boolean, get_qualified_name, get_type_name
from pgrepl.sql.nodes import AlterOperatorStmt, DefElem, DefineStmt, DropOperatorStmt, OperatorName, TypeName
from pgrepl.statements.deletion import check_may_drop, check_may_give, check_may_move, depend_on_schema, drop_objects
from pgrepl.statements.dependencies import record_functions, record_types
from pgrepl.types import oids
from pgrepl.types.builtin import Operator, Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Names = tuple[str, ...]

_FLAGS = ("hashes", "merges")
_MERGES = ("sort1", "sort2", "ltcmp", "gtcmp")  # obsolete
_NAMES = ("function", "procedure", "commutator", "negator", "restrict", "join")


def create_operator(stmt: DefineStmt, session: Session) -> Result:
    schema, name = lookup.split_name(session, stmt.name)
    namespace = schema_for_creation(session, schema)
    given = _read(session, stmt.options)
    if "function" not in given:
        raise PgError("42P13", "operator function must be specified")
    left, right = (_operand(session, given.get(operand)) for operand in ("leftarg", "rightarg"))
    if not left and not right:
        raise PgError("42P13", "operator argument types must be specified")
    if not right:
        raise PgError(
            "42P13", "operator right argument type must be specified", detail="Postfix operators are not supported."
        )
    for typoid in filter(None, (left, right)):
        check_usage(session, typoid)
    function = function_of(session, given["function"], (left, right) if left else (right,))
    check_usage(session, function.rettype)
    values: dict[str, Any] = {
        "oprname": name, "oprnamespace": namespace, "oprkind": "b" if left else "l", "oprleft": left, "oprright": right,
        "oprresult": function.rettype, "oprcode": function.oid, "oprcanmerge": given.get("merges", False),
        "oprcanhash": given.get("hashes", False),
        "oprrest": restriction_estimator(session, given["restrict"]) if "restrict" in given else 0,
        "oprjoin": join_estimator(session, given["join"]) if "join" in given else 0,
    }  # fmt: skip
    _create(session, values, given)
    return Result("CREATE OPERATOR")


def _read(session: Session, options: tuple[DefElem, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for option in options:
        if option.name in ("leftarg", "rightarg"):
            given[option.name] = get_type_name(option)
            if given[option.name].setof:
                raise PgError("42P13", "SETOF type not allowed for operator argument")
        elif option.name in _NAMES:
            given["function" if option.name == "procedure" else option.name] = get_qualified_name(option)
        elif option.name in _FLAGS:
            given[option.name] = get_boolean(option)
        elif option.name in _MERGES:
            given["merges"] = True
        else:
            session.notice("WARNING", f'operator attribute "{option.name}" not recognized', sqlstate="42601")
    return given


def _operand(session: Session, name: Any) -> int:
    return 0 if name is None else type_of_name(session, replace(name, location=-1))[0]


def _create(session: Session, values: dict[str, Any], given: dict[str, Any]) -> None:
    name, namespace, left, right = (values[c] for c in ("oprname", "oprnamespace", "oprleft", "oprright"))
    check_name(name)
    check_allowed(
        is_binary=bool(left), is_boolean=values["oprresult"] == oids.BOOL, commutator="commutator" in given,
        negator="negator" in given, restrict="restrict" in given, join="join" in given, merges=values["oprcanmerge"],
        hashes=values["oprcanhash"],
    )  # fmt: skip
    named = operators_called(session, name, namespace)
    known = next((o for o in named if (o.left, o.right) == (left, right)), None)
    if known is not None and known.code:
        raise PgError("42723", f"operator {name} already exists")
    shell = None if known is None else operator_row(session, known.oid)
    if shell is not None:
        check_owner(session, "operator", name, shell.oprowner)
    self = namespace, name, left, right
    commutator = negator = 0
    if "commutator" in given:
        commutator = other_operator(session, given["commutator"], right, left, self)
    if "negator" in given:
        negator = other_operator(session, given["negator"], left, right, self)
        if not negator or (shell is not None and negator == shell.oid):
            raise PgError("42P13", "operator cannot be its own negator")
    values |= {"oprowner": session.role, "oprcom": commutator, "oprnegate": negator}
    if shell is None:
        oid = store.new_oid(session)
        store.insert(session, pg_operator, datid=session.database_oid, oid=oid, **values)
    else:
        oid = shell.oid
        store.update(session, pg_operator, {"oid": oid}, **values)
    record_uses(session, oid)
    if "commutator" in given and not commutator:
        commutator = oid
        store.update(session, pg_operator, {"oid": oid}, oprcom=oid)
    link(session, oid, commutator=commutator, negator=negator)


# --- alter ------------------------------------------------------------------------------------------------------------


_FIXED = ("leftarg", "rightarg", "function", "procedure")
_ALTER_FLAGS = {"merges": "oprcanmerge", "hashes": "oprcanhash"}


def find_operator(session: Session, wanted: OperatorName) -> pg_operator:
    """The operator that a statement names, which must be a user's."""
    oper = _find(session, wanted)
    row = operator_row(session, oper.oid)
    if row is None:
        check_owner(session, "operator", ".".join(wanted.name), BOOTSTRAP_SUPERUSER)
        raise unsupported(f"changing the built-in operator {oper.name}")
    return row


def _find(session: Session, wanted: OperatorName) -> Operator:
    """The operator that a statement names, with its operand types (LookupOperWithArgs)."""
    left, right = (_alter_operand(session, name) for name in (wanted.left, wanted.right))
    if not right:
        raise PgError("42601", "postfix operators are not supported")
    oper = operator_of_types(session, wanted.name, left, right)
    if oper is None:
        text = signature(Scope(session), wanted.name, left, right)
        raise PgError("42883", f"operator does not exist: {text}")
    return oper


def _alter_operand(session: Session, name: TypeName | None) -> int:
    if name is None:
        return 0
    typoid = type_of_name_or_none(session, name)
    if typoid is None:
        raise PgError("42704", f'type "{type_name_text(name)}" does not exist')
    return typoid


def alter_operator(stmt: AlterOperatorStmt, session: Session) -> Result:
    row = find_operator(session, stmt.operator)
    if stmt.new_owner is not None:
        change_operator_owner(session, row, resolve_role(session, stmt.new_owner))
    elif stmt.new_schema is not None:
        _move(session, row, stmt.new_schema)
    else:
        _change(session, row, stmt.options)
    return Result("ALTER OPERATOR")


def change_operator_owner(session: Session, row: pg_operator, owner: int) -> None:
    if row.oprowner != owner:
        check_may_give(session, "operator", row.oprname, row.oprowner, row.oprnamespace, owner)
        store.update(session, pg_operator, {"oid": row.oid}, oprowner=owner)


def _move(session: Session, row: pg_operator, schema: str) -> None:
    namespace = schema_for_creation(session, schema)
    check_owner(session, "operator", row.oprname, row.oprowner)
    check_may_move(session, row.oprnamespace, namespace)
    if namespace == row.oprnamespace:
        return
    there = operators_called(session, row.oprname, namespace)
    if any((o.left, o.right) == (row.oprleft, row.oprright) for o in there):
        key = f"({row.oprname}, {row.oprleft}, {row.oprright}, {namespace})"
        raise PgError(
            "23505",
            'duplicate key value violates unique constraint "pg_operator_oprname_l_r_n_index"',
            detail=f"Key (oprname, oprleft, oprright, oprnamespace)={key} already exists.",
        )
    store.update(session, pg_operator, {"oid": row.oid}, oprnamespace=namespace)
    depend_on_schema(session, ObjectAddress(PG_OPERATOR, row.oid), namespace)


def _change(session: Session, row: pg_operator, options: tuple[DefElem, ...]) -> None:
    """ALTER OPERATOR … SET (…) (AlterOperator)."""
    given = _alter_read(options)
    check_owner(session, "operator", row.oprname, row.oprowner)
    values: dict[str, Any] = {_ALTER_FLAGS[name]: value for name, value in given.items() if name in _ALTER_FLAGS}
    if "restrict" in given:
        values["oprrest"] = restriction_estimator(session, given["restrict"]) if given["restrict"] else 0
    if "join" in given:
        values["oprjoin"] = join_estimator(session, given["join"]) if given["join"] else 0
    if "commutator" in given:
        values["oprcom"] = _existing_operator(session, given["commutator"], row.oprright, row.oprleft)
    if "negator" in given:
        values["oprnegate"] = _existing_operator(session, given["negator"], row.oprleft, row.oprright)
        if values["oprnegate"] == row.oid:
            raise PgError("42P13", "operator cannot be its own negator")
    _refuse_other_values(row, values)
    check_allowed(
        is_binary=bool(row.oprleft and row.oprright), is_boolean=row.oprresult == oids.BOOL,
        commutator="oprcom" in values, negator="oprnegate" in values, restrict=bool(values.get("oprrest")),
        join=bool(values.get("oprjoin")), merges=bool(values.get("oprcanmerge")), hashes=bool(values.get("oprcanhash")),
    )  # fmt: skip
    store.update(session, pg_operator, {"oid": row.oid}, **values)
    record_uses(session, row.oid)
    link(session, row.oid, commutator=values.get("oprcom", 0), negator=values.get("oprnegate", 0))


def _existing_operator(session: Session, name: tuple[str, ...], left: int, right: int) -> int:
    """The commutator or negator that ALTER OPERATOR names (ValidateOperatorReference)."""
    oper = operator_of_types(session, name, left, right)
    if oper is None or not oper.code:
        problem = "does not exist" if oper is None else "is only a shell"
        raise PgError("42883", f"operator {problem}: {signature(Scope(session), name, left, right)}")
    row = operator_row(session, oper.oid)
    check_owner(session, "operator", ".".join(name), BOOTSTRAP_SUPERUSER if row is None else row.oprowner)
    return oper.oid


def _alter_read(options: tuple[DefElem, ...]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for option in options:
        if option.name in ("restrict", "join"):
            given[option.name] = None if option.value is None else get_qualified_name(option)
        elif option.name in ("commutator", "negator"):
            given[option.name] = get_qualified_name(option)
        elif option.name in _ALTER_FLAGS:
            given[option.name] = get_boolean(option)
        else:
            problem = "cannot be changed" if option.name in _FIXED else "not recognized"
            raise PgError("42601", f'operator attribute "{option.name}" {problem}')
    return given


def _refuse_other_values(row: pg_operator, values: dict[str, Any]) -> None:
    """What plans may rely on is set once."""
    for name, column in {"commutator": "oprcom", "negator": "oprnegate", **_ALTER_FLAGS}.items():
        before = getattr(row, column)
        if column in values and before and values[column] != before:
            message = f'operator attribute "{name}" cannot be changed if it has already been set'
            raise PgError("42P17", message)


def drop_operator(stmt: DropOperatorStmt, session: Session) -> Result:
    addresses = []
    for wanted in stmt.operators:
        if stmt.missing_ok:
            missing = _missing(session, wanted)
            if missing is not None:
                session.notice("NOTICE", f"{missing} does not exist, skipping")
                continue
        oper = _find(session, wanted)
        row = operator_row(session, oper.oid)
        owner = BOOTSTRAP_SUPERUSER if row is None else row.oprowner
        check_may_drop(session, "operator", ".".join(wanted.name), owner, namespace_of(session, oper.oid))
        addresses.append(ObjectAddress(PG_OPERATOR, oper.oid))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result("DROP OPERATOR")


def _missing(session: Session, wanted: OperatorName) -> str | None:
    """What does not exist, as does_not_exist_skipping says; None: the operator exists."""
    if len(wanted.name) > 1 and schema_or_none(session, wanted.name[-2]) is None:
        return f'schema "{wanted.name[-2]}"'
    for name in filter(None, (wanted.left, wanted.right)):
        if len(name.names) > 1 and schema_or_none(session, name.names[-2]) is None:
            return f'schema "{name.names[-2]}"'
        if type_of_name_or_none(session, name) is None:
            return f'type "{type_name_text(name)}"'
    try:
        _find(session, wanted)
    except PgError as error:
        if error.sqlstate == "42883":
            return f"operator {'.'.join(wanted.name)}"
        raise
    return None


# --- functions and estimators -----------------------------------------------------------------------------------------


_RESTRICT = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT4)
_JOIN = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT2, oids.INTERNAL)


def function_of(session: Session, name: Names, types: Sequence[int]) -> Proc:
    """The function with exactly these argument types (LookupFuncName), which the role may execute."""
    proc = _function_or_none(session, name, types)
    if proc is None:
        given = ", ".join(lookup.type_text(session, typoid) for typoid in types)
        raise PgError("42883", f"function {'.'.join(name)}({given}) does not exist")
    check_may_execute(session, proc.oid)
    return proc


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
    proc = function_of(session, name, types)
    if proc.rettype != oids.FLOAT8:
        raise PgError("42P17", f"{word} estimator function {'.'.join(name)} must return type float8")
    return proc.oid


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
    """Raise unless the scanner would read the name as one operator (validOperatorName)."""
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
    row = operator_row(session, known.oid)
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
    row = operator_row(session, oid)
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
        row = operator_row(session, other)
        known = operator(session, other)
        assert known is not None
        linked = known.commutator if column == "oprcom" else known.negator
        if linked == oid:
            continue
        if linked:
            word = _WORDS[column]
            third = operator(session, linked)
            shown = str(linked) if third is None else third.name
            raise PgError("42P17", f"{word} operator {known.name} is already the {word} of operator {shown}")
        if row is None:
            described = describe_object(session, ObjectAddress(PG_OPERATOR, other))
            raise unsupported(f"changing the built-in {described}")
        store.update(session, pg_operator, {"oid": other}, **{column: oid})
