"""The definitions of a server's database, as statements in the server's own words (`pgrepl diff`): schemas, sequences,
types, tables, constraints, indexes, routines, views, triggers, publications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.publisher.postgres.programs import of_users, programs
from pgrepl.replication.publisher.postgres.types import ServerTypes
from pgrepl.sql.quote import quote_literal

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
    CASE WHEN a.attgenerated = 's' THEN ' GENERATED ALWAYS AS (' || pg_catalog.pg_get_expr(d.adbin, d.adrelid)
            || ') STORED'
        WHEN i.name IS NOT NULL THEN pg_catalog.format(' GENERATED %s AS IDENTITY (SEQUENCE NAME %s START WITH %s'
            ' INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s %s)', CASE a.attidentity WHEN 'a' THEN 'ALWAYS'
            ELSE 'BY DEFAULT' END, i.name, i.seqstart, i.seqincrement, i.seqmin, i.seqmax, i.seqcache,
            CASE WHEN i.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)
        WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) ELSE '' END,
    CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END), ', ' ORDER BY a.attnum)"""
_TABLES = f"""SELECT {_NAME}, pg_catalog.format('CREATE %sTABLE %I.%I (%s)%s%s%s',
    CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, n.nspname, c.relname,
    (SELECT {_COLUMN} FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        LEFT JOIN LATERAL (SELECT pg_catalog.format('%I.%I', qn.nspname, q.relname) AS name, s.*
            FROM pg_catalog.pg_depend p JOIN pg_catalog.pg_class q ON q.oid = p.objid AND q.relkind = 'S'
            JOIN pg_catalog.pg_namespace qn ON qn.oid = q.relnamespace
            JOIN pg_catalog.pg_sequence s ON s.seqrelid = q.oid
            WHERE p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND p.deptype = 'i'
            AND p.classid = 'pg_catalog.pg_class'::regclass) i ON a.attidentity <> ''
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (a.attislocal OR c.relispartition)),
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
    a.attname, s.change)
    FROM {_RELATIONS} JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    CROSS JOIN LATERAL (SELECT NOT a.attislocal AND NOT c.relispartition AS inherits) i
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN i.inherits AND a.attgenerated = ''
            THEN coalesce('SET DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid), 'DROP DEFAULT') END),
        (CASE WHEN i.inherits AND a.attnotnull THEN 'SET NOT NULL' END),
        (CASE WHEN a.attstattarget >= 0 THEN pg_catalog.format('SET STATISTICS %s', a.attstattarget) END),
        (CASE WHEN a.attstorage <> t.typstorage THEN 'SET STORAGE ' || CASE a.attstorage WHEN 'p' THEN 'PLAIN'
            WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END),
        (CASE a.attcompression WHEN 'p' THEN 'SET COMPRESSION pglz' WHEN 'l' THEN 'SET COMPRESSION lz4' END))
        s(change)
    WHERE c.relkind IN ('r', 'p') AND s.change IS NOT NULL AND {_OWN} ORDER BY c.oid, a.attnum"""
_PARTITIONS = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER TABLE ONLY %I.%I ATTACH PARTITION %I.%I %s', pn.nspname, p.relname,"
    " n.nspname, c.relname, pg_catalog.pg_get_expr(c.relpartbound, c.oid))"
    f" FROM {_RELATIONS} JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid"
    " JOIN pg_catalog.pg_class p ON p.oid = h.inhparent JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace"
    f" WHERE c.relkind IN ('r', 'p') AND c.relispartition AND {_OWN} ORDER BY c.oid"
)
_CONSTRAINTS = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER TABLE %s%I.%I ADD CONSTRAINT %I %s', CASE WHEN c.relkind = 'p' OR"
    " k.contype = 'c' THEN '' ELSE 'ONLY ' END, n.nspname, c.relname, k.conname,"
    " pg_catalog.pg_get_constraintdef(k.oid))"
    f" FROM {_RELATIONS} JOIN pg_catalog.pg_constraint k ON k.conrelid = c.oid"
    f" WHERE k.contype IN ('c', 'p', 'u', 'f', 'x') AND k.conparentid = 0 AND k.conislocal AND {_OWN}"
    " ORDER BY k.contype = 'f', k.oid"
)
_INDEXES = (
    f"SELECT {_NAME}, pg_catalog.replace(pg_catalog.pg_get_indexdef(c.oid), ' ON ONLY ', ' ON ')"
    f" FROM {_RELATIONS} WHERE c.relkind IN ('i', 'I') AND NOT c.relispartition AND {_OWN}"
    " AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u', 'x'))"
    " AND NOT EXISTS (SELECT FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class m ON m.oid = x.indrelid"
    " WHERE x.indexrelid = c.oid AND m.relkind = 'm')"
    " ORDER BY c.oid"
)
_IDENTITIES = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER TABLE ONLY %I.%I REPLICA IDENTITY %s', n.nspname, c.relname,"
    " CASE c.relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING'"
    " ELSE pg_catalog.format('USING INDEX %I', x.relname)"
    f" END) FROM {_RELATIONS} LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisreplident"
    " LEFT JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid"
    f" WHERE c.relkind IN ('r', 'p') AND c.relreplident <> 'd' AND {_OWN} ORDER BY c.oid"
)
_OWNED = (
    f"SELECT {_NAME}, pg_catalog.format('ALTER SEQUENCE %I.%I OWNED BY %I.%I.%I', n.nspname, c.relname, tn.nspname,"
    f" t.relname, a.attname) FROM {_RELATIONS} JOIN pg_catalog.pg_depend d ON d.objid = c.oid AND d.deptype = 'a'"
    " AND d.classid = 'pg_catalog.pg_class'::regclass JOIN pg_catalog.pg_class t ON t.oid = d.refobjid"
    " JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid"
    f" AND a.attnum = d.refobjsubid WHERE c.relkind = 'S' AND {_OWN} ORDER BY c.oid"
)
_PUBLICATIONS = (
    "SELECT pg_catalog.format('%I', p.pubname), pg_catalog.format('CREATE PUBLICATION %I%s WITH (publish = %L,"
    " publish_via_partition_root = %s)', p.pubname, CASE WHEN p.puballtables THEN ' FOR ALL TABLES' ELSE '' END,"
    " pg_catalog.concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END,"
    " CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN p.pubtruncate THEN 'truncate' END),"
    " CASE WHEN p.pubviaroot THEN 'true' ELSE 'false' END)"
    " FROM pg_catalog.pg_publication p ORDER BY p.oid"
)
_MEMBERS = (
    "SELECT pg_catalog.format('%I', p.pubname), pg_catalog.format('ALTER PUBLICATION %I ADD TABLE ONLY %I.%I%s%s',"
    " p.pubname, n.nspname, c.relname, {columns}, {filter}) FROM pg_catalog.pg_publication_rel r"
    " JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid JOIN pg_catalog.pg_class c ON c.oid = r.prrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY r.oid"
)
_LISTED = (
    "coalesce((SELECT ' (' || pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY k.place) || ')'"
    " FROM unnest(r.prattrs::int2[]) WITH ORDINALITY k(num, place) JOIN pg_catalog.pg_attribute a"
    " ON a.attrelid = r.prrelid AND a.attnum = k.num), '')"
)
_FILTERED = "coalesce(' WHERE (' || pg_catalog.pg_get_expr(r.prqual, r.prrelid) || ')', '')"
_MEMBER_SCHEMAS = (
    "SELECT pg_catalog.format('%I', p.pubname), pg_catalog.format('ALTER PUBLICATION %I ADD TABLES IN SCHEMA %I',"
    " p.pubname, n.nspname) FROM pg_catalog.pg_publication_namespace r JOIN pg_catalog.pg_publication p"
    " ON p.oid = r.pnpubid JOIN pg_catalog.pg_namespace n ON n.oid = r.pnnspid ORDER BY r.oid"
)


def definition_statements(link: Link) -> Iterator[tuple[str, str]]:
    """Each statement with the name of what it is about. One may need another that comes later, as a default that calls
    a function does."""
    newer = int(link.value("SHOW server_version_num")) >= 150000  # with column lists, filters and schemas
    members = _MEMBERS.format(
        columns=_LISTED if newer else quote_literal(""), filter=_FILTERED if newer else quote_literal("")
    )
    yield from _statements(link, [_SCHEMAS])
    types = ServerTypes(link)
    yield "functions", "SET check_function_bodies = false;"
    for each in types.all():
        yield from ((each.qualified_name, text) for text in each.made)
    yield from types.left_out()
    yield from _statements(
        link, [_SEQUENCES, _TABLES, _SETTINGS, _PARTITIONS, _CONSTRAINTS, _INDEXES, _IDENTITIES, _OWNED]
    )
    for program in programs(link):
        if program.refused is None:
            yield from ((program.name, text) for text in program.made)
    yield from _statements(link, [_PUBLICATIONS, members, *([_MEMBER_SCHEMAS] if newer else [])])


def _statements(link: Link, queries: Iterable[str]) -> Iterator[tuple[str, str]]:
    for query in queries:
        for name, statement in link.rows(query):
            yield name or "", (statement or "").rstrip().rstrip(";") + ";"
