"""The writers of lines, by the names of their formats."""

from __future__ import annotations

from pgrepl.replication.formats.written import LineWriter, SourceFacts


def line_writer(name: str, context: SourceFacts) -> LineWriter:
    if name == "debezium":
        from pgrepl.replication.formats.debezium_written import DebeziumWriter

        return DebeziumWriter(context)
    if name == "wal2json":
        from pgrepl.replication.formats.wal2json_written import Wal2jsonWriter

        return Wal2jsonWriter(context)
    from pgrepl.replication.formats.jsonl_written import JsonLinesWriter

    return JsonLinesWriter(context)
