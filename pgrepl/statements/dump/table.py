"""CREATE TABLE of a dump with its sequences, identity columns and triggers; functions, procedures and operators.

A routine comes before the relations that use it and after those whose rows it names. Bodies are not checked when they
are restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import not_nulls, parents
from pgrepl.catalog.facts.routines import as_proc, is_user_routine, operator_rows, written_routines
from pgrepl.catalog.facts.triggers import Trigger, trigger_by_oid, triggers_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import PG_CLASS, PG_OPERATOR, PG_PROC, PG_TRIGGER, PG_TYPE
from pgrepl.catalog.store.tables import pg_constraint, pg_depend, pg_sequence
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.catalog_trees import default_text
from pgrepl.expr.print.definitions import collate_clause, constraint_definition, options_text, partition_key_definition
from pgrepl.expr.print.routine_text import create_operator, definition, signature, signature_text, trigger_definition
from pgrepl.sql.keywords import quote_identifier
from pgrepl.statements.dump import naming
from pgrepl.statements.table.names import make_object_name
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.names import format_type


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


# --- sequence ---------------------------------------------------------------------------------------------------------


BOUNDS = {
    oids.INT2: (-(2**15), 2**15 - 1),
    oids.INT4: (-(2**31), 2**31 - 1),
    oids.INT8: (-(2**63), 2**63 - 1),
}


def create_sequence(session: Session, sequence: Relation) -> str:
    row = one(session, pg_sequence, seqrelid=sequence.oid)
    assert row is not None
    kind = "" if row.seqtypid == oids.INT8 else f"\n    AS {format_type(row.seqtypid)}"
    return f"CREATE SEQUENCE {naming.qualified(sequence)}{kind}\n    " + "\n    ".join(sequence_options(row)) + ";"


def sequence_options(row: pg_sequence) -> list[str]:
    low, high = BOUNDS[row.seqtypid]
    up = row.seqincrement > 0
    least, most = (1, high) if up else (low, -1)
    options = [
        f"START WITH {row.seqstart}",
        f"INCREMENT BY {row.seqincrement}",
        "NO MINVALUE" if row.seqmin == least else f"MINVALUE {row.seqmin}",
        "NO MAXVALUE" if row.seqmax == most else f"MAXVALUE {row.seqmax}",
        f"CACHE {row.seqcache}",
    ]
    return [*options, "CYCLE"] if row.seqcycle else options


def sequence_owner(session: Session, sequence: Relation) -> Iterator[str]:
    owned = one(session, pg_depend, classid=PG_CLASS, objid=sequence.oid, refclassid=PG_CLASS, deptype="a")
    if owned is not None and owned.refobjsubid:
        table = relation(session, owned.refobjid)
        column = quote_identifier(table.attributes[owned.refobjsubid - 1].name)
        yield f"ALTER SEQUENCE {naming.qualified(sequence)} OWNED BY {naming.qualified(table)}.{column};"


def is_owned(session: Session, sequence: Relation) -> bool:
    return one(session, pg_depend, classid=PG_CLASS, objid=sequence.oid, refclassid=PG_CLASS, deptype="a") is not None


def identity(session: Session, table: Relation) -> Iterator[str]:
    for column in table.columns:
        row = identity_sequence(session, table, column)
        if row is not None:
            clause = identity_clause(session, column, row)
            yield f"ALTER TABLE {naming.qualified(table)} ALTER COLUMN {quote_identifier(column.name)} ADD {clause};"


def identity_clause(session: Session, column: Attribute, row: pg_sequence) -> str:
    """`GENERATED … AS IDENTITY (…)`, with the options of the sequence."""
    when = "ALWAYS" if column.identity == "a" else "BY DEFAULT"
    inside = [f"SEQUENCE NAME {naming.qualified(relation(session, row.seqrelid))}", *sequence_options(row)]
    return f"GENERATED {when} AS IDENTITY (\n    " + "\n    ".join(inside) + "\n)"


def identity_sequence(session: Session, table: Relation, column: Attribute) -> pg_sequence | None:
    """The sequence of an identity column; None: it is none, or has the sequence of the table that it is a partition
    of."""
    if not column.identity:
        return None
    depends = rows(session, pg_depend, refclassid=PG_CLASS, refobjid=table.oid, refobjsubid=column.num, deptype="i")
    sequence = next((d.objid for d in depends if d.classid == PG_CLASS), None)
    return None if sequence is None else one(session, pg_sequence, seqrelid=sequence)


# --- table ------------------------------------------------------------------------------------------------------------


def create_table(session: Session, table: Relation) -> str:
    """A partition has all its columns and checks itself: it is attached later."""
    parts = [column_definition(session, table, c) for c in table.columns if is_printed(table, c)]
    for row in rows(session, pg_constraint, conrelid=table.oid):
        if row.contype == "c" and (row.conislocal or table.is_partition) and row.convalidated:
            parts.append(f"CONSTRAINT {quote_identifier(row.conname)} {constraint_definition(session, row.oid)}")
    for number, row in not_nulls(session, table.oid).items():
        if row.conislocal and row.convalidated and not is_printed(table, table.attributes[number - 1]):
            parts.append(f"CONSTRAINT {quote_identifier(row.conname)} {constraint_definition(session, row.oid)}")
    unlogged = "UNLOGGED " if table.persistence == "u" else ""
    body = "".join(f"\n    {part}," for part in parts)[:-1]
    text = f"CREATE {unlogged}TABLE {naming.qualified(table)} ({body}\n)"
    text += _parents(session, table)
    key = partition_key_definition(session, table.oid) if table.kind == "p" else None
    if key is not None:
        text += f"\nPARTITION BY {key}"
    if table.options:
        text += f"\nWITH ({options_text(table.options)})"
    return text + ";"


_STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "m": "MAIN", "x": "EXTENDED"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}


def is_printed(table: Relation, column: Attribute) -> bool:
    """Is the column in CREATE TABLE (shouldPrintColumn)? Inherited ones are not."""
    return column.is_local or table.is_partition


def column_settings(session: Session, table: Relation) -> Iterator[str]:
    """Settings of columns that `create_table` leaves out: NOT NULL and the default of an inherited column, statistics,
    storage, compression."""
    named = not_nulls(session, table.oid)
    for column in table.columns:
        kind = type_by_oid(column.type)
        prefix = f"ALTER TABLE ONLY {naming.qualified(table)} ALTER COLUMN {quote_identifier(column.name)} SET"
        if not is_printed(table, column):
            above = any(c.notnull for c in _inherited(session, table, column))
            if column.notnull and column.num not in named and not above:
                yield f"{prefix} NOT NULL;"
            default = default_of(session, table, column)
            if default is not None and not column.generated:
                yield f"{prefix} DEFAULT {default};"
        if column.stattarget is not None and column.stattarget >= 0:
            yield f"{prefix} STATISTICS {column.stattarget};"
        if kind is not None and column.storage != kind.storage:
            yield f"{prefix} STORAGE {_STORAGE[column.storage]};"
        if column.compression:
            yield f"{prefix} COMPRESSION {_COMPRESSION[column.compression]};"


def _parents(session: Session, table: Relation) -> str:
    if table.is_partition:
        return ""
    names = [naming.qualified(relation(session, parent)) for parent in parents(session, table.oid)]
    return f"\nINHERITS ({', '.join(names)})" if names else ""


def _inherited(session: Session, table: Relation, column: Attribute) -> list[Attribute]:
    """The columns of the parents that the column is inherited from."""
    named = [c for parent in parents(session, table.oid) for c in relation(session, parent).columns]
    return [c for c in named if c.name == column.name]


def default_of(session: Session, table: Relation, column: Attribute) -> str | None:
    """The column's default; NULL hides that of a parent (flagInhAttrs)."""
    if column.has_default:
        return default_text(session, table.oid, column.num)
    hides = any(c.has_default and not c.generated for c in _inherited(session, table, column))
    return "NULL" if hides else None


def column_definition(session: Session, table: Relation, column: Attribute) -> str:
    text = f"{quote_identifier(column.name)} {type_text(session, column.type, column.typmod)}"
    text += collate_clause(session, column.type, column.collation)
    default = default_of(session, table, column)
    if default is not None:
        kind = "VIRTUAL" if column.generated == "v" else "STORED"
        text += f" GENERATED ALWAYS AS ({default}) {kind}" if column.generated else f" DEFAULT {default}"
    return text + not_null_clause(session, table, column)


def not_null_clause(session: Session, table: Relation, column: Attribute) -> str:
    """NOT NULL, with its name if it is not the one that it gets by default. What is NOT VALID comes later."""
    row = not_nulls(session, table.oid).get(column.num) if column.notnull else None
    if row is None:
        return " NOT NULL" if column.notnull else ""
    if not row.convalidated or not (row.conislocal or table.is_partition):
        return ""
    usual = make_object_name(table.name, column.name, "not_null")
    name = "" if row.conname == usual else f" CONSTRAINT {quote_identifier(row.conname)}"
    return f"{name} NOT NULL{' NO INHERIT' if row.connoinherit else ''}"


# --- trigger ----------------------------------------------------------------------------------------------------------


_ENABLED = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE"}


def triggers(session: Session, table: Relation) -> Iterator[str]:
    """The copies of a partition come with those of the partitioned table."""
    name = naming.qualified(table)
    for trigger in triggers_of(session, table.oid):
        parent = trigger_by_oid(session, trigger.parent) if trigger.parent else None
        if parent is None:
            yield f"{trigger_definition(session, trigger.oid)};"
        if trigger.enabled != (parent.enabled if parent is not None else "O"):
            yield enabled(name, trigger)
        if parent is None:
            on = f"TRIGGER {quote_identifier(trigger.name)} ON {name}"
            yield from naming.comment(session, on, PG_TRIGGER, trigger.oid)


def enabled(table: str, trigger: Trigger) -> str:
    return f"ALTER TABLE {table} {_ENABLED[trigger.enabled]} TRIGGER {quote_identifier(trigger.name)};"
