"""What comes before what among routines and relations.

Sequences come first; tables and views each after what it is made of; partitions are made as tables of their own and
attached, as pg_dump does; keys and indexes of partitions come before those of their parents, which then take them
over; foreign keys come last. A routine comes before the relations that use it and after those whose rows it names.
Bodies are not checked when they are restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.catalog.facts.routines import is_user_routine, operator_rows, written_routines
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import PG_CLASS, PG_OPERATOR, PG_PROC, PG_TYPE
from pgrepl.expr.print.print_routine import create_operator, definition, signature
from pgrepl.statements.definitions.definition import Fact, Phase, Stage

Placed = Iterator[tuple[int, str]]  # statements, each with the OID of what it is about
RelationFacts = Mapping[int, Mapping[str, Fact]]  # by the OID of the relation


def placed_parts(session: Session, facts: RelationFacts) -> Iterator[tuple[int, float, str]]:
    """The statements that make routines and relations: the object, the place in the order of all, and the text."""
    routines = RoutineParts(session)
    first = list(routines.first())
    for place, (oid, text) in enumerate(first):
        yield oid, Phase.TYPES + 0.5 + place / len(first) / 4, text
    parts = list(relation_parts(session, facts, routines))
    for place, (oid, text) in enumerate(parts):
        phase = Phase.SEQUENCES if text.startswith("CREATE SEQUENCE") else Phase.RELATIONS
        yield oid, phase + place / len(parts), text


def relation_parts(session: Session, facts: RelationFacts, routines: RoutineParts) -> Placed:
    """The statements for relations, and for the routines that are not made yet."""
    found = [relation(session, oid) for oid in facts]
    sequences = [r for r in found if r.kind == "S"]
    tables = _in_order(session, [r for r in found if r.kind != "S"], routines)
    depth = {t.oid: len(partition_ancestors(session, t.oid)) if t.is_partition else 0 for t in tables}

    def at(stage: Stage, relations: Iterable[Relation]) -> Placed:
        for each in relations:
            if stage is Stage.CREATE:
                yield from routines.before(each.oid)
            for fact in facts[each.oid].values():
                if fact.stage is stage:
                    yield from ((each.oid, text) for text in fact.dumped or fact.made)

    yield from at(Stage.CREATE, [*sequences, *tables])
    yield from routines.rest()
    yield from at(Stage.OWNED, sequences)
    yield from at(Stage.PARTITIONS, tables)
    yield from at(Stage.CHECKS, reversed(tables))  # a parent's check is merged with those of its children
    yield from at(Stage.INDEXES, sorted(tables, key=lambda t: -depth[t.oid]))  # else a parent's key makes others
    yield from at(Stage.FOREIGN_KEYS, tables)
    yield from at(Stage.ROWS, tables)
    yield from at(Stage.ATTRIBUTES, [*sequences, *tables])
    yield from at(Stage.TRIGGERS, tables)


def _in_order(session: Session, found: list[Relation], routines: RoutineParts) -> list[Relation]:
    """Parents before children, and what a view reads, or a function that a relation calls, before it."""
    by_oid = {r.oid: r for r in found}
    ordered: dict[int, Relation] = {}
    begun: set[int] = set()

    def place(one_of_them: Relation) -> None:
        if one_of_them.oid in begun:
            return
        begun.add(one_of_them.oid)
        needed = needed_by(session, one_of_them)
        needed += sorted(routines.relations_needed_by(one_of_them.oid) - set(needed))
        for oid in needed:
            if oid in by_oid and oid != one_of_them.oid:
                place(by_oid[oid])
        ordered[one_of_them.oid] = one_of_them

    for one_of_them in found:
        place(one_of_them)
    return list(ordered.values())


def needed_by(session: Session, found: Relation) -> list[int]:
    if found.kind in "vm":
        rule = one(session, tables.pg_rewrite, ev_class=found.oid)
        if rule is None:
            return []
        return [d.refobjid for d in rows(session, tables.pg_depend, objid=rule.oid, refclassid=PG_CLASS)]
    return [row.inhparent for row in rows(session, tables.pg_inherits, inhrelid=found.oid)]


class RoutineParts:
    """The routines of the database, and which of them have been made already."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting = {row.oid: row for row in written_routines(session)}
        self._all = list(self._waiting.values())
        operators = [row for row in operator_rows(session) if row.oprcode]  # without shells
        self._operators = sorted(operators, key=partial(signature, session))
        self._code = {row.oid: row.oprcode for row in self._operators}

    def first(self) -> Placed:
        """The statements for routines and operators that need no relation."""
        if self._all:
            yield 0, "SET check_function_bodies = false;"
        for operator in self._operators:
            if not is_user_routine(operator.oprcode):
                yield operator.oid, create_operator(self._session, operator)
        for row in self._all:
            if not self.relations_of(row.oid):
                yield from self._make(row.oid)

    def before(self, relation: int) -> Placed:
        """The statements for routines that a relation uses."""
        for oid in self._used_by(relation):
            yield from self._make(oid)

    def rest(self) -> Placed:
        for row in self._all:
            yield from self._make(row.oid)

    def relations_needed_by(self, relation: int) -> set[int]:
        """The relations that must exist before the routines that a relation uses."""
        return {found for oid in self._used_by(relation) for found in self.relations_of(oid)} - {relation}

    def relations_of(self, oid: int, seen: frozenset[int] = frozenset()) -> set[int]:
        """The relations that a routine, or another that it uses, needs."""
        found: set[int] = set()
        for row in rows(self._session, tables.pg_depend, classid=PG_PROC, objid=oid):
            if row.refclassid == PG_CLASS:
                found.add(row.refobjid)
            elif row.refclassid == PG_TYPE:
                found |= {
                    source.oid
                    for source in rows(
                        self._session, tables.pg_class, datid=self._session.database_oid, reltype=row.refobjid
                    )
                }
            elif (routine := self._routine(row)) and routine not in seen:
                found |= self.relations_of(routine, seen | {oid})
        return found

    def _routine(self, row: tables.pg_depend) -> int:
        """The user's routine that something depends on, be it by an operator; 0: none."""
        if row.refclassid == PG_OPERATOR:
            code = self._code.get(row.refobjid, 0)
            return code if is_user_routine(code) else 0
        return row.refobjid if row.refclassid == PG_PROC else 0

    def _make(self, oid: int) -> Placed:
        if self._waiting.pop(oid, None) is None:
            return
        for row in rows(self._session, tables.pg_depend, classid=PG_PROC, objid=oid):
            yield from self._make(self._routine(row))
        text = definition(self._session, oid) or ""
        yield oid, text.replace("CREATE OR REPLACE ", "CREATE ", 1).rstrip("\n") + ";"
        for operator in self._operators:
            if operator.oprcode == oid:
                yield operator.oid, create_operator(self._session, operator)

    def _used_by(self, relation: int) -> list[int]:
        session = self._session
        parts = {relation}
        parts |= {row.oid for row in rows(session, tables.pg_attrdef, adrelid=relation)}
        parts |= {row.oid for row in rows(session, tables.pg_constraint, conrelid=relation)}
        parts |= {row.oid for row in rows(session, tables.pg_rewrite, ev_class=relation)}
        used = {self._routine(row) for row in rows(session, tables.pg_depend, objid=parts)}
        return sorted(used - {0})
