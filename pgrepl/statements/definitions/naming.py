"""The words of definitions: qualified names, owners, comments and privileges; CREATE TABLE and SEQUENCE, columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgrepl.catalog.facts.acl import LETTERS, NAMES, Acl, ObjectKind, default_acl, parse_acl
from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import not_nulls, parents
from pgrepl.catalog.facts.roles import role_name
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import PG_CLASS
from pgrepl.catalog.store.tables import pg_constraint, pg_depend, pg_sequence
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.catalog_trees import default_text
from pgrepl.expr.print.definitions import collate_clause, constraint_definition, options_text, partition_key_definition
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.statements.definitions.definition import ColumnFacts, Fact, Phase, Stage
from pgrepl.statements.table.names import make_object_name
from pgrepl.types import oids
from pgrepl.types.names import format_type

# PUBLIC has OID 0 in an access list
PUBLIC = 0


def qualified(rel: Relation) -> str:
    return quote_qualified(rel.schema, rel.name)


def role(session: Session, oid: int) -> str:
    return "PUBLIC" if oid == PUBLIC else quote_identifier(role_name(session, oid))


def owner(session: Session, words: str, oid: int) -> str:
    return f"ALTER {words} OWNER TO {role(session, oid)};"


# --- comments ---------------------------------------------------------------------------------------------------------


def comment(
    session: Session,
    words: str,
    classid: int,
    oid: int,
    column: int = 0,
    *,
    phase: float = Phase.ATTRIBUTES,
    of: str = "",
    stage: Stage = Stage.ATTRIBUTES,
) -> dict[str, Fact]:
    return comment_text(words, comment_on(session, classid, oid, column), phase=phase, of=of, stage=stage)


def comment_text(
    words: str, text: str | None, *, phase: float, of: str = "", stage: Stage = Stage.ATTRIBUTES
) -> dict[str, Fact]:
    if text is None:
        return {}
    made, undone = f"COMMENT ON {words} IS {quote_literal(text)};", f"COMMENT ON {words} IS NULL;"
    return {f"comment on {words}": Fact(phase, (made,), (undone,), of=of, stage=stage)}


# --- privileges -------------------------------------------------------------------------------------------------------


def privileges(
    session: Session,
    words: str,
    kind: ObjectKind,
    owned_by: int,
    stored: Any,
    column: str | None = None,
    *,
    phase: float = Phase.ATTRIBUTES,
) -> dict[str, Fact]:
    """Of a whole object or one of its columns. All privileges are one fact: those that there are go, before others are
    granted."""
    usual = default_acl(kind, owned_by)
    made = () if stored is None else tuple(acl_changes(session, words, owned_by, usual, stored, column))
    if not made:
        return {}
    grantees = {item.grantee for item in usual}
    of_column = "" if column is None else f" ({column})"
    items = parse_acl(stored) or ()
    given = [item.grantee for item in items if item.grantee not in grantees]
    more = {item.grantee for item in items if item.grantee in grantees and item.options}
    undone = [f"REVOKE ALL{of_column} ON {words} FROM {role(session, grantee)};" for grantee in dict.fromkeys(given)]
    undone += [
        f"REVOKE GRANT OPTION FOR ALL{of_column} ON {words} FROM {role(session, grantee)};" for grantee in sorted(more)
    ]
    undone += [f"GRANT ALL{of_column} ON {words} TO {role(session, grantee)};" for grantee in sorted(grantees)]
    of = "" if column is None else f"column {column}"
    fact = Fact(phase, made, tuple(undone), anew=True, undone_in=phase - 0.5, of=of)  # before the owner changes
    return {f"privileges {words} {column or ''}": fact}


def acl_changes(
    session: Session, words: str, owned_by: int, before: Acl, stored: Any, column: str | None = None
) -> Iterator[str]:
    """The REVOKE and GRANT statements that turn an access list into the stored one."""
    usual = {(item.grantee, item.grantor): item for item in before}
    items = parse_acl(stored) or ()
    kept = {(item.grantee, item.grantor) for item in items if usual.get((item.grantee, item.grantor)) == item}
    for grantee, grantor in usual:
        if (grantee, grantor) not in kept:
            yield f"REVOKE ALL ON {words} FROM {role(session, grantee)};"
    for item in items:
        if (item.grantee, item.grantor) in kept:
            continue
        plain = item.privileges & ~item.options
        for mask, option in ((plain, ""), (item.options, " WITH GRANT OPTION")):
            if mask:
                of_column = "" if column is None else f"({column})"
                granted = ",".join(NAMES[i] + of_column for i in range(len(LETTERS)) if mask & 1 << i)
                by = "" if item.grantor == owned_by else f" GRANTED BY {role(session, item.grantor)}"
                yield f"GRANT {granted} ON {words} TO {role(session, item.grantee)}{option}{by};"


_BOUNDS = {oids.INT2: (-(2**15), 2**15 - 1), oids.INT4: (-(2**31), 2**31 - 1), oids.INT8: (-(2**63), 2**63 - 1)}

Above = Mapping[str, list[Attribute]]  # the columns of the parents, by name


# --- sequences --------------------------------------------------------------------------------------------------------


def create_sequence(sequence: Relation, row: pg_sequence) -> str:
    kind = "" if row.seqtypid == oids.INT8 else f"\n    AS {format_type(row.seqtypid)}"
    return f"CREATE SEQUENCE {qualified(sequence)}{kind}\n    " + "\n    ".join(_options(row)) + ";"


def _options(row: pg_sequence) -> list[str]:
    low, high = _BOUNDS[row.seqtypid]
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


def all_options(row: pg_sequence) -> str:
    return " ".join([*_options(row), *([] if row.seqcycle else ["NO CYCLE"])])


def identities(session: Session, table: Relation) -> Iterator[str]:
    for column in table.columns:
        row = _identity_sequence(session, table, column)
        if row is not None:
            clause = _identity_clause(session, column, row)
            yield f"ALTER TABLE {qualified(table)} ALTER COLUMN {quote_identifier(column.name)} ADD {clause};"


def _identity_clause(session: Session, column: Attribute, row: pg_sequence) -> str:
    """`GENERATED … AS IDENTITY (…)`, with the options of the sequence."""
    when = "ALWAYS" if column.identity == "a" else "BY DEFAULT"
    inside = [f"SEQUENCE NAME {qualified(relation(session, row.seqrelid))}", *_options(row)]
    return f"GENERATED {when} AS IDENTITY (\n    " + "\n    ".join(inside) + "\n)"


def _identity_sequence(session: Session, table: Relation, column: Attribute) -> pg_sequence | None:
    """The sequence of an identity column; None: it is none, or has the sequence of the table that it is a partition
    of."""
    if not column.identity:
        return None
    depends = rows(session, pg_depend, refclassid=PG_CLASS, refobjid=table.oid, refobjsubid=column.num, deptype="i")
    sequence = next((d.objid for d in depends if d.classid == PG_CLASS), None)
    return None if sequence is None else one(session, pg_sequence, seqrelid=sequence)


# --- tables -----------------------------------------------------------------------------------------------------------


def is_unlogged(session: Session, table: Relation) -> bool:
    """A partitioned table has been, before 18; it holds no rows."""
    return table.persistence == "u" and (table.kind != "p" or session.settings.release < 18)


def create_table(session: Session, table: Relation, above: Above) -> str:
    """A partition has all its columns and checks itself: it is attached later."""
    named = not_nulls(session, table.oid)
    parts = [
        _definition(session, table, column, above, named.get(column.num))
        for column in table.columns
        if is_printed(table, column)
    ]
    checks = [
        row
        for row in rows(session, pg_constraint, conrelid=table.oid)
        if row.contype == "c" and (row.conislocal or table.is_partition) and row.convalidated
    ]
    checks += [
        row
        for number, row in named.items()
        if row.conislocal and row.convalidated and not is_printed(table, table.attributes[number - 1])
    ]
    parts += [f"CONSTRAINT {quote_identifier(row.conname)} {constraint_definition(session, row.oid)}" for row in checks]
    unlogged = "UNLOGGED " if is_unlogged(session, table) else ""
    body = "".join(f"\n    {part}," for part in parts)[:-1]
    text = f"CREATE {unlogged}TABLE {qualified(table)} ({body}\n)"
    over = [] if table.is_partition else [qualified(relation(session, oid)) for oid in parents(session, table.oid)]
    text += f"\nINHERITS ({', '.join(over)})" if over else ""
    key = partition_key_definition(session, table.oid) if table.kind == "p" else None
    if key is not None:
        text += f"\nPARTITION BY {key}"
    if table.options:
        text += f"\nWITH ({options_text(table.options)})"
    return text + ";"


def is_printed(table: Relation, column: Attribute) -> bool:
    """Is the column in CREATE TABLE (shouldPrintColumn)? Inherited ones are not."""
    return column.is_local or table.is_partition


# --- columns ----------------------------------------------------------------------------------------------------------


def columns_above(session: Session, table: Relation) -> Above:
    by_name: dict[str, list[Attribute]] = {}
    for parent in parents(session, table.oid):
        for column in relation(session, parent).columns:
            by_name.setdefault(column.name, []).append(column)
    return by_name


def column_facts(session: Session, table: Relation) -> dict[str, ColumnFacts]:
    above, named = columns_above(session, table), not_nulls(session, table.oid)
    return {c.name: _column(session, table, c, above, named.get(c.num)) for c in table.columns}


def _column(
    session: Session, table: Relation, column: Attribute, above: Above, row: pg_constraint | None
) -> ColumnFacts:
    sequence = _identity_sequence(session, table, column)
    return ColumnFacts(
        _definition(session, table, column, above, row),
        format_type(column.type, column.typmod) + collate_clause(session, column.type, column.collation),
        default_of(session, table, column, above),
        column.generated,
        column.notnull,
        ("", "") if row is None else (row.conname, " NO INHERIT" if row.connoinherit else ""),
        "" if sequence is None else column.identity,
        "" if sequence is None else _identity_clause(session, column, sequence),
        "" if sequence is None else all_options(sequence),
        not is_printed(table, column) or (table.is_partition and column.inhcount > 0),
    )


def default_of(session: Session, table: Relation, column: Attribute, above: Above) -> str | None:
    """The column's default; NULL hides that of a parent (flagInhAttrs)."""
    if column.has_default:
        return default_text(session, table.oid, column.num)
    hides = any(c.has_default and not c.generated for c in above.get(column.name, ()))
    return "NULL" if hides else None


def _definition(session: Session, table: Relation, column: Attribute, above: Above, row: pg_constraint | None) -> str:
    """`row`: the constraint NOT NULL."""
    text = f"{quote_identifier(column.name)} {type_text(session, column.type, column.typmod)}"
    text += collate_clause(session, column.type, column.collation)
    default = default_of(session, table, column, above)
    if default is not None:
        kind = "VIRTUAL" if column.generated == "v" else "STORED"
        text += f" GENERATED ALWAYS AS ({default}) {kind}" if column.generated else f" DEFAULT {default}"
    return text + (_not_null(table, column, row) if column.notnull else "")


def _not_null(table: Relation, column: Attribute, row: pg_constraint | None) -> str:
    """NOT NULL, with its name if it is not the one that it gets by default. What is NOT VALID comes later."""
    if row is None:
        return " NOT NULL"
    if not row.convalidated or not (row.conislocal or table.is_partition):
        return ""
    usual = make_object_name(table.name, column.name, "not_null")
    name = "" if row.conname == usual else f" CONSTRAINT {quote_identifier(row.conname)}"
    return f"{name} NOT NULL{' NO INHERIT' if row.connoinherit else ''}"
