"""Names of catalog objects in text: what `'t'::regclass` means, and how a regclass is printed (regproc.c)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import namespace
from pgrepl.catalog.facts.namespace import routine, schema_or_none, schema_row
from pgrepl.catalog.facts.relation import display_name, find_relation_oid, range_var, relation_or_none
from pgrepl.catalog.facts.roles import role_or_none, role_row
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import is_visible, procs_named
from pgrepl.expr.analyse.casts import collation_of_name, missing_collation, type_of_name
from pgrepl.expr.analyse.operators import MAX_ARGUMENTS, operators_named
from pgrepl.expr.analyse.scope import Scope
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.parser import parse_type_name
from pgrepl.types import builtin, oids
from pgrepl.types.builtin import BuiltinCatalog, Operator, Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


_SPACE = " \t\n\r\f"


def oid_of(session: Session, typoid: int, text: str) -> int:
    return _READERS[typoid](session, text)


def text_of(session: Session, typoid: int, oid: int) -> str:
    text = _WRITERS[typoid](session, oid)
    return text if text is not None else str(oid)


def _names(text: str) -> tuple[str, ...]:
    """The parts of a qualified name, quoted or folded (stringToQualifiedNameList)."""
    names = split_identifiers(text, ".")
    if not names:
        raise PgError("42602", "invalid name syntax")
    return tuple(names)


def _one_name(text: str) -> str:
    names = _names(text)
    if len(names) != 1:
        raise PgError("42602", "invalid name syntax")
    return names[0]


def _schema_is_missing(session: Session, names: tuple[str, ...]) -> bool:
    schema, _ = lookup.split_name(session, names)
    return schema is not None and schema_or_none(session, schema) is None


# --- relations, schemas, roles, types, collations -----------------------------------------------------------------


def _class(session: Session, text: str) -> int:
    """The relation, kept until a definition changes: a query may ask for each of its rows."""
    key = ("regclass", text, session.settings.get("search_path"), session.role)
    known: int | None = session.derived.get(key)
    if known is not None:
        return known
    names = _names(text)
    oid = find_relation_oid(session, range_var(names), missing_ok=True)
    if oid is None:
        raise PgError("42P01", f'relation "{".".join(names)}" does not exist')
    session.derived[key] = oid
    return oid


def _class_text(session: Session, oid: int) -> str | None:
    rel = relation_or_none(session, oid)
    return display_name(session, rel) if rel is not None else None


def _named(what: str, sqlstate: str, find: Callable[[Session, str], Any]) -> Callable[[Session, str], int]:
    def read(session: Session, text: str) -> int:
        name = _one_name(text)
        row = find(session, name)
        if row is None:
            raise PgError(sqlstate, f'{what} "{name}" does not exist')
        return int(row.oid)

    return read


def _namespace_text(session: Session, oid: int) -> str | None:
    row = schema_row(session, oid)
    return quote_identifier(row.nspname) if row is not None else None


def _role_text(session: Session, oid: int) -> str | None:
    row = role_row(session, oid)
    return quote_identifier(row.rolname) if row is not None else None


def _type(session: Session, text: str) -> int:
    return type_and_modifier(session, text)[0]


def type_and_modifier(session: Session, text: str) -> tuple[int, int]:
    """The type and the modifier that a text names (parseTypeString)."""
    if not text.strip(_SPACE + "\v"):
        raise PgError("42601", f'invalid type name "{text}"')
    try:
        name = parse_type_name(text)
    except PgError as error:
        report = error.report
        raise PgError(report.sqlstate, report.message, context=f'invalid type name "{text}"') from None
    if name.setof:
        raise PgError("42601", f'invalid type name "{text}"')
    return type_of_name(session, replace(name, location=-1))


def _type_text(session: Session, oid: int) -> str | None:
    text = lookup.type_text(session, oid)
    return text if text != "???" else None


def _collation(session: Session, text: str) -> int:
    names = _names(text)
    if _schema_is_missing(session, names):
        raise missing_collation(names)
    return collation_of_name(session, names)


def _text_search(what: str, rows: BuiltinCatalog[Any]) -> Callable[[Session, str], int]:
    """All of these objects are in pg_catalog, which is always searched."""

    def read(session: Session, text: str) -> int:
        names = _names(text)
        schema, name = lookup.split_name(session, names)
        named = rows.named(name) if schema in (None, "pg_catalog") else ()
        if not named:
            raise PgError("42704", f'text search {what} "{".".join(names)}" does not exist')
        return int(named[0].oid)

    return read


def _text_search_text(rows: BuiltinCatalog[Any]) -> Callable[[Session, int], str | None]:
    def write(session: Session, oid: int) -> str | None:
        row = rows.get(oid)
        return None if row is None else quote_identifier(row.name)

    return write


# --- functions and operators --------------------------------------------------------------------------------------


def _candidates(session: Session, names: tuple[str, ...]) -> list[Proc]:
    """The functions of a name. A schema that does not exist has none."""
    if _schema_is_missing(session, names):
        return []
    procs: dict[tuple[int, ...], Proc] = {}
    for proc in procs_named(Scope(session), names):
        procs.setdefault(proc.argtypes, proc)
    return list(procs.values())


def _proc(session: Session, text: str) -> int:
    procs = _candidates(session, _names(text))
    if not procs:
        raise PgError("42883", f'function "{text}" does not exist')
    if len(procs) > 1:
        raise PgError("42725", f'more than one function named "{text}"')
    return procs[0].oid


def _proc_text(session: Session, oid: int) -> str | None:
    proc = routine(session, oid)
    if proc is None:
        return None
    procs = _candidates(session, (proc.name,))
    name = quote_identifier(proc.name)
    return name if [proc.oid for proc in procs] == [oid] else f"{quote_identifier(proc.schema)}.{name}"


def _procedure(session: Session, text: str) -> int:
    names, types = _signature(session, text, none_ok=False)
    for proc in _candidates(session, names):
        if list(proc.argtypes) == types:
            return proc.oid
    raise PgError("42883", f'function "{text}" does not exist')


def _procedure_text(session: Session, oid: int) -> str | None:
    proc = routine(session, oid)
    if proc is None:
        return None
    name = quote_identifier(proc.name)
    if not is_visible(session, proc):
        name = f"{quote_identifier(proc.schema)}.{name}"
    return f"{name}({','.join(lookup.type_text(session, t) for t in proc.argtypes)})"


def _operators(session: Session, names: tuple[str, ...]) -> list[Operator]:
    return [] if _schema_is_missing(session, names) else operators_named(Scope(session), names)


def _operator(session: Session, text: str) -> int:
    operators = _operators(session, _names(text))
    if not operators:
        raise PgError("42883", f"operator does not exist: {text}")
    if len(operators) > 1:
        raise PgError("42725", f"more than one operator named {text}")
    return operators[0].oid


def _operator_text(session: Session, oid: int) -> str | None:
    operator = namespace.operator(session, oid)
    if operator is None:
        return None
    alone = [op.oid for op in _operators(session, (operator.name,))] == [oid]
    return operator.name if alone else namespace.operator_text(session, oid)


def _operator_with_types(session: Session, text: str) -> int:
    names, types = _signature(session, text, none_ok=True)
    if len(types) == 1:
        hint = "Use NONE to denote the missing argument of a unary operator."
        raise PgError("42P02", "missing argument", hint=hint)
    if len(types) != 2:
        raise PgError("54023", "too many arguments", hint="Provide two argument types for operator.")
    for operator in _operators(session, names):
        if [operator.left, operator.right] == types:
            return operator.oid
    raise PgError("42883", f"operator does not exist: {text}")


def _operator_with_types_text(session: Session, oid: int) -> str | None:
    operator = namespace.operator(session, oid)
    if operator is None:
        return None
    left, right = (lookup.type_text(session, t) if t else "NONE" for t in (operator.left, operator.right))
    name = operator.name if namespace.is_operator_visible(session, operator) else namespace.operator_text(session, oid)
    return f"{name}({left},{right})"


def _signature(session: Session, text: str, *, none_ok: bool) -> tuple[tuple[str, ...], list[int]]:
    """`name(type, type)` (parseNameAndArgTypes)."""
    opening = _parenthesis_outside_quotes(text)
    if opening < 0:
        raise PgError("22P02", "expected a left parenthesis")
    names = _names(text[:opening])
    rest = text[opening + 1 :].rstrip(_SPACE)
    if not rest.endswith(")"):
        raise PgError("22P02", "expected a right parenthesis")
    types: list[int] = []
    parts = _split_types(rest[:-1])
    for number, part in enumerate(parts):
        part = part.strip(_SPACE)
        if not part and number == len(parts) - 1:
            if number == 0:
                break
            raise PgError("22P02", "expected a type name")
        types.append(0 if none_ok and part.lower() == "none" else _type(session, part))
        if len(types) > MAX_ARGUMENTS:
            raise PgError("54023", "too many arguments")
    return names, types


def _parenthesis_outside_quotes(text: str) -> int:
    quoted = False
    for position, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif char == "(" and not quoted:
            return position
    return -1


def _split_types(text: str) -> list[str]:
    """Split a list of types at commas that are neither quoted nor in parentheses."""
    parts, start, depth, quoted = [], 0, 0, False
    for position, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    if quoted or depth:
        raise PgError("22P02", "improper type name")
    return [*parts, text[start:]]


_READERS: dict[int, Callable[[Session, str], int]] = {
    oids.REGCLASS: _class,
    oids.REGNAMESPACE: _named("schema", "3F000", schema_or_none),
    oids.REGROLE: _named("role", "42704", role_or_none),
    oids.REGTYPE: _type,
    oids.REGCOLLATION: _collation,
    oids.REGPROC: _proc,
    oids.REGPROCEDURE: _procedure,
    oids.REGOPER: _operator,
    oids.REGOPERATOR: _operator_with_types,
    oids.REGCONFIG: _text_search("configuration", builtin.ts_configs),
    oids.REGDICTIONARY: _text_search("dictionary", builtin.ts_dicts),
}
_WRITERS: dict[int, Callable[[Session, int], str | None]] = {
    oids.REGCLASS: _class_text,
    oids.REGNAMESPACE: _namespace_text,
    oids.REGROLE: _role_text,
    oids.REGTYPE: _type_text,
    oids.REGCOLLATION: namespace.collation_text,
    oids.REGPROC: _proc_text,
    oids.REGPROCEDURE: _procedure_text,
    oids.REGOPER: _operator_text,
    oids.REGOPERATOR: _operator_with_types_text,
    oids.REGCONFIG: _text_search_text(builtin.ts_configs),
    oids.REGDICTIONARY: _text_search_text(builtin.ts_dicts),
}
