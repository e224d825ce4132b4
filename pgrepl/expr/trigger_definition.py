"""The CREATE TRIGGER statement of a trigger (pg_get_triggerdef)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import triggers
from pgrepl.catalog.relation import Relation, display_name, relation
from pgrepl.catalog.routines import routine
from pgrepl.catalog.triggers import Trigger, trigger_by_oid
from pgrepl.expr import stored
from pgrepl.expr.deparse import load_forms
from pgrepl.expr.print_expr import print_list
from pgrepl.expr.printer import INDENTED, PRETTY, Names, Printer
from pgrepl.expr.range_table import relation_rte
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Expr

_EVENTS = (
    (triggers.INSERT, "INSERT"), (triggers.DELETE, "DELETE"), (triggers.UPDATE, "UPDATE"),
    (triggers.TRUNCATE, "TRUNCATE"),
)  # fmt: skip


def trigger_definition(session: Session, oid: int, pretty: bool = False) -> str | None:
    trigger = trigger_by_oid(session, oid)
    if trigger is None:
        return None
    table = relation(session, trigger.relid)
    name = display_name(session, table) if pretty else quote_qualified(table.schema, table.name)
    text = f"CREATE {'CONSTRAINT ' if trigger.constraint else ''}TRIGGER {quote_identifier(trigger.name)}"
    text += f" {_timing(trigger)} {_events(trigger, table)} ON {name} {_constraint(session, trigger)}"
    if trigger.old_table is not None or trigger.new_table is not None:
        text += "REFERENCING "
        for word, transition in (("OLD", trigger.old_table), ("NEW", trigger.new_table)):
            if transition is not None:
                text += f"{word} TABLE AS {quote_identifier(transition)} "
    text += f"FOR EACH {'ROW' if trigger.is_row else 'STATEMENT'} "
    if trigger.when is not None:
        text += f"WHEN ({_condition(session, stored.from_json(trigger.when, session), table, pretty)}) "
    args = ", ".join(quote_literal(arg) for arg in trigger.args)
    return f"{text}EXECUTE FUNCTION {_function(session, trigger.function)}({args})"


def _timing(trigger: Trigger) -> str:
    if trigger.type & triggers.INSTEAD:
        return "INSTEAD OF"
    return "BEFORE" if trigger.type & triggers.BEFORE else "AFTER"


def _events(trigger: Trigger, table: Relation) -> str:
    words = [word for bit, word in _EVENTS if trigger.type & bit]
    columns = ", ".join(quote_identifier(table.attributes[number - 1].name) for number in trigger.columns)
    return " OR ".join(f"{word} OF {columns}" if word == "UPDATE" and columns else word for word in words)


def _constraint(session: Session, trigger: Trigger) -> str:
    if not trigger.constraint:
        return ""
    text = f"FROM {display_name(session, relation(session, trigger.referenced))} " if trigger.referenced else ""
    text += "DEFERRABLE" if trigger.deferrable else "NOT DEFERRABLE"
    return f"{text} INITIALLY {'DEFERRED' if trigger.initially_deferred else 'IMMEDIATE'} "


def _condition(session: Session, when: Expr, table: Relation, pretty: bool) -> str:
    rtes = [relation_rte(table, name) for name in ("old", "new")]
    columns: list[list[str | None]] = [[None if c.dropped else c.name for c in rte.columns] for rte in rtes]
    load_forms()
    out = Printer(session, PRETTY if pretty else INDENTED, [Names(rtes, ["old", "new"], columns)], prefix=True)
    print_list((when,), out, False)
    return out.text()


def _function(session: Session, oid: int) -> str:
    from pgrepl.expr.calls import name_finds

    proc = routine(session, oid)
    assert proc is not None
    found = name_finds(session, proc, (), (), expand_variadic=True)
    return quote_qualified(None if found else proc.schema, proc.name)
