"""The tables that a server publishes, as statements that make them here (`pgrepl import-schema`).

A table comes with what replication needs of it: the published columns, NOT NULL, its primary key, its replica identity,
and its partitions where rows are published by them. What a subscriber does without (defaults, checks, foreign keys,
other indexes) is left out. A type that is not here becomes text, which takes its values as they are sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import existing_publications, published_rows, published_tables
from pgrepl.sql.quote import quote_identifier
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.lake_forms import form
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.text import reader

# the base type of the domain t, which may be over another domain (getBaseTypeAndTypmod)
_BASE_TYPE = (
    "WITH RECURSIVE under(oid, typmod, depth) AS (SELECT t.typbasetype, t.typtypmod, 1 UNION ALL "
    "SELECT d.typbasetype, CASE WHEN u.typmod = -1 THEN d.typtypmod ELSE u.typmod END, u.depth + 1 "
    "FROM under u JOIN pg_catalog.pg_type d ON d.oid = u.oid AND d.typtype = 'd') "
    "SELECT oid, typmod FROM under ORDER BY depth DESC LIMIT 1"
)


@frozen
class RemoteColumn:
    name: str
    type: str
    notnull: bool
    comment: str | None  # the column's own type, if another takes its place


@frozen
class RemoteDefinition:
    """A table of the server, as far as it is made here."""

    oid: int
    schema: str
    name: str
    columns: tuple[RemoteColumn, ...]
    key: tuple[str, ...]
    replident: str
    identity: tuple[str, ...]  # the columns of a replica identity index
    identity_name: str  # of that index
    partition_key: str | None
    parent: tuple[str, str] | None  # of a partition that is made as one
    bound: str | None

    @property
    def qualified_name(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"


def create_statements(link: Link, publications: Sequence[str]) -> Iterator[str]:
    """The statements, each with the comments that belong to it."""
    names = list(publications) or [row[0] or "" for row in link.rows("SELECT pubname FROM pg_catalog.pg_publication")]
    if not names:
        raise PgError("42704", f'there are no publications in database "{link.database}"')
    missing = set(names) - existing_publications(link, names)
    if missing:
        raise PgError("42704", f'publication "{min(missing)}" does not exist')
    definitions = list(_definitions(link, names))
    for schema in dict.fromkeys(each.schema for each in definitions if each.schema != "public"):
        yield f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)};"
    for each in definitions:
        yield from _statements(each)


# --- asking -----------------------------------------------------------------------------------------------------------


def _definitions(link: Link, names: Sequence[str]) -> Iterator[RemoteDefinition]:
    listed = [(table.schema, table.name) for table in published_tables(link, names)]
    made: set[int] = set()
    for schema, name in dict.fromkeys(listed):
        oid = int(link.value(f"SELECT {_regclass(link, schema, name)}::oid"))
        if oid in made:
            continue
        for relid, parent in _tree(link, oid, listed):
            made.add(relid)
            yield _definition(link, relid, parent, names)


def _regclass(link: Link, schema: str, name: str) -> str:
    return f"{link.literal(f'{link.identifier(schema)}.{link.identifier(name)}')}::regclass"


def _tree(link: Link, oid: int, listed: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """The tables to make, as (table, its parent or 0): a table, or a partitioned one with all of its partitions; the
    latter also if all of its leaves are published instead of the root."""
    root = int(link.value(f"SELECT coalesce(pg_catalog.pg_partition_root({oid}), {oid}::oid::regclass)::oid"))
    members = link.rows(
        "SELECT c.oid, coalesce(t.parentrelid, 0)::oid, t.isleaf, n.nspname, c.relname "
        f"FROM pg_catalog.pg_partition_tree({root}) t JOIN pg_catalog.pg_class c ON c.oid = t.relid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY t.level, c.relname"
    )
    leaves = {(schema, name) for _, _, leaf, schema, name in members if leaf == "t"}
    if not members or not (root == oid or leaves <= set(listed)):
        return [(oid, 0)]
    return [(int(relid or 0), int(parent or 0)) for relid, parent, *_ in members]


def _definition(link: Link, oid: int, parent: int, names: Sequence[str]) -> RemoteDefinition:
    schema, name, kind, replident, partition_key, bound = link.row(
        "SELECT n.nspname, c.relname, c.relkind, c.relreplident, pg_catalog.pg_get_partkeydef(c.oid), "
        "pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM pg_catalog.pg_class c "
        f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {oid}"
    )
    assert schema is not None and name is not None
    columns = _columns(link, oid, schema, name, names)
    known = {column.name for column in columns}
    of_parent = None
    if parent:
        there = link.row(
            "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c "
            f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {parent}"
        )
        of_parent = (there[0] or "", there[1] or "")
    (_, key), (index, identity) = (_index(link, oid, which) for which in ("indisprimary", "indisreplident"))
    return RemoteDefinition(
        oid,
        schema,
        name,
        columns,
        key if set(key) <= known else (),
        replident or "d",
        identity if set(identity) <= known and identity != key else (),
        index,
        partition_key if kind == "p" else None,
        of_parent,
        bound,
    )


def _columns(link: Link, oid: int, schema: str, name: str, names: Sequence[str]) -> tuple[RemoteColumn, ...]:
    published = {column.name for column in published_rows(link, schema, name, names).columns}
    listed = link.rows(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypid, a.atttypmod, a.attnotnull, "
        "t.typtype, pg_catalog.format_type(b.oid, b.typmod), b.oid, b.typmod "
        "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
        f"LEFT JOIN LATERAL ({_BASE_TYPE}) b ON t.typtype = 'd' "
        f"WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    made = []
    for column, type_name, typoid, typmod, notnull, kind, base_name, base, base_typmod in listed:
        if column not in published:
            continue
        shown, comment = type_name or "", None
        if kind == "d" and _is_here(int(base or 0), int(base_typmod or -1)):
            shown, comment = base_name or "", f"domain {type_name}"
        elif not _is_here(int(typoid or 0), int(typmod or -1)):
            shown, comment = "text", f"type {type_name} is not here: its values as text"
        made.append(RemoteColumn(column or "", shown, notnull == "t", comment))
    return tuple(made)


def _is_here(typoid: int, typmod: int) -> bool:
    row = type_by_oid(typoid) if typoid < FIRST_USER_OID else None
    if row is None or row.typtype == "p" or row.name.lstrip("_").startswith("reg"):
        return False  # values of regclass and similar types name objects of the server
    try:
        form(typoid, typmod)
        reader(typoid)
    except PgError:
        return False
    return True


def _index(link: Link, oid: int, which: str) -> tuple[str, tuple[str, ...]]:
    """The name and the columns of the primary key or replica identity index; both are empty if there is none."""
    listed = link.rows(
        "SELECT a.attname, x.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid "
        "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {oid} AND i.{which} AND k.place <= i.indnkeyatts ORDER BY k.place"
    )
    return (listed[0][1] or "" if listed else ""), tuple([row[0] or "" for row in listed])


# --- writing ----------------------------------------------------------------------------------------------------------


def _statements(table: RemoteDefinition) -> Iterator[str]:
    if table.parent is not None:
        parent = ".".join(map(quote_identifier, table.parent))
        by = "" if table.partition_key is None else f" PARTITION BY {table.partition_key}"
        yield f"CREATE TABLE {table.qualified_name} PARTITION OF {parent} {table.bound}{by};"
    else:
        yield _create(table)
    if table.replident == "f":
        yield f"ALTER TABLE {table.qualified_name} REPLICA IDENTITY FULL;"
    elif table.replident == "i" and table.identity and table.partition_key is None:
        index, listed = quote_identifier(table.identity_name), ", ".join(map(quote_identifier, table.identity))
        yield f"CREATE UNIQUE INDEX {index} ON {table.qualified_name} ({listed});"
        yield f"ALTER TABLE {table.qualified_name} REPLICA IDENTITY USING INDEX {index};"


def _create(table: RemoteDefinition) -> str:
    lines = []
    for column in table.columns:
        text = f"{quote_identifier(column.name)} {column.type}{' NOT NULL' if column.notnull else ''}"
        lines.append((text, column.comment))
    if table.key:
        lines.append((f"PRIMARY KEY ({', '.join(map(quote_identifier, table.key))})", None))
    last = len(lines) - 1
    body = "".join(
        f"    {text}{',' if number < last else ''}{f'  -- {_one_line(comment)}' if comment else ''}\n"
        for number, (text, comment) in enumerate(lines)
    )
    by = "" if table.partition_key is None else f" PARTITION BY {table.partition_key}"
    return f"CREATE TABLE {table.qualified_name} (\n{body}){by};"


def _one_line(text: str) -> str:
    return " ".join(text.split())
