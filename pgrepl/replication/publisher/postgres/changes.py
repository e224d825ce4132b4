"""Transactions from a slot: `pg_logical_slot_peek_binary_changes` inside COPY, for previews and for reading ahead.

A worker's changes are streamed (stream.py), since the server decodes again for each peek.

The server gives whole transactions, everything again from the slot's confirmed position, and stops behind the
transaction that makes the number of messages full. It decodes without streaming, so that an aborted transaction is
never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pgrepl.replication.publisher.postgres.link import Link
from pgrepl.replication.wire import pgoutput_columns
from pgrepl.replication.wire.pgoutput_columns import Numbers
from pgrepl.types.lsn import lsn_text

_ROW = 6  # bytes before a row's only field
_FIRST_ROW = 19 + _ROW  # COPY's binary format begins with a header
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


def portions(answers: Iterator[list[memoryview]]) -> Iterator[tuple[bytes, Numbers]]:
    """Some messages in one buffer, with padding behind it, and the place where each begins; its length stands before
    it."""
    held: list[bytes] = []
    lengths: list[int] = []
    size, first = 0, _FIRST_ROW
    for portion in answers:
        held.append(b"".join(portion))
        lengths += map(len, portion)
        size += len(held[-1])
        if size >= PORTION:
            yield _joined(held, lengths, first)
            held, lengths, size, first = [], [], 0, _ROW
    if held:
        yield _joined(held, lengths, first)


def _joined(held: Sequence[bytes], lengths: Sequence[int], first: int) -> tuple[bytes, Numbers]:
    sizes = np.array(lengths, np.int64)
    ends = np.cumsum(sizes)
    heads = np.full(len(sizes), _ROW, np.int64)
    heads[0] = first
    at = ends - sizes + heads
    return b"".join(held) + bytes(pgoutput_columns.PADDING), at[sizes > heads]  # the last row is the mark of the end
