"""The tables that a server publishes, as it defines them: for `pgrepl import-schema` and schema_changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteColumn, RemoteDefinition, RemoteType
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.programs import Program, in_order, programs
from pgrepl.replication.publisher.postgres.published import existing_publications, published_rows, published_tables
from pgrepl.replication.publisher.postgres.types import ServerTypes
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.sql.quote import quote_identifier, quote_qualified
from pgrepl.types.oids import TEXT_ARRAY
from pgrepl.types.text import read_text

# as pg_get_expr writes constants
_CONSTANT = re.compile(r"-?[0-9.]+|true|false|'(?:[^'\\]|'')*'::[a-z][\w \[\](),]*")
_DEFAULT = "pg_catalog.pg_get_expr(d.adbin, d.adrelid)"
_TYPE = "a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod)"


@frozen
class Imported:
    """A statement that makes something here. `notes`: what is not here as it is at the server; `noted`: what of it the
    statement says itself. What is not essential (`name`) is left out if it cannot be made. `table`: the one that it
    makes, or goes on with."""

    statement: str
    notes: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    name: str = ""
    table: RemoteDefinition | None = None


def create_statements(link: Link, publications: Sequence[str], kinds: Collection[str]) -> Iterator[Imported]:
    """`kinds`: those of `programs` that come with the tables."""
    names = list(publications) or [row[0] or "" for row in link.rows("SELECT pubname FROM pg_catalog.pg_publication")]
    if not names:
        raise PgError("42704", f'there are no publications in database "{link.database}"')
    missing = set(names) - existing_publications(link, names)
    if missing:
        raise PgError("42704", f'publication "{min(missing)}" does not exist')
    known = ServerTypes(link)
    definitions = list(_definitions(link, names, known))
    needed = dict.fromkeys(each for definition in definitions for each in definition.types)
    types = known.all() if kinds else list(needed)
    found = list(in_order(link, programs(link, kinds), [("pg_class", each.oid) for each in definitions]))
    schemas = [each.schema for each in types] + [each.schema for each in definitions]
    schemas += [each.schema for each in found if each.refused is None]
    for schema in dict.fromkeys(each for each in schemas if each != "public"):
        yield Imported(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)};")
    for each in types:
        yield Imported(each.made[0], each.left if "routine" not in kinds else ())
        yield from map(Imported, each.made[1:])
    for definition in definitions:
        first, *others = definition.statements(comments=True)
        yield Imported(first, definition.left, definition.notes, table=definition)
        yield from (Imported(each, table=definition) for each in others)
    yield from _programs(found, known, kinds)


def _programs(found: Sequence[Program], types: ServerTypes, kinds: Collection[str]) -> Iterator[Imported]:
    if "routine" in kinds:
        yield Imported("SET check_function_bodies = false;")
    for each in found:
        if each.refused is not None:
            yield Imported("", (f"{each.name} is not imported: {each.refused}",))
        else:
            yield from (Imported(text, name=each.name) for text in each.made)
    for name, statement in types.left_out() if "routine" in kinds else ():
        yield Imported(statement, name=name)


# --- asking -----------------------------------------------------------------------------------------------------------


def definitions(link: Link, schema: str, name: str, names: Sequence[str]) -> list[RemoteDefinition]:
    """The tables to make for a published one: itself, with its partitions if rows are published by them; none: it is
    not published."""
    listed = [(table.schema, table.name) for table in published_tables(link, names)]
    if (schema, name) not in listed:
        return []
    return list(_defined(link, [(schema, name)], listed, names, ServerTypes(link)))


def _definitions(link: Link, names: Sequence[str], types: ServerTypes) -> Iterator[RemoteDefinition]:
    listed = [(table.schema, table.name) for table in published_tables(link, names)]
    return _defined(link, listed, listed, names, types)


def _defined(
    link: Link,
    wanted: Sequence[tuple[str, str]],
    listed: Sequence[tuple[str, str]],
    names: Sequence[str],
    types: ServerTypes,
) -> Iterator[RemoteDefinition]:
    made: set[int] = set()
    for schema, name in dict.fromkeys(wanted):
        oid = int(link.value(f"SELECT {_regclass(link, schema, name)}::oid"))
        if oid in made:
            continue
        for relid, parent in _tree(link, oid, listed):
            made.add(relid)
            yield _definition(link, relid, parent, names, types)


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


def _definition(link: Link, oid: int, parent: int, names: Sequence[str], types: ServerTypes) -> RemoteDefinition:
    schema, name, kind, replident, partition_key, bound = link.row(
        "SELECT n.nspname, c.relname, c.relkind, c.relreplident, pg_catalog.pg_get_partkeydef(c.oid), "
        "pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM pg_catalog.pg_class c "
        f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {oid}"
    )
    assert schema is not None and name is not None
    columns, left = _columns(link, oid, schema, name, names, types)
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
        () if parent else left,
    )


def _columns(
    link: Link, oid: int, schema: str, name: str, names: Sequence[str], types: ServerTypes
) -> tuple[tuple[RemoteColumn, ...], tuple[str, ...]]:
    """The published columns, and what is not made of the table's columns, in words."""
    published = {column.name for column in published_rows(link, schema, name, names).columns}
    listed = link.rows(
        f"SELECT a.attnum, a.attname, a.attnotnull, a.attgenerated, a.attidentity, {_DEFAULT}, {_TYPE} "
        "FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid "
        f"AND d.adnum = a.attnum WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    made, left = [], []
    table = quote_qualified(schema, name)
    for num, column, notnull, generated, identity, default, *described in listed:
        assert num is not None and column is not None
        place = f"column {quote_identifier(column)} of table {table}"
        if column not in published:
            left.append(f"{'generated ' if generated else ''}{place} is not published")
            continue
        typoid, typmod, here, comment, needed = _type(described, types)
        made.append(RemoteColumn(int(num), column, typoid, typmod, here, notnull == "t", comment, needed))
        if generated:
            left.append(f"{place} is not generated here, but published: {default}")
        elif default is not None:
            left.append(f"the default of {place} is not here: {default}")
        elif identity:
            left.append(f"{place} is no identity column here")
    return tuple(made), tuple(left)


def attributes(link: Link, relid: int) -> tuple[RemoteAttribute, ...]:
    """All columns of a table, dropped ones included; empty: there is no such table."""
    listed = link.rows(
        f"SELECT a.attnum, a.attname, a.attisdropped, a.attmissingval::text, {_TYPE} FROM pg_catalog.pg_attribute a "
        f"WHERE a.attrelid = {relid} AND a.attnum > 0 ORDER BY a.attnum"
    )
    types = ServerTypes(link)
    found = []
    for num, name, dropped, missing, *described in listed:
        typoid, typmod, here, _, needed = _type(described, types)
        older = None if missing is None else read_text(missing, TEXT_ARRAY).items[0]
        found.append(RemoteAttribute(int(num or 0), name or "", typoid, typmod, here, dropped == "t", older, needed))
    return tuple(found)


def older_value(link: Link, relid: int, attnum: int) -> str | None:
    """The value of a column in rows that are older than it, after these have been rewritten: its default, if that is a
    constant and no row has NULL. (Rows that got their values by an UPDATE since are sent with them.)"""
    found = link.rows(
        "SELECT pg_catalog.format('%s%I.%I', CASE c.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END, n.nspname, c.relname), "
        "pg_catalog.format('%I', a.attname), pg_catalog.pg_get_expr(d.adbin, d.adrelid) "
        "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        f"WHERE a.attrelid = {relid} AND a.attnum = {attnum} AND a.attgenerated = ''"
    )
    if not found or _CONSTANT.fullmatch(found[0][2] or "") is None:
        return None
    table, column, default = found[0]
    try:
        has_null = link.value(f"SELECT EXISTS (SELECT FROM {table} WHERE {column} IS NULL)") == "t"
    except PublisherError as error:
        if error.sqlstate != "42501":  # it may not be read
            raise
        return None
    return None if has_null else link.value(f"SELECT ({default})::text")


def _type(
    described: Sequence[str | None], types: ServerTypes
) -> tuple[int, int, str, str | None, tuple[RemoteType, ...]]:
    """The type and its modifier, the name of the type that is taken here, why if it is another, and what has to be made
    for it."""
    typoid, typmod, name = int(described[0] or 0), int(described[1] or -1), described[2] or ""
    if not types.is_made(typoid, typmod):
        return typoid, typmod, "text", f"type {name} is not here: its values as text", ()
    return typoid, typmod, name, None, types.needed(typoid)


def _index(link: Link, oid: int, which: str) -> tuple[str, tuple[str, ...]]:
    """The name and the columns of the primary key or replica identity index; both are empty if there is none."""
    listed = link.rows(
        "SELECT a.attname, x.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid "
        "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {oid} AND i.{which} AND k.place <= i.indnkeyatts ORDER BY k.place"
    )
    return (listed[0][1] or "" if listed else ""), tuple([row[0] or "" for row in listed])
