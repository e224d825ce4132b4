"""The definitions of operators and collations. But for owner and comment they are fixed: another one is made anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_COLLATION, PG_OPERATOR
from pgrepl.catalog.collations import collation_rows, qualified_collation
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.operators import operator_row, operator_rows
from pgrepl.catalog.routines import routine_row
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_depend, pg_rewrite
from pgrepl.expr.operator_definition import create_operator, signature
from pgrepl.statements.comparison.definition import Definition, Fact, Phase
from pgrepl.statements.comparison.facts import comment_fact
from pgrepl.statements.comparison.routines import routine_name
from pgrepl.statements.dump import naming
from pgrepl.statements.dump.collations import create_collation

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def operator_definitions(session: Session, placed: Iterable[tuple[int, float, str]]) -> Iterator[Definition]:
    """`placed`: see placed_parts."""
    made: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for oid, phase, text in placed:
        made[oid].append((phase, text))
    for row in operator_rows(session):
        if not row.oprcode:
            continue  # a shell comes with the operator that names it
        words = f"OPERATOR {signature(session, row)}"
        facts = {
            "owner": Fact(Phase.ATTRIBUTES, (naming.owner(session, words, row.oprowner),)),
            **comment_fact(words, comment_on(session, PG_OPERATOR, row.oid)),
        }
        steps = made[row.oid] + [(Phase.ATTRIBUTES, text) for fact in facts.values() for text in fact.made]
        described = Definition("operator", signature(session, row), steps, words, facts)
        described.fixed = {"definition": create_operator(session, row)}
        function = routine_row(session, row.oprcode)
        if function is not None:
            remade = tuple(text for _, text in steps)
            described.holds = {routine_name(session, function): (f"DROP {words};", remade)}
        yield described


def collation_definitions(session: Session) -> Iterator[Definition]:
    for row in collation_rows(session):
        name, made = qualified_collation(session, row.oid), create_collation(session, row)
        words = f"COLLATION {name}"
        facts = {
            "owner": Fact(Phase.TYPES + 0.9, (naming.owner(session, words, row.collowner),)),
            **comment_fact(words, comment_on(session, PG_COLLATION, row.oid), Phase.TYPES + 0.9),
        }
        steps = [(float(Phase.TYPES), made)]
        steps += [(fact.phase, text) for fact in facts.values() for text in fact.made]
        described = Definition("collation", name, steps, words, facts)
        described.fixed = {"definition": made}
        yield described


def used_by_view(session: Session, relid: int) -> Iterator[str]:
    """The user's operators in a view."""
    for rule in rows(session, pg_rewrite, ev_class=relid):
        for depend in rows(session, pg_depend, objid=rule.oid, refclassid=PG_OPERATOR):
            row = operator_row(session, depend.refobjid)
            if row is not None:
                yield signature(session, row)
