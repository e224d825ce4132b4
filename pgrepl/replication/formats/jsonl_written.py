"""The writer of pgrepl's own JSON lines. Values are PostgreSQL's text; a transaction stands between `begin` and
`commit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT
from pgrepl.replication.formats.written import SourceFacts, check_phase, json_line, old_places, parsed, texts
from pgrepl.replication.wire.messages import TRUNCATE, TruncateMessage, WireTransaction
from pgrepl.types import oids
from pgrepl.types.lsn import lsn_text, parse_lsn
from pgrepl.types.text import write_text


class JsonLinesWriter:
    def __init__(self, context: SourceFacts) -> None:
        self._style = context.style

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        check_phase(transaction)
        xid, lsn = str(transaction.xid), lsn_text(transaction.finish_lsn)
        about = {"xid": xid, "lsn": lsn, "at": write_text(transaction.committed_at, oids.TIMESTAMPTZ, self._style)}
        yield json_line({"op": BEGIN, **about})
        for message in transaction.messages:
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    names = {"schema": relation.schema, "table": relation.name}
                    yield json_line({"op": TRUNCATE, **names, "xid": xid, "lsn": lsn})
                continue
            relation = message.relation
            line: dict[str, Any] = {"op": message.operation, "schema": relation.schema, "table": relation.name}
            line |= {"xid": xid, "lsn": lsn}
            if message.old is not None:
                known = {relation.columns[at].name for at in old_places(message)}
                old = texts(relation, message.old, self._style)
                line["old"] = {name: text for name, text in old if name in known}
            if message.new is not None:
                line["new"] = dict(texts(relation, message.new, self._style))
            yield json_line(line)
        yield json_line({"op": COMMIT, **about})

    def position(self, line: bytes) -> int | None:
        try:
            return parse_lsn(str(parsed(line).get("lsn")))
        except PgError:
            return None
