"""The definitions of functions, procedures, operators, collations, enums, domains and composite types, and the
statements that alter them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.namespace import (
    as_proc,
    collation_rows,
    operator_row,
    operator_rows,
    qualified_collation,
    routine_row,
    written_routines,
)
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.user_types import labels_of, type_rows
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import PG_CLASS, PG_COLLATION, PG_CONSTRAINT, PG_OPERATOR, PG_PROC, PG_TYPE
from pgrepl.catalog.store.tables import pg_collation, pg_depend, pg_proc, pg_rewrite, pg_type
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.print.definitions import (
    add_check,
    attribute_definitions,
    base_of_domain,
    calls_routines,
    checks_of,
    create_type,
    default_of_domain,
    type_definition_name,
    types_in_order,
)
from pgrepl.expr.print.print_routine import (
    arguments_text,
    create_operator,
    definition,
    result_text,
    signature,
    signature_text,
)
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.statements.definitions import naming
from pgrepl.statements.definitions.definition import Definition, Fact, Phase, Stage, statements

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def routine_definitions(session: Session, placed: Iterable[tuple[int, float, str]] = ()) -> Iterator[Definition]:
    """`placed`: see placed_parts; without it they are made without the routine itself."""
    made = _by_oid(placed)
    for row in written_routines(session):
        proc = as_proc(session, row)
        words = f"{'PROCEDURE' if row.prokind == 'p' else 'FUNCTION'} {signature_text(session, proc)}"
        text = (definition(session, row.oid) or "").rstrip("\n") + ";"
        facts = {
            "definition": Fact(Phase.RELATIONS, (text,), stage=Stage.NOWHERE),
            "owner": Fact(Phase.ATTRIBUTES, (naming.owner(session, words, row.proowner),)),
            **naming.comment(session, words, PG_PROC, row.oid),
            **naming.privileges(session, words, ObjectKind.FUNCTION, row.proowner, row.proacl),
        }
        fixed = {
            "kind": row.prokind,
            "result": result_text(session, proc) or "",
            "parameters": arguments_text(session, proc),
            "defaults": str(len(row.proargdefaults or ())),
        }
        steps = made[row.oid] + statements(facts)
        yield Definition("routine", routine_name(session, row), steps, words, facts, fixed=fixed)


def _by_oid(placed: Iterable[tuple[int, float, str]]) -> dict[int, list[tuple[float, str]]]:
    made: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for oid, phase, text in placed:
        made[oid].append((phase, text))
    return made


def routine_name(session: Session, row: pg_proc) -> str:
    """With the types of its parameters, which tell it from others of its name."""
    types = ", ".join(type_text(session, argument) for argument in row.proargtypes)
    return f"{quote_qualified(as_proc(session, row).schema, row.proname)}({types})"


def called_by_view(session: Session, relid: int) -> Iterator[str]:
    """The user's functions that a view calls."""
    for rule in rows(session, pg_rewrite, ev_class=relid):
        for depend in rows(session, pg_depend, objid=rule.oid, refclassid=PG_PROC):
            row = routine_row(session, depend.refobjid)
            if row is not None:
                yield routine_name(session, row)


# --- operators --------------------------------------------------------------------------------------------------------


def operator_definitions(session: Session, placed: Iterable[tuple[int, float, str]] = ()) -> Iterator[Definition]:
    """`placed`: see routine_definitions."""
    made = _by_oid(placed)
    for row in operator_rows(session):
        if not row.oprcode:
            continue  # a shell comes with the operator that names it
        words = f"OPERATOR {signature(session, row)}"
        facts = {
            "owner": Fact(Phase.ATTRIBUTES, (naming.owner(session, words, row.oprowner),)),
            **naming.comment(session, words, PG_OPERATOR, row.oid),
        }
        steps = made[row.oid] + statements(facts)
        described = Definition("operator", signature(session, row), steps, words, facts)
        described.fixed = {"definition": create_operator(session, row)}
        function = routine_row(session, row.oprcode)
        if function is not None:
            remade = tuple(text for _, text in steps)
            described.holds = {routine_name(session, function): (f"DROP {words};", remade)}
        yield described


def collation_definitions(session: Session) -> Iterator[Definition]:
    for row in collation_rows(session):
        name = qualified_collation(session, row.oid)
        made, words = f"CREATE COLLATION {name} ({_collation_options(row)});", f"COLLATION {name}"
        facts = {
            "owner": Fact(Phase.TYPES + 0.9, (naming.owner(session, words, row.collowner),)),
            **naming.comment(session, words, PG_COLLATION, row.oid, phase=Phase.TYPES + 0.9),
        }
        steps = [(float(Phase.TYPES), made), *statements(facts)]
        yield Definition("collation", name, steps, words, facts, fixed={"definition": made})


def _collation_options(row: pg_collation) -> str:
    """As pg_dump words them."""
    parts = [f"provider = {_PROVIDERS[row.collprovider]}"]
    if row.colllocale is not None or row.collcollate == row.collctype:
        parts.append(f"locale = {quote_literal(row.colllocale or row.collcollate or '')}")
    else:
        parts.append(f"lc_collate = {quote_literal(row.collcollate or '')}")
        parts.append(f"lc_ctype = {quote_literal(row.collctype or '')}")
    return ", ".join(parts)


def used_by_view(session: Session, relid: int) -> Iterator[str]:
    """The user's operators in a view."""
    for rule in rows(session, pg_rewrite, ev_class=relid):
        for depend in rows(session, pg_depend, objid=rule.oid, refclassid=PG_OPERATOR):
            row = operator_row(session, depend.refobjid)
            if row is not None:
                yield signature(session, row)


# --- types ------------------------------------------------------------------------------------------------------------


_PROVIDERS = {"b": "builtin", "c": "libc"}
_ALTERED = Phase.TYPES + 0.4
_CHECKED = Phase.TYPES + 0.8
LATE = Phase.TYPES + 0.85  # the functions of constraints are there
_ABOUT = Phase.TYPES + 0.9


def type_definitions(session: Session) -> Iterator[Definition]:
    types = types_in_order(session, sorted(row.oid for row in type_rows(session)))
    for place, row in enumerate(types):
        name = type_definition_name(session, row)
        words = f"{'DOMAIN' if row.typtype == 'd' else 'TYPE'} {name}"
        facts = dict(_facts_of_type(session, row, words))
        made = [(Phase.TYPES + place / len(types) / 4, create_type(session, row)), *statements(facts)]
        described = Definition("type", name, made, words, facts, fixed={"kind": row.typtype})
        if row.typtype == "e":
            described.labels = tuple([label.enumlabel for label in labels_of(session, row.oid)])
        elif row.typtype == "r":
            described.fixed = {"definition": create_type(session, row)}
        elif row.typtype == "c":
            parts = attribute_definitions(session, row)
            described.attributes = {attribute: text.strip() for attribute, text in parts.items()}
        else:
            described.fixed = {"kind": "d", "base type": base_of_domain(session, row)}
        yield described


def _facts_of_type(session: Session, row: pg_type, words: str) -> Iterator[tuple[str, Fact]]:
    if row.typtype == "d":
        yield from _facts_of_domain(session, row, words)
    yield "owner", Fact(_ABOUT, (naming.owner(session, words, row.typowner),))
    yield from naming.comment(session, words, PG_TYPE, row.oid, phase=_ABOUT).items()
    name = type_definition_name(session, row)
    for column in relation(session, row.typrelid).columns if row.typrelid else ():
        short = quote_identifier(column.name)
        shown, of = f"COLUMN {name}.{short}", f"column {short}"
        yield from naming.comment(session, shown, PG_CLASS, row.typrelid, column.num, phase=_ABOUT, of=of).items()
    granted = f"TYPE {name}"
    yield from naming.privileges(session, granted, ObjectKind.TYPE, row.typowner, row.typacl, phase=_ABOUT).items()


def _facts_of_domain(session: Session, row: pg_type, words: str) -> Iterator[tuple[str, Fact]]:
    default = default_of_domain(session, row)
    if default is not None:
        made, undone = f"ALTER {words} SET DEFAULT {default};", f"ALTER {words} DROP DEFAULT;"
        yield "default", Fact(_ALTERED, (made,), (undone,), stage=Stage.NOWHERE)
    if row.typnotnull:
        made, undone = (f"ALTER {words} {word} NOT NULL;" for word in ("SET", "DROP"))
        yield "not null", Fact(_ALTERED, (made,), (undone,), stage=Stage.NOWHERE)
    for check in checks_of(session, row):
        short = quote_identifier(check.conname)
        phase = LATE if calls_routines(session, check) else _CHECKED
        stage = Stage.NOWHERE if phase == _CHECKED and check.convalidated else Stage.ATTRIBUTES
        made = add_check(session, type_definition_name(session, row), check)
        undone, of, on = (
            f"ALTER {words} DROP CONSTRAINT {short};",
            f"constraint {short}",
            f"CONSTRAINT {short} ON {words}",
        )
        yield of, Fact(phase, (made,), (undone,), anew=True, is_object=True, undone_in=_ALTERED, stage=stage)
        yield from naming.comment(session, on, PG_CONSTRAINT, check.oid, phase=phase, of=of).items()


# --- altering ---------------------------------------------------------------------------------------------------------


def can_be_added(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Are the labels before among those after, in their order? None can be dropped or moved; a renamed one is not told
    from one that is dropped and another that is added."""
    left = iter(after)
    return all(label in left for label in before)


def new_labels(name: str, before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[tuple[float, str]]:
    """ALTER TYPE … ADD VALUE, each at its place."""
    there = set(before)
    for number, label in enumerate(after):
        if label in there:
            continue
        following = next((known for known in after[number + 1 :] if known in there), None)
        if number:
            place = f" AFTER {quote_literal(after[number - 1])}" if following is not None else ""
        else:
            place = "" if following is None else f" BEFORE {quote_literal(following)}"
        there.add(label)
        yield _ALTERED, f"ALTER TYPE {name} ADD VALUE {quote_literal(label)}{place};"


def changed_attributes(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Attributes that are new, or get another type."""
    for attribute, text in after.items():
        if attribute not in before:
            yield _ALTERED, f"ALTER TYPE {name} ADD ATTRIBUTE {text};"
        elif before[attribute] != text:
            shown = quote_identifier(attribute)
            kind = text.removeprefix(f"{shown} ")
            yield _ALTERED, f"ALTER TYPE {name} ALTER ATTRIBUTE {shown} TYPE {kind};"


def gone_attributes(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    for attribute in before:
        if attribute not in after:
            yield _ALTERED, f"ALTER TYPE {name} DROP ATTRIBUTE {quote_identifier(attribute)};"
