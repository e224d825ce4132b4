"""The tables that a server publishes (`pgrepl import-schema`, schema_changes), and all definitions of its database
(`pgrepl diff`), as statements in the server's own words; its foreign servers, of which those of postgres_fdw have the
wrapper `postgresql` here, which knows libpq's options alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pgrepl.catalog.session.settings import USUAL_RELEASE
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.conninfo import SERVER_OPTIONS, USER_OPTIONS
from pgrepl.replication.publisher.postgres import published
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.published import (
    GENERATED,
    existing_publications,
    published_rows,
    published_tables,
)
from pgrepl.replication.publisher.postgres.types import (
    Program,
    ServerStatement,
    ServerTypes,
    in_order,
    of_users,
    programs,
)
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.publisher.tables import (
    RemoteAttribute,
    RemoteColumn,
    RemoteDefinition,
    RemoteNotNull,
    RemoteType,
)
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.oids import TEXT_ARRAY
from pgrepl.types.text import read_text

# as pg_get_expr writes constants
_CONSTANT = re.compile(r"-?[0-9.]+|true|false|'(?:[^'\\]|'')*'::[a-z][\w \[\](),]*")
_DEFAULT = "pg_catalog.pg_get_expr(d.adbin, d.adrelid)"
_NOT_NULL = (
    "(SELECT pg_catalog.json_build_array(k.conname, k.connoinherit, k.convalidated) FROM pg_catalog.pg_constraint k"
    " WHERE k.conrelid = a.attrelid AND k.contype = 'n' AND k.conkey[1] = a.attnum)"
)
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


def create_statements(
    link: Link,
    publications: Sequence[str],
    kinds: Collection[str],
    *,
    with_servers: bool = False,
    spoken: Callable[[], int] = lambda: USUAL_RELEASE,
) -> Iterator[Imported]:
    """`kinds`: those of `programs` that come with the tables. `with_servers`: and foreign servers. `spoken` tells the
    release that is spoken here, where that matters."""
    names = list(publications) or [row[0] or "" for row in link.rows("SELECT pubname FROM pg_catalog.pg_publication")]
    if not names:
        raise PgError("42704", f'there are no publications in database "{link.database}"')
    missing = set(names) - existing_publications(link, names)
    if missing:
        raise PgError("42704", f'publication "{min(missing)}" does not exist')
    known = ServerTypes(link)
    try:
        definitions = list(_definitions(link, names, known))
    except PgError as error:
        if not publications:  # column lists that differ are those of different subscriptions
            error.report = replace(error.report, hint="Name the publications of one subscription with -p.")
        raise
    needed = dict.fromkeys(server_type for definition in definitions for server_type in definition.types)
    types = known.all() if kinds else list(needed)
    listed = list(in_order(link, programs(link, kinds), [("pg_class", definition.oid) for definition in definitions]))
    schemas = [server_type.schema for server_type in types] + [definition.schema for definition in definitions]
    schemas += [program.schema for program in listed if program.refused is None]
    for schema in dict.fromkeys(name for name in schemas if name != "public"):
        yield Imported(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)};")
    for server_type in types:
        yield Imported(server_type.made[0], server_type.left if "routine" not in kinds else ())
        yield from map(Imported, server_type.made[1:])
    release = spoken() if any(definition.is_newer for definition in definitions) else USUAL_RELEASE
    for definition in definitions:
        first, *others = definition.statements(comments=True, release=release, not_valid=release >= 18)
        left = (*definition.left, *(definition.checked if release >= 18 else definition.ordinary))
        yield Imported(first, left, definition.notes, table=definition)
        yield from (Imported(text, table=definition) for text in others)
    for definition in definitions if release >= 18 else ():
        if definition.partition_key is not None:
            yield from (Imported(text, table=definition) for text in definition.not_valid())
    yield from _programs(listed, known, kinds)
    for foreign in (*servers(link), *mappings(link)) if with_servers else ():
        yield Imported(foreign.statement, foreign.left, name=foreign.what)


def _programs(listed: Sequence[Program], types: ServerTypes, kinds: Collection[str]) -> Iterator[Imported]:
    if "routine" in kinds:
        yield Imported("SET check_function_bodies = false;")
    for program in listed:
        if program.refused is not None:
            yield Imported("", (f"{program.name} is not imported: {program.refused}",))
        else:
            yield from (Imported(statement.text, name=program.name) for statement in program.made)
    for left in types.left_out() if "routine" in kinds else ():
        yield Imported(left.text, name=left.what)


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
    defined: set[int] = set()
    for schema, name in dict.fromkeys(wanted):
        oid = int(link.value(f"SELECT {_regclass(link, schema, name)}::oid"))
        if oid in defined:
            continue
        for relid, parent in _tree(link, oid, listed):
            defined.add(relid)
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
    (_, key, has_periods), (index, identity, tells_periods) = (
        _index(link, oid, which) for which in ("indisprimary", "indisreplident")
    )
    typed = {column.name for column in columns if column.comment is None}
    temporal = {
        kind
        for kind, listed, is_temporal in (("p", key, has_periods), ("u", identity, tells_periods))
        if is_temporal and set(listed) <= typed
    }
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
        temporal=frozenset(temporal),
    )


def _columns(
    link: Link, oid: int, schema: str, name: str, names: Sequence[str], types: ServerTypes
) -> tuple[tuple[RemoteColumn, ...], tuple[str, ...]]:
    """The published columns, and what is not made of the table's columns, in words."""
    published = {column.name for column in published_rows(link, schema, name, names).columns}
    of_column = _NOT_NULL if link.version >= GENERATED else "NULL"
    listed = link.rows(
        f"SELECT a.attnum, a.attname, a.attnotnull, {of_column}, a.attgenerated, a.attidentity, {_DEFAULT}, {_TYPE} "
        "FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid "
        f"AND d.adnum = a.attnum WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    columns, left = [], []
    table = quote_qualified(schema, name)
    for num, column, notnull, named, generated, identity, default, *described in listed:
        assert num is not None and column is not None
        place = f"column {quote_identifier(column)} of table {table}"
        if column not in published:
            left.append(f"{'generated ' if generated else ''}{place} is not published")
            continue
        typoid, typmod, here, comment, needed = _type(described, types)
        constraint = None if named is None else RemoteNotNull(*json.loads(named))
        is_not_null = notnull == "t" and (constraint is None or constraint.is_valid)
        columns.append(RemoteColumn(int(num), column, typoid, typmod, here, is_not_null, comment, needed, constraint))
        if generated:
            left.append(f"{place} is not generated here, but published: {default}")
        elif default is not None:
            left.append(f"the default of {place} is not here: {default}")
        elif identity:
            left.append(f"{place} is no identity column here")
    return tuple(columns), tuple(left)


def attributes(link: Link, relid: int) -> tuple[RemoteAttribute, ...]:
    """All columns of a table, dropped ones included; empty: there is no such table."""
    listed = link.rows(
        "SELECT a.attnum, a.attname, a.attisdropped, a.attmissingval::text,"
        f" CASE WHEN a.attgenerated <> '' THEN {_DEFAULT} END, {_TYPE} FROM pg_catalog.pg_attribute a"
        " LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        f" WHERE a.attrelid = {relid} AND a.attnum > 0 ORDER BY a.attnum"
    )
    types = ServerTypes(link)
    attributes_there = []
    for num, name, dropped, missing, generated, *described in listed:
        typoid, typmod, here, _, needed = _type(described, types)
        older = None if missing is None else read_text(missing, TEXT_ARRAY).items[0]
        is_dropped = dropped == "t"
        attributes_there.append(
            RemoteAttribute(int(num or 0), name or "", typoid, typmod, here, is_dropped, older, needed, generated or "")
        )
    return tuple(attributes_there)


def older_value(link: Link, relid: int, attnum: int) -> str | None:
    """The value of a column in rows that are older than it, after these have been rewritten: its default, if that is a
    constant and no row has NULL. (Rows that got their values by an UPDATE since are sent with them.)"""
    defaults = link.rows(
        "SELECT pg_catalog.format('%s%I.%I', CASE c.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END, n.nspname, c.relname), "
        "pg_catalog.format('%I', a.attname), pg_catalog.pg_get_expr(d.adbin, d.adrelid) "
        "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        f"WHERE a.attrelid = {relid} AND a.attnum = {attnum} AND a.attgenerated = ''"
    )
    if not defaults or _CONSTANT.fullmatch(defaults[0][2] or "") is None:
        return None
    table, column, default = defaults[0]
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


def _index(link: Link, oid: int, which: str) -> tuple[str, tuple[str, ...], bool]:
    """The name and the columns of the primary key or replica identity index, and whether it is WITHOUT OVERLAPS; all
    are empty if there is none."""
    period = "EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.conindid = i.indexrelid AND c.conperiod)"
    listed = link.rows(
        f"SELECT a.attname, x.relname, {period if link.version >= GENERATED else 'false'} "
        "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid "
        "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {oid} AND i.{which} AND k.place <= i.indnkeyatts ORDER BY k.place"
    )
    if not listed:
        return "", (), False
    _, index, is_temporal = listed[0]
    return index or "", tuple([row[0] or "" for row in listed]), is_temporal == "t"


# --- definitions ------------------------------------------------------------------------------------------------------


_OWN = of_users("pg_class", "c.oid")
_NAME = "pg_catalog.format('%I.%I', n.nspname, c.relname)"
_RELATIONS = "pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"

_SCHEMAS = (
    "SELECT pg_catalog.format('%I', nspname), pg_catalog.format('CREATE SCHEMA %I', nspname) "
    "FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')"
    " ORDER BY 1"
)
_SEQUENCES = (
    f"SELECT {_NAME}, pg_catalog.format('CREATE SEQUENCE %I.%I AS %s START WITH %s INCREMENT BY %s MINVALUE %s"
    " MAXVALUE %s CACHE %s %s', n.nspname, c.relname, pg_catalog.format_type(s.seqtypid, NULL), s.seqstart,"
    " s.seqincrement, s.seqmin, s.seqmax, s.seqcache, CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)"
    f" FROM {_RELATIONS} JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid WHERE {_OWN} AND NOT EXISTS (SELECT FROM"
    " pg_catalog.pg_depend i WHERE i.classid = 'pg_catalog.pg_class'::regclass AND i.objid = c.oid AND i.deptype = 'i')"
    " ORDER BY c.oid"
)
_COLUMN = """pg_catalog.string_agg(pg_catalog.format('%I %s%s%s%s', a.attname,
    pg_catalog.format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attcollation <> t.typcollation THEN (SELECT pg_catalog.format(' COLLATE %I.%I', cn.nspname, l.collname)
        FROM pg_catalog.pg_collation l JOIN pg_catalog.pg_namespace cn ON cn.oid = l.collnamespace
        WHERE l.oid = a.attcollation) ELSE '' END,
    CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_catalog.pg_get_expr(d.adbin, d.adrelid)
            || CASE a.attgenerated WHEN 's' THEN ') STORED' ELSE ') VIRTUAL' END
        WHEN i.name IS NOT NULL THEN pg_catalog.format(' GENERATED %s AS IDENTITY (SEQUENCE NAME %s START WITH %s'
            ' INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s %s)', CASE a.attidentity WHEN 'a' THEN 'ALWAYS'
            ELSE 'BY DEFAULT' END, i.name, i.seqstart, i.seqincrement, i.seqmin, i.seqmax, i.seqcache,
            CASE WHEN i.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)
        WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) ELSE '' END,
    CASE WHEN a.attnotnull THEN coalesce((SELECT CASE WHEN k.convalidated AND (k.conislocal OR c.relispartition)
            THEN pg_catalog.format(' CONSTRAINT %I NOT NULL', k.conname) || CASE WHEN k.connoinherit THEN ' NO INHERIT'
            ELSE '' END ELSE '' END FROM pg_catalog.pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
            AND k.conkey[1] = a.attnum), ' NOT NULL') ELSE '' END), ', ' ORDER BY a.attnum)"""
# of inherited columns, as PostgreSQL 18 has them
_NOT_NULLS = """SELECT pg_catalog.string_agg(pg_catalog.format('CONSTRAINT %I %s', k.conname,
    pg_catalog.pg_get_constraintdef(k.oid)), ', ' ORDER BY k.conkey[1]) FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1] AND NOT a.attislocal
    WHERE k.conrelid = c.oid AND k.contype = 'n' AND k.conislocal AND k.convalidated AND NOT c.relispartition"""
_TABLES = f"""SELECT {_NAME}, pg_catalog.format('CREATE %sTABLE %I.%I (%s)%s%s%s',
    CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, n.nspname, c.relname,
    pg_catalog.concat_ws(', ', (SELECT {_COLUMN}
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        LEFT JOIN LATERAL (SELECT pg_catalog.format('%I.%I', qn.nspname, q.relname) AS name, s.*
            FROM pg_catalog.pg_depend p JOIN pg_catalog.pg_class q ON q.oid = p.objid AND q.relkind = 'S'
            JOIN pg_catalog.pg_namespace qn ON qn.oid = q.relnamespace
            JOIN pg_catalog.pg_sequence s ON s.seqrelid = q.oid
            WHERE p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND p.deptype = 'i'
            AND p.classid = 'pg_catalog.pg_class'::regclass) i ON a.attidentity <> ''
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (a.attislocal OR c.relispartition)),
        ({_NOT_NULLS})),
    coalesce((SELECT ' INHERITS (' || pg_catalog.string_agg(pg_catalog.format('%I.%I', pn.nspname, pc.relname), ', '
        ORDER BY h.inhseqno) || ')' FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class pc ON pc.oid = h.inhparent
        JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace
        WHERE h.inhrelid = c.oid AND NOT c.relispartition), ''),
    CASE c.relkind WHEN 'p' THEN ' PARTITION BY ' || pg_catalog.pg_get_partkeydef(c.oid) ELSE '' END,
    coalesce((SELECT ' WITH (' || pg_catalog.string_agg(pg_catalog.format('%I = %L', o.option_name, o.option_value),
        ', ') || ')' FROM pg_catalog.pg_options_to_table(c.reloptions) o), ''))
    FROM {_RELATIONS} WHERE c.relkind IN ('r', 'p') AND {_OWN} ORDER BY c.oid"""
# of columns: what CREATE TABLE does not say of inherited ones, statistics, storage, compression
_SETTINGS = f"""SELECT {_NAME}, pg_catalog.format('ALTER TABLE ONLY %I.%I ALTER COLUMN %I %s', n.nspname, c.relname,
    a.attname, s.change), pg_catalog.format('column %I', a.attname)
    FROM {_RELATIONS} JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    CROSS JOIN LATERAL (SELECT NOT a.attislocal AND NOT c.relispartition AS inherits) i
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN i.inherits AND a.attgenerated = ''
            THEN coalesce('SET DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid), 'DROP DEFAULT') END),
        (CASE WHEN i.inherits AND a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
            WHERE k.conrelid = c.oid AND k.contype = 'n' AND k.conkey[1] = a.attnum) THEN 'SET NOT NULL' END),
        (CASE WHEN a.attstattarget >= 0 THEN pg_catalog.format('SET STATISTICS %s', a.attstattarget) END),
        (CASE WHEN a.attstorage <> t.typstorage THEN 'SET STORAGE ' || CASE a.attstorage WHEN 'p' THEN 'PLAIN'
            WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END),
        (CASE a.attcompression WHEN 'p' THEN 'SET COMPRESSION pglz' WHEN 'l' THEN 'SET COMPRESSION lz4' END))
        s(change)
    WHERE c.relkind IN ('r', 'p') AND s.change IS NOT NULL AND {_OWN} ORDER BY c.oid, a.attnum"""
_PARTITIONS = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER TABLE ONLY %I.%I ATTACH PARTITION %I.%I %s', pn.nspname, p.relname,"
    " n.nspname, c.relname, pg_catalog.pg_get_expr(c.relpartbound, c.oid)), 'partition'"
    f" FROM {_RELATIONS} JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid"
    " JOIN pg_catalog.pg_class p ON p.oid = h.inhparent JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace"
    f" WHERE c.relkind IN ('r', 'p') AND c.relispartition AND {_OWN} ORDER BY c.oid"
)
_CONSTRAINTS = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER TABLE %s%I.%I ADD CONSTRAINT %I %s', CASE WHEN c.relkind = 'p' OR"
    " k.contype IN ('c', 'n') THEN '' ELSE 'ONLY ' END, n.nspname, c.relname, k.conname,"
    " pg_catalog.pg_get_constraintdef(k.oid)), pg_catalog.format('constraint %I', k.conname)"
    f" FROM {_RELATIONS} JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid"
    " WHERE (k.contype IN ('c', 'p', 'u', 'f', 'x') OR (k.contype = 'n' AND NOT k.convalidated))"
    f" AND k.conparentid = 0 AND k.conislocal AND {_OWN}"
    " ORDER BY k.contype = 'f', k.oid"
)
_INDEXES = (
    "SELECT pg_catalog.format('%I.%I', n.nspname, t.relname),"
    " pg_catalog.replace(pg_catalog.pg_get_indexdef(c.oid), ' ON ONLY ', ' ON '),"
    f" pg_catalog.format('index %I', c.relname), {_NAME} FROM {_RELATIONS}"
    " JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid JOIN pg_catalog.pg_class t ON t.oid = i.indrelid"
    f" WHERE t.relkind <> 'm' AND c.relkind IN ('i', 'I') AND NOT c.relispartition AND {_OWN}"
    " AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u', 'x'))"
    " ORDER BY c.oid"
)
_IDENTITIES = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER TABLE ONLY %I.%I REPLICA IDENTITY %s', n.nspname, c.relname,"
    " CASE c.relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING'"
    " ELSE pg_catalog.format('USING INDEX %I', x.relname)"
    f" END), 'replica identity' FROM {_RELATIONS}"
    " LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisreplident"
    " LEFT JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid"
    f" WHERE c.relkind IN ('r', 'p') AND c.relreplident <> 'd' AND {_OWN} ORDER BY c.oid"
)
_OWNED = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER SEQUENCE %I.%I OWNED BY %I.%I.%I', n.nspname, c.relname, tn.nspname,"
    f" t.relname, a.attname), 'owned by' FROM {_RELATIONS}"
    " JOIN pg_catalog.pg_depend d ON d.objid = c.oid AND d.deptype = 'a'"
    " AND d.classid = 'pg_catalog.pg_class'::regclass JOIN pg_catalog.pg_class t ON t.oid = d.refobjid"
    " JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid"
    f" AND a.attnum = d.refobjsubid WHERE c.relkind = 'S' AND {_OWN} ORDER BY c.oid"
)
_PUBLICATIONS = (
    "SELECT pg_catalog.format('%I', p.pubname), pg_catalog.format('CREATE PUBLICATION %I%s WITH (publish = %L,"
    " publish_via_partition_root = %s%s)', p.pubname, {for_all},"
    " pg_catalog.concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END,"
    " CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN p.pubtruncate THEN 'truncate' END),"
    " CASE WHEN p.pubviaroot THEN 'true' ELSE 'false' END, {generated})"
    " FROM pg_catalog.pg_publication p ORDER BY p.oid"
)
_MEMBERS = (
    "SELECT pg_catalog.format('%I', p.pubname), pg_catalog.format('ALTER PUBLICATION %I ADD TABLE ONLY %I.%I%s%s',"
    " p.pubname, n.nspname, c.relname, {columns}, {filter}), 'members' FROM pg_catalog.pg_publication_rel r"
    " JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid JOIN pg_catalog.pg_class c ON c.oid = r.prrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE NOT p.puballtables ORDER BY r.oid"
)
_LISTED = (
    "coalesce((SELECT ' (' || pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY k.place) || ')'"
    " FROM unnest(r.prattrs::int2[]) WITH ORDINALITY k(num, place) JOIN pg_catalog.pg_attribute a"
    " ON a.attrelid = r.prrelid AND a.attnum = k.num), '')"
)
_FILTERED = "coalesce(' WHERE (' || pg_catalog.pg_get_expr(r.prqual, r.prrelid) || ')', '')"
_MEMBER_SCHEMAS = (
    "SELECT pg_catalog.format('%I', p.pubname), pg_catalog.format('ALTER PUBLICATION %I ADD TABLES IN SCHEMA %I',"
    " p.pubname, n.nspname), 'members' FROM pg_catalog.pg_publication_namespace r JOIN pg_catalog.pg_publication p"
    " ON p.oid = r.pnpubid JOIN pg_catalog.pg_namespace n ON n.oid = r.pnnspid ORDER BY r.oid"
)


def definition_statements(link: Link) -> Iterator[ServerStatement]:
    """One may need another that comes later, as a default that calls a function does."""
    version = int(link.value("SHOW server_version_num"))
    newer = version >= 150000  # with column lists, filters and schemas
    members = _MEMBERS.format(
        columns=_LISTED if newer else quote_literal(""), filter=_FILTERED if newer else quote_literal("")
    )
    if version >= GENERATED:
        yield ServerStatement("settings", "SET pgrepl.postgres_version = 18;", "", "")
    yield from _statements(link, [_SCHEMAS], "schema")
    types = ServerTypes(link)
    yield ServerStatement("functions", "SET check_function_bodies = false;", "", "")
    for server_type in types.all():
        yield ServerStatement(server_type.qualified_name, server_type.made[0], "type", server_type.qualified_name)
    yield from types.left_out(not_valid=True)
    yield from _statements(link, [_SEQUENCES], "sequence")
    yield from _statements(link, [_TABLES], "table")
    yield from _statements(link, [_SETTINGS, _PARTITIONS, _CONSTRAINTS, _INDEXES, _IDENTITIES, _OWNED])
    for program in programs(link):
        if program.refused is None:
            yield from program.made
    stored = "CASE p.pubgencols WHEN 's' THEN ', publish_generated_columns = stored' END"
    publications = _PUBLICATIONS.format(
        for_all=published.for_all(link), generated=stored if version >= GENERATED else "NULL"
    )
    yield from _statements(link, [publications], "publication")
    yield from _statements(link, [members, *([_MEMBER_SCHEMAS] if newer else [])])


def _statements(link: Link, queries: Iterable[str], kind: str = "") -> Iterator[ServerStatement]:
    """What the queries ask: the object, a statement; and of one that makes a part, that, and what it is about if it is
    not the object."""
    for query in queries:
        for row in link.rows(query):
            of, text, part, what = (*row, None, None)[:4]
            text = (text or "").rstrip().rstrip(";") + ";"
            yield ServerStatement(what or of or "", text, kind, of or "", part or "")


_WRAPPERS = {"postgres_fdw": "postgresql", "postgresql": "postgresql"}
_SERVERS = (
    "SELECT s.srvname, w.fdwname, s.srvtype, s.srvversion, s.srvoptions::text FROM pg_catalog.pg_foreign_server s"
    " JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw ORDER BY 1"
)
_MAPPINGS = (
    "SELECT u.srvname, CASE u.umuser WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(u.usename) END,"
    " u.umoptions::text, (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)"
    " FROM pg_catalog.pg_user_mappings u ORDER BY 1, 2"
)


class Foreign(NamedTuple):
    """A server or a user mapping. Without a statement it is of a wrapper that is not here, `left` says so; else `left`
    says what the statement leaves out."""

    what: str
    statement: str
    left: tuple[str, ...]


def servers(link: Link) -> Iterator[Foreign]:
    for name, wrapper, kind, version, stored in link.rows(_SERVERS):
        what = f"server {quote_identifier(name or '')}"
        here = _wrapper(link, wrapper or "")
        if here is None:
            yield Foreign(what, "", (f"{what} is not imported: its foreign-data wrapper is {wrapper}",))
            continue
        options, left = _options(stored, SERVER_OPTIONS if here == "postgresql" else None)
        words = f"CREATE SERVER {quote_identifier(name or '')}"
        words += "".join(
            f" {word} {quote_literal(text)}" for word, text in (("TYPE", kind), ("VERSION", version)) if text
        )
        notes = tuple([f"option {option} of {what} is not here" for option in left])
        yield Foreign(what, f"{words} FOREIGN DATA WRAPPER {here}{options};", notes)


def mappings(link: Link) -> Iterator[Foreign]:
    """The user mappings of those servers; of options what the role may see, passwords among them."""
    known = {name: _wrapper(link, wrapper or "") for name, wrapper, *_ in link.rows(_SERVERS)}
    for server, user, stored, sees_all in link.rows(_MAPPINGS):
        here = known.get(server)
        if here is None:
            continue
        words = f"FOR {user} SERVER {quote_identifier(server or '')}"
        options, left = _options(stored, USER_OPTIONS if here == "postgresql" else None)
        notes = [f"option {option} of user mapping {words} is not here" for option in left]
        if stored is None and sees_all != "t":
            notes.append(f"user mapping {words} may have options that cannot be read")
        yield Foreign(f"user mapping {words}", f"CREATE USER MAPPING {words}{options};", tuple(notes))


def _wrapper(link: Link, name: str) -> str | None:
    return name if link.is_lake else _WRAPPERS.get(name)


def _options(stored: str | None, known: Collection[str] | None) -> tuple[str, list[str]]:
    """The clause of the options that are known here, and the names of others."""
    items = [] if stored is None else [str(item).partition("=") for item in read_text(stored, TEXT_ARRAY).items]
    taken = [(name, value) for name, _, value in items if known is None or name in known]
    listed = ", ".join(f"{quote_identifier(name)} {quote_literal(value)}" for name, value in taken)
    left = [name for name, _, _ in items if known is not None and name not in known]
    return f" OPTIONS ({listed})" if listed else "", left
