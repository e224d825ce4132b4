"""The definitions of functions and procedures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import PG_PROC
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.routines import as_proc, routine_row, written_routines
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_depend, pg_proc, pg_rewrite
from pgrepl.expr.routine_text import arguments_text, definition, result_text, signature_text
from pgrepl.expr.typefacts import type_text
from pgrepl.sql.quote import quote_qualified
from pgrepl.statements.comparison.definition import Definition, Fact, Phase
from pgrepl.statements.comparison.facts import comment_fact, privilege_facts
from pgrepl.statements.dump import naming

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def routine_definitions(session: Session, placed: Iterable[tuple[int, float, str]]) -> Iterator[Definition]:
    """`placed`: see placed_parts."""
    made: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for oid, phase, text in placed:
        made[oid].append((phase, text))
    for row in written_routines(session):
        proc = as_proc(session, row)
        words = f"{'PROCEDURE' if row.prokind == 'p' else 'FUNCTION'} {signature_text(session, proc)}"
        about = {
            "owner": Fact(Phase.ATTRIBUTES, (naming.owner(session, words, row.proowner),)),
            **comment_fact(words, comment_on(session, PG_PROC, row.oid)),
            **privilege_facts(session, words, ObjectKind.FUNCTION, row.proowner, row.proacl),
        }
        steps = made[row.oid] + [(Phase.ATTRIBUTES, text) for fact in about.values() for text in fact.made]
        text = (definition(session, row.oid) or "").rstrip("\n") + ";"
        facts = {"definition": Fact(Phase.RELATIONS, (text,)), **about}
        described = Definition("routine", routine_name(session, row), steps, words, facts)
        described.fixed = {
            "kind": row.prokind,
            "result": result_text(session, proc) or "",
            "parameters": arguments_text(session, proc),
            "defaults": str(len(row.proargdefaults or ())),
        }
        yield described


def routine_name(session: Session, row: pg_proc) -> str:
    """With the types of its parameters, which tell it from others of its name."""
    types = ", ".join(type_text(session, each) for each in row.proargtypes)
    return f"{quote_qualified(as_proc(session, row).schema, row.proname)}({types})"


def called_by_view(session: Session, relid: int) -> Iterator[str]:
    """The user's functions that a view calls."""
    for rule in rows(session, pg_rewrite, ev_class=relid):
        for depend in rows(session, pg_depend, objid=rule.oid, refclassid=PG_PROC):
            row = routine_row(session, depend.refobjid)
            if row is not None:
                yield routine_name(session, row)
