"""CREATE SEQUENCE of a dump, its owner column, and identity columns, which have theirs inside."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.classes import PG_CLASS
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import pg_depend, pg_sequence
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.dump import naming
from pgrepl.types import oids
from pgrepl.types.names import format_type

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
