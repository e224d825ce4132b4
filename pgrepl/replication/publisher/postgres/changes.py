"""Transactions from a slot: `pg_logical_slot_peek_binary_changes` inside COPY, for previews and for reading ahead.

A worker's changes are streamed (stream.py), since the server decodes again for each peek.

The server gives whole transactions, everything again from the slot's confirmed position, and stops behind the
transaction that makes the number of messages full. It decodes without streaming, so that an aborted transaction is
never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgrepl.replication.publisher.postgres.copy_rows import COUNT, binary_rows
from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.wire.pgoutput_columns import Numbers
from pgrepl.types.lsn import lsn_text

_ROW = COUNT + 4  # bytes before a row's only field
PORTION = 2 << 20  # bytes that are decoded together
_ORIGINS = 160000


def changes_of(
    link: Link,
    slot: str,
    publications: Sequence[str],
    upto: int,
    limit: int,
    *,
    local_only: bool,
    two_phase: bool = False,
    binary: bool = False,
    consume: bool = False,
) -> str:
    """The COPY that sends the messages of everything committed before an LSN; `consume`: the slot moves behind them."""
    names = link.literal(link.identifiers(publications))
    options = ["'proto_version'", "'3'" if two_phase else "'1'", "'publication_names'", names]
    if two_phase:
        options += ["'two_phase'", "'on'"]
    if binary:
        options += ["'binary'", "'true'"]
    if link.version >= _ORIGINS:
        options += ["'origin'", "'none'" if local_only else "'any'"]
    verb = "get" if consume else "peek"
    return (
        f"COPY (SELECT data FROM pg_catalog.pg_logical_slot_{verb}_binary_changes({link.literal(slot)}, "
        f"{link.literal(lsn_text(upto))}, {limit}, {', '.join(options)})) TO STDOUT (FORMAT binary)"
    )


def portions(link: Link, command: str) -> Iterator[tuple[bytes, Numbers]]:
    """Some messages in one buffer, with padding behind it, and the place where each begins; its length stands before
    it."""
    for data, at in binary_rows(link, command, PORTION):
        yield data, at + _ROW
