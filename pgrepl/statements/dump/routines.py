"""Functions, procedures and operators of a dump: each before the relations that use it, and after those whose rows or
columns it names; an operator comes with its function. Bodies are not checked when they are restored, as what they call
may come later."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pgrepl.catalog import tables
from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import PG_CLASS, PG_OPERATOR, PG_PROC, PG_TYPE
from pgrepl.catalog.operators import operator_rows
from pgrepl.catalog.routines import as_proc, is_user_routine, written_routines
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import rows
from pgrepl.expr.operator_definition import create_operator, signature
from pgrepl.expr.routine_text import definition, signature_text
from pgrepl.statements.dump import naming


class RoutineParts:
    """The routines of the database, and which of them have been made already."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting = {row.oid: row for row in written_routines(session)}
        self._all = list(self._waiting.values())
        operators = [row for row in operator_rows(session) if row.oprcode]  # without shells
        self._operators = sorted(operators, key=partial(signature, session))
        self._code = {row.oid: row.oprcode for row in self._operators}

    def first(self) -> Iterator[tuple[int, str]]:
        """The statements for routines and operators that need no relation."""
        if self._all:
            yield 0, "SET check_function_bodies = false;"
        for operator in self._operators:
            if not is_user_routine(operator.oprcode):
                yield operator.oid, create_operator(self._session, operator)
        for row in self._all:
            if not self.relations_of(row.oid):
                yield from self._make(row.oid)

    def before(self, relation: int) -> Iterator[tuple[int, str]]:
        """The statements for routines that a relation uses."""
        for oid in self._used_by(relation):
            yield from self._make(oid)

    def rest(self) -> Iterator[tuple[int, str]]:
        for row in self._all:
            yield from self._make(row.oid)

    def about(self) -> Iterator[str]:
        """Owners, comments and privileges."""
        session = self._session
        for row in self._all:
            word = "PROCEDURE" if row.prokind == "p" else "FUNCTION"
            words = f"{word} {signature_text(session, as_proc(session, row))}"
            yield naming.owner(session, words, row.proowner)
            yield from naming.comment(session, words, PG_PROC, row.oid)
            yield from naming.privileges(session, words, ObjectKind.FUNCTION, row.proowner, row.proacl)
        for operator in self._operators:
            words = f"OPERATOR {signature(session, operator)}"
            yield naming.owner(session, words, operator.oprowner)
            yield from naming.comment(session, words, PG_OPERATOR, operator.oid)

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

    def _make(self, oid: int) -> Iterator[tuple[int, str]]:
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
