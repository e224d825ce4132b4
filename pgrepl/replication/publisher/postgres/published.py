"""What a server's publications publish, by the queries of PostgreSQL's own subscriber, and one table's rows in a slot's
snapshot.

14 has neither column lists nor row filters; 15 answers for each publication by itself; since 16 one call unites
several. The slot is made first in the walsender's transaction, which then sees exactly the changes that the slot will
not send.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.protocol import RemoteSequence, RemoteTable
from pgrepl.replication.wire.messages import Row, SentColumn, SentRelation
from pgrepl.sql.keywords import quote_qualified
from pgrepl.types.oids import TEXT
from pgrepl.types.plain import parse_lsn

COLUMN_LISTS = 150000
UNITED = 160000
GENERATED = 180000

_FOR_ALL = "CASE WHEN p.puballtables THEN ' FOR ALL TABLES' ELSE '' END"
# of 19, with the tables that are left out, and sequences
_FOR_ALL_19 = (
    "CASE WHEN p.puballtables OR p.puballsequences THEN ' FOR ' || pg_catalog.concat_ws(', ', CASE WHEN p.puballtables"
    " THEN 'ALL TABLES' || coalesce((SELECT pg_catalog.format(' EXCEPT (%s)', pg_catalog.string_agg("
    "pg_catalog.format('TABLE ONLY %I.%I', n.nspname, c.relname), ', ' ORDER BY r.oid))"
    " FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_class c ON c.oid = r.prrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE r.prpubid = p.oid HAVING count(*) > 0), '')"
    " END, CASE WHEN p.puballsequences THEN 'ALL SEQUENCES' END) ELSE '' END"
)


def for_all(link: Link) -> str:
    """An expression in SQL over pg_publication p: ` FOR ALL …`, or nothing."""
    return _FOR_ALL_19 if link.has_sequences else _FOR_ALL


@frozen
class PublishedColumn:
    name: str
    type: int
    type_name: str  # as format_type writes it
    typmod: int


@frozen
class PublishedRows:
    """The columns and rows of a table for an initial copy."""

    relid: int
    kind: str
    replident: str
    columns: tuple[PublishedColumn, ...]
    condition: str | None  # SQL; None: all rows


def existing_publications(link: Link, names: Sequence[str]) -> set[str]:
    listed = link.rows(f"SELECT pubname FROM pg_catalog.pg_publication WHERE pubname IN ({link.texts(names)})")
    return {row[0] or "" for row in listed}


def published_tables(link: Link, names: Sequence[str]) -> list[RemoteTable]:
    """The tables, one once for each different column list."""
    listed = f"pubname IN ({link.texts(names)})"
    if link.version >= UNITED:
        query = (
            "SELECT DISTINCT n.nspname, c.relname, t.attrs::text FROM (SELECT (pg_catalog.pg_get_publication_tables("
            f"VARIADIC array_agg(pubname::text))).* FROM pg_catalog.pg_publication WHERE {listed}) t "
            "JOIN pg_catalog.pg_class c ON c.oid = t.relid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2"
        )
    else:
        numbers = (
            "(SELECT string_agg(a.attnum::text, ' ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a WHERE "
            "a.attrelid = format('%I.%I', t.schemaname, t.tablename)::regclass AND a.attname = ANY (t.attnames))"
        )
        attrs = numbers if link.version >= COLUMN_LISTS else "NULL"
        query = (
            f"SELECT DISTINCT t.schemaname, t.tablename, {attrs} FROM pg_catalog.pg_publication_tables t "
            f"WHERE t.{listed} ORDER BY 1, 2"
        )
    return [
        RemoteTable(schema or "", name or "", tuple([int(number) for number in (attrs or "").split()]))
        for schema, name, attrs in link.rows(query)
    ]


def published_sequences(link: Link, names: Sequence[str]) -> list[tuple[str, str]]:
    if not link.has_sequences:
        return []
    listed = link.rows(
        "SELECT DISTINCT s.schemaname, s.sequencename FROM pg_catalog.pg_publication_sequences s "
        f"WHERE s.pubname IN ({link.texts(names)}) ORDER BY 1, 2"
    )
    return [(schema or "", name or "") for schema, name in listed]


def sequences_with_other_origins(link: Link, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
    if not link.has_sequences:
        return []
    listed = link.rows(
        "SELECT DISTINCT p.pubname FROM pg_catalog.pg_publication p, "
        "LATERAL pg_catalog.pg_get_publication_sequences(p.pubname::text) s(relid) "
        "JOIN pg_catalog.pg_subscription_rel r ON r.srrelid = s.relid JOIN pg_catalog.pg_class c ON c.oid = s.relid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE p.pubname IN ({link.texts(names)}){besides(link, known)} ORDER BY 1"
    )
    return [row[0] or "" for row in listed]


def besides(link: Link, known: Collection[tuple[str, str]]) -> str:
    """The condition that a relation is none of these."""
    return "".join(
        f" AND NOT (n.nspname = {link.literal(schema)} AND c.relname = {link.literal(name)})"
        for schema, name in sorted(known)
    )


_NOW = (
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() "
    "ELSE pg_catalog.pg_current_wal_lsn() END"
)
_AT_ONCE = 100  # sequences in a query, as PostgreSQL asks for them


def sequences(link: Link, names: Sequence[tuple[str, str]]) -> list[RemoteSequence]:
    """These sequences as far as they are there. Since 19 a value comes with its position."""
    remote: list[RemoteSequence] = []
    for place in range(0, len(names), _AT_ONCE):
        remote += _sequences(link, names[place : place + _AT_ONCE])
    return remote


def _sequences(link: Link, names: Sequence[tuple[str, str]]) -> list[RemoteSequence]:
    wanted = ", ".join(f"({link.literal(schema)}, {link.literal(name)})" for schema, name in names)
    newest = link.has_sequences
    listed = link.rows(
        "SELECT n.nspname, c.relname, has_sequence_privilege(c.oid, 'SELECT'), q.seqtypid, q.seqstart, q.seqincrement, "
        "q.seqmin, q.seqmax, q.seqcycle, "
        + ("d.last_value, d.is_called, d.page_lsn" if newest else f"NULL, NULL, {_NOW}")
        + " FROM pg_catalog.pg_sequence q JOIN pg_catalog.pg_class c ON c.oid = q.seqrelid "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        + (" CROSS JOIN LATERAL pg_catalog.pg_get_sequence_data(q.seqrelid) d" if newest else "")
        + f" WHERE c.relpersistence = 'p' AND (n.nspname, c.relname) IN ({wanted})"
    )
    values: dict[tuple[str, str], tuple[str | None, str | None]] = {}
    if newest:
        values = {(row[0] or "", row[1] or ""): (row[9], row[10]) for row in listed}
    else:
        readable = [(row[0] or "", row[1] or "") for row in listed if row[2] == "t"]
        values = dict(zip(readable, _values(link, readable), strict=True))
    return [_sequence(row, values.get((row[0] or "", row[1] or ""), (None, None))) for row in listed]


def _values(link: Link, names: Sequence[tuple[str, str]]) -> list[tuple[str | None, str | None]]:
    """The values by the sequences' own rows, which 14 to 18 show to who may read them."""
    if not names:
        return []
    selects = [
        f"SELECT {place}, last_value, is_called FROM {quote_qualified(schema, name)}"
        for place, (schema, name) in enumerate(names)
    ]
    return [(value, called) for _, value, called in link.rows(" UNION ALL ".join(selects) + " ORDER BY 1")]


def _sequence(row: tuple[str | None, ...], value: tuple[str | None, str | None]) -> RemoteSequence:
    schema, name, _, *definition, cycle = row[:9]
    typid, start, increment, minimum, maximum = (int(number or 0) for number in definition)
    return RemoteSequence(
        schema or "",
        name or "",
        None if value[0] is None else (int(value[0]), value[1] == "t"),
        parse_lsn(row[11] or "0/0"),
        (typid, start, increment, minimum, maximum, cycle == "t"),
    )


def published_rows(link: Link, schema: str, name: str, publications: Sequence[str]) -> PublishedRows:
    """The columns that all publications send, and their filters ORed (fetch_remote_table_info)."""
    relations = link.rows(
        "SELECT c.oid, c.relkind, c.relreplident FROM pg_catalog.pg_class c "
        f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE n.nspname = {link.literal(schema)} AND c.relname = {link.literal(name)}"
    )
    if not relations:
        raise PgError("42P01", f'table "{schema}.{name}" not found on publisher')
    relid, kind, replident = (value or "" for value in relations[0])
    attrs, condition = _members(link, relid, schema, name, publications)
    return PublishedRows(int(relid), kind, replident, _columns(link, relid, attrs), condition)


def _members(
    link: Link, relid: str, schema: str, name: str, publications: Sequence[str]
) -> tuple[str | None, str | None]:
    """The column list as the publications have it, and the united filter."""
    if link.version < COLUMN_LISTS:
        return None, None
    members = link.rows(
        "SELECT DISTINCT CASE WHEN t.attrs IS NOT NULL AND array_length(t.attrs, 1) = (SELECT count(*) FROM "
        "pg_catalog.pg_attribute a WHERE a.attrelid = t.relid AND a.attnum > 0 AND NOT a.attisdropped "
        "AND a.attgenerated = '') AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.relid "
        "AND a.attnum = ANY (t.attrs) AND a.attgenerated <> '') THEN NULL ELSE t.attrs::text END, "
        "pg_catalog.pg_get_expr(t.qual, t.relid) "
        "FROM pg_catalog.pg_publication p, LATERAL pg_catalog.pg_get_publication_tables(p.pubname::text) t "
        f"WHERE t.relid = {relid} AND p.pubname IN ({link.texts(publications)}) ORDER BY 2"
    )
    if len({attrs for attrs, _ in members}) > 1:
        raise PgError(
            "0A000", f'cannot use different column lists for table "{schema}.{name}" in different publications'
        )
    filters = [condition for _, condition in members]
    united = None if not filters or None in filters else " OR ".join(f"({condition})" for condition in filters)
    return (members[0][0] if members else None), united


def _columns(link: Link, relid: str, attrs: str | None) -> tuple[PublishedColumn, ...]:
    chosen = ""
    if attrs is not None:
        numbers = ", ".join(attrs.split())
        chosen = f" AND attnum IN ({numbers})" if numbers else " AND false"
    if attrs is None or link.version < GENERATED:
        chosen += " AND attgenerated = ''"
    listed = link.rows(
        "SELECT attname, atttypid, pg_catalog.format_type(atttypid, atttypmod), atttypmod "
        f"FROM pg_catalog.pg_attribute WHERE attrelid = {relid} AND attnum > 0 AND NOT attisdropped{chosen} "
        "ORDER BY attnum"
    )
    return tuple([PublishedColumn(a or "", int(b or 0), c or "", int(d or -1)) for a, b, c, d in listed])


def size(link: Link, rows: PublishedRows) -> int:
    """Bytes of the table, or of all leaves of a partitioned one."""
    if rows.kind == "p":
        query = f"sum(pg_catalog.pg_relation_size(relid)) FROM pg_catalog.pg_partition_tree({rows.relid}) WHERE isleaf"
    else:
        query = f"pg_catalog.pg_relation_size({rows.relid})"
    return int(link.row(f"SELECT {query}")[0] or 0)


def key_names(link: Link, rows: PublishedRows) -> tuple[str, ...]:
    """The columns of the replica identity's index, or of the primary key; none: there is no such index."""
    chosen = "indisreplident" if rows.replident == "i" else "indisprimary"
    listed = link.rows(
        "SELECT a.attname FROM pg_catalog.pg_index i CROSS JOIN LATERAL "
        "pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY k(attnum, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {rows.relid} AND i.{chosen} AND i.indisvalid AND i.indimmediate "
        "AND k.place <= i.indnkeyatts ORDER BY k.place"
    )
    return tuple([name or "" for (name,) in listed])


def unique_keys(link: Link, relid: int) -> list[tuple[frozenset[str], bool]]:
    """The sets of columns that are unique at any moment, each with whether its NULLs are not distinct."""
    nulls = "indnullsnotdistinct" if link.version >= COLUMN_LISTS else "false"
    listed = link.rows(
        f"SELECT i.indexrelid, {nulls}, a.attname FROM pg_catalog.pg_index i "
        "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
        f"WHERE i.indrelid = {relid} AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL "
        "AND i.indexprs IS NULL AND k.place <= i.indnkeyatts"
    )
    uniques: dict[str, tuple[set[str], bool]] = {}
    for index, distinct, name in listed:
        uniques.setdefault(index or "", (set(), distinct == "t"))[0].add(name or "")
    return [(frozenset(names), nulls_too) for names, nulls_too in uniques.values()]


# --- tables -----------------------------------------------------------------------------------------------------------


_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANING = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def copied_relation(rows: PublishedRows, schema: str, name: str) -> SentRelation:
    """The relation with all values as text, which the column here reads."""
    columns = tuple([SentColumn(column.name, TEXT, -1, False, column.type, column.typmod) for column in rows.columns])
    return SentRelation(rows.relid, schema, name, rows.replident, columns)


def selection(link: Link, rows: PublishedRows, schema: str, name: str, expressions: Sequence[str] | None = None) -> str:
    """The query of the copy: of a partitioned table the rows of all partitions, of any other one only its own
    (ONLY)."""
    only = "" if rows.kind == "p" else "ONLY "
    names = [link.identifier(column.name) for column in rows.columns]
    columns = ", ".join(names if expressions is None else expressions)
    where = "" if rows.condition is None else f" WHERE ({rows.condition})"
    return f"SELECT {columns} FROM {only}{link.identifier(schema)}.{link.identifier(name)}{where}"


def copied_rows(link: Link, query: str, width: int) -> Iterator[Row]:
    """The rows that COPY … TO STDOUT sends in its text format."""
    return _rows(link.copy_out(f"COPY ({query}) TO STDOUT"), width)


def _rows(portions: Iterable[Sequence[memoryview]], width: int) -> Iterator[Row]:
    for portion in portions:
        for data in portion:
            line = bytes(data)[:-1]
            yield tuple([_value(field) for field in line.split(b"\t")]) if width else ()


def _value(field: bytes) -> str | None:
    if b"\\" not in field:
        return field.decode()
    if field == b"\\N":
        return None
    return _ESCAPED.sub(lambda match: _MEANING.get(match[1], match[1]), field).decode()
