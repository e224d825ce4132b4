"""The event triggers that let a server tell its definitions in the stream (`pgrepl import-schema --ddl-trigger`), and
one table's definition as they tell it.

They write a logical message in the transaction of the statement, so that it stands at its place in the order of
changes. The queries hold for all servers from 14 on, also after an upgrade: what only some of them have is looked for
in rows that are turned into jsonb.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pgrepl.replication.publisher.definitions import PREFIX, PresentTables, ToldEnum, ToldTable, table
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.types.plain import parse_lsn

SINCE = 140000  # pgoutput sends logical messages

_INDEX = """SELECT x.relname AS name, json_agg(a.attname ORDER BY k.place) AS columns
            FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
            CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(num, place)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num
            WHERE i.indrelid = c.oid AND i.{which} AND k.place <= i.indnkeyatts GROUP BY x.relname"""
_TABLE = f"""json_build_object(
        'oid', c.oid::bigint, 'schema', n.nspname, 'name', c.relname, 'replident', c.relreplident,
        'key', coalesce(p.columns, '[]'), 'key_name', p.name,
        'identity', coalesce(i.columns, '[]'), 'identity_name', i.name,
        'columns', (SELECT json_agg(json_build_object(
            'num', a.attnum, 'name', a.attname, 'type', a.atttypid::bigint, 'typmod', a.atttypmod,
            'type_name', format_type(a.atttypid, a.atttypmod),
            'notnull', a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid
                AND k.contype = 'n' AND k.conkey[1] = a.attnum AND NOT k.convalidated), 'not_null', (SELECT k.conname
                FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'n' AND k.conkey[1] = a.attnum),
            'generated', a.attgenerated,
            'default', pg_get_expr(d.adbin, d.adrelid), 'missing', (a.attmissingval::text::text[])[1])
            ORDER BY a.attnum)
            FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
        'published', (SELECT json_object_agg(t.pubname, (SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]')
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)
            AND coalesce(to_jsonb(t) -> 'attnames' ? a.attname, true)))
            FROM pg_publication_tables t WHERE t.schemaname = n.nspname AND t.tablename = c.relname))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN LATERAL ({_INDEX.format(which="indisprimary")}) p ON true
    LEFT JOIN LATERAL ({_INDEX.format(which="indisreplident")}) i ON true"""
_PRESENT = _TABLE.replace("FROM pg_publication_tables t", "FROM published t")
_ROWS = "(SELECT pg_catalog.string_agg(r.xmin::text, ',' ORDER BY r.ctid) FROM pg_catalog.{} WHERE r.{} = c.oid)"
_UNTOLD = (
    "NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger WHERE evtname = 'pgrepl_ddl_changed' AND evtenabled <> 'D')"
)


def told_table(link: Link, relid: int) -> ToldTable | None:
    """A table as the event triggers would tell it now; None: there is no such table."""
    told = link.rows(f"SELECT {_TABLE} WHERE c.oid = {relid}")
    return table(json.loads(told[0][0] or "")) if told else None


def table_versions(link: Link, oids: Sequence[int]) -> dict[int, str] | None:
    """What changes with the definitions of these tables, of those that are there; None: the event triggers tell of
    them in the order of changes."""
    versions = link.rows(
        f"SELECT c.oid, pg_catalog.concat_ws(' ', c.xmin, c.relreplident, {_ROWS.format('pg_attribute r', 'attrelid')},"
        f" {_ROWS.format('pg_attrdef r', 'adrelid')}, {_ROWS.format('pg_index r', 'indrelid')})"
        f" FROM (SELECT 0 WHERE {_UNTOLD}) told"
        f" LEFT JOIN pg_catalog.pg_class c ON c.oid IN ({', '.join(map(str, oids))})"
    )
    return {int(oid): version or "" for oid, version in versions if oid is not None} if versions else None


def present_tables(link: Link, known: Sequence[tuple[int, str, str]], names: Sequence[str]) -> PresentTables:
    """These tables as they are now, with what these publications publish. What is visible was written before the
    position, which may be ahead of what is on the server's disk."""
    listed = ", ".join([f"({oid}::oid, {link.literal(schema)}, {link.literal(name)})" for oid, schema, name in known])
    present = link.rows(
        f"WITH known(oid, schema, name) AS (VALUES {listed}), published AS MATERIALIZED"
        f" (SELECT * FROM pg_publication_tables WHERE pubname IN ({link.texts(names)}))"
        " SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END,"
        f" (SELECT json_agg(f.told) FROM (SELECT {_PRESENT} WHERE c.oid IN (SELECT k.oid FROM known k)) f(told)),"
        " (SELECT json_agg(k.oid::bigint) FROM known k WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE c.oid = k.oid OR (n.nspname, c.relname) = (k.schema, k.name)))"
    )
    lsn, tables, dropped = present[0]
    told = [table(content) for content in json.loads(tables or "[]")]
    return PresentTables(parse_lsn(lsn or "0/0"), tuple(told), tuple(json.loads(dropped or "[]")))


def told_enums(link: Link, names: Sequence[tuple[str, str]]) -> list[ToldEnum]:
    """These enums as they are now; none if the event triggers tell of them in the order of changes."""
    listed = ", ".join([f"({link.literal(schema)}, {link.literal(name)})" for schema, name in names])
    enums = link.rows(
        "SELECT n.nspname, t.typname, (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e"
        " WHERE e.enumtypid = t.oid) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
        f" WHERE t.typtype = 'e' AND (n.nspname, t.typname) IN ({listed}) AND {_UNTOLD}"
    )
    return [ToldEnum(schema or "", name or "", json.loads(labels or "[]")) for schema, name, labels in enums]


SCRIPT = f"""\
-- Event triggers that tell pgrepl's subscriptions with schema_changes = all of each change to the definition of a
-- published table, in its transaction and in the order of changes, by a logical message. Run it as a superuser in the
-- publishing database; it may be run again. Who alters tables later needs no more privileges than before.
-- To remove all of it: DROP SCHEMA pgrepl_ddl CASCADE;
BEGIN;
CREATE SCHEMA IF NOT EXISTS pgrepl_ddl;
COMMENT ON SCHEMA pgrepl_ddl IS 'tells pgrepl of changed definitions (pgrepl import-schema --ddl-trigger)';
CREATE OR REPLACE FUNCTION pgrepl_ddl.tell() RETURNS event_trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $tell$
DECLARE
    changed oid[] := '{{}}';
    tables json;
    enums json;
    dropped json;
BEGIN
    IF coalesce(current_setting('effective_wal_level', true), current_setting('wal_level')) <> 'logical' THEN
        RETURN;
    END IF;
    IF tg_event = 'sql_drop' THEN
        SELECT json_agg(o.objid::bigint) FILTER (WHERE o.object_type = 'table'),
            coalesce(array_agg(o.objid) FILTER (WHERE o.object_type = 'table column' AND tg_tag <> 'ALTER TABLE'),
                '{{}}')
            INTO dropped, changed FROM pg_event_trigger_dropped_objects() o WHERE NOT o.is_temporary;
    ELSE
        SELECT coalesce(array_agg(coalesce(c.oid, o.objid)), '{{}}') INTO changed
            FROM pg_event_trigger_ddl_commands() o
            LEFT JOIN pg_class c ON o.classid = 'pg_namespace'::regclass AND c.relnamespace = o.objid
            WHERE o.classid = 'pg_class'::regclass OR c.oid IS NOT NULL;
        SELECT json_agg(json_build_object('schema', n.nspname, 'name', t.typname, 'labels',
                (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid)))
            INTO enums FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
            WHERE t.typtype = 'e' AND t.oid IN (SELECT o.objid FROM pg_event_trigger_ddl_commands() o
                WHERE o.classid = 'pg_type'::regclass);
    END IF;
    IF changed <> '{{}}' THEN
        WITH RECURSIVE touched(oid) AS (
            SELECT unnest(changed) UNION SELECT h.inhrelid FROM pg_inherits h JOIN touched t ON h.inhparent = t.oid)
        SELECT json_agg(f.told) INTO tables FROM (SELECT {_TABLE}
            WHERE c.oid IN (SELECT t.oid FROM touched t) AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
            AND EXISTS (SELECT FROM pg_publication_tables t WHERE t.schemaname = n.nspname AND t.tablename = c.relname)
            ORDER BY c.oid) f(told);
    END IF;
    IF tables IS NOT NULL OR enums IS NOT NULL OR dropped IS NOT NULL THEN
        PERFORM pg_logical_emit_message(true, '{PREFIX}', convert_to(
            json_build_object('tables', tables, 'enums', enums, 'dropped', dropped)::text, 'UTF8'));
    END IF;
END $tell$;
DROP EVENT TRIGGER IF EXISTS pgrepl_ddl_changed;
DROP EVENT TRIGGER IF EXISTS pgrepl_ddl_dropped;
CREATE EVENT TRIGGER pgrepl_ddl_changed ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'ALTER TYPE', 'ALTER SCHEMA')
    EXECUTE FUNCTION pgrepl_ddl.tell();
CREATE EVENT TRIGGER pgrepl_ddl_dropped ON sql_drop EXECUTE FUNCTION pgrepl_ddl.tell();
COMMIT;
"""
