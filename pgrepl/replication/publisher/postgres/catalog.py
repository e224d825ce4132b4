"""The publications of a server, and their tables, as they are now."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteDefinition
from pgrepl.replication.publisher.postgres import published
from pgrepl.replication.publisher.postgres import schema as server_schema
from pgrepl.replication.publisher.postgres.connection import ServerConnection
from pgrepl.replication.publisher.protocol import Published, PublisherCatalog, RemoteTable


class ServerCatalog(PublisherCatalog):
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        return published.existing_publications(self._connection.link, names)

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        return published.published_tables(self._connection.link, names)

    def published_as(self, schema: str, name: str, publications: Sequence[str]) -> Published | None:
        link = self._connection.link
        condition = "t.rowfilter" if link.version >= published.COLUMN_LISTS else "NULL"
        listed = link.rows(
            f"SELECT p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, {condition} "
            "FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_publication p ON p.pubname = t.pubname "
            f"WHERE t.schemaname = {link.literal(schema)} AND t.tablename = {link.literal(name)} "
            f"AND p.pubname IN ({link.texts(publications)}) ORDER BY p.pubname"
        )
        if not listed:
            return None
        operations, filters = [], []
        for place, operation in enumerate(("insert", "update", "delete", "truncate")):
            publishing = [row[4] for row in listed if row[place] == "t"]
            if publishing:
                operations.append(operation)
                if operation != "truncate" and None not in publishing:
                    filters.append((operation, " OR ".join(dict.fromkeys(str(text) for text in publishing))))
        rows = published.published_rows(link, schema, name, publications)
        return Published(tuple([column.name for column in rows.columns]), tuple(operations), tuple(filters))

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        return server_schema.attributes(self._connection.link, relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> str | None:
        return server_schema.older_value(self._connection.link, relid, attnum)

    def definitions(self, schema: str, name: str, publications: Sequence[str]) -> list[RemoteDefinition]:
        return server_schema.definitions(self._connection.link, schema, name, publications)

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        link = self._connection.link
        tables = (
            "pg_catalog.pg_get_publication_tables(p.pubname::text) t"
            if link.version >= published.COLUMN_LISTS
            else "pg_catalog.pg_get_publication_tables(p.pubname::text) t(relid)"
        )
        left_out = "".join(
            f" AND NOT (n.nspname = {link.literal(schema)} AND c.relname = {link.literal(name)})"
            for schema, name in sorted(known)
        )
        listed = link.rows(
            f"SELECT DISTINCT p.pubname FROM pg_catalog.pg_publication p, LATERAL {tables} "
            "JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE p.pubname IN ({link.texts(names)}){left_out} AND EXISTS (SELECT 1 FROM "
            "pg_catalog.pg_subscription_rel r WHERE r.srrelid = t.relid "
            "OR t.relid IN (SELECT relid FROM pg_catalog.pg_partition_ancestors(r.srrelid)) "
            "OR t.relid IN (SELECT relid FROM pg_catalog.pg_partition_tree(r.srrelid))) ORDER BY 1"
        )
        return [row[0] or "" for row in listed]
