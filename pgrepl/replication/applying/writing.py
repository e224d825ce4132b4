"""From what was played to the lake: one write for each table, one snapshot for the batch, one before it for TRUNCATE.

A table that is itself published with less than insert, update and delete must not be told of a batch as a whole: what
its subscribers see depends on the steps in between (`may_fold`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.publication import publications
from pgrepl.catalog.sequences import restart_sequences
from pgrepl.replication.applying.play import Player
from pgrepl.replication.sending.plan import published_operations

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

ROW_OPERATIONS = {"insert", "update", "delete"}


def may_fold(session: Session) -> bool:
    """Whether several changes of a row may become one: every publication here publishes whatever happens to rows."""
    return all(published_operations(row) >= ROW_OPERATIONS for row in publications(session))


def write(session: Session, player: Player, origin: str) -> None:
    """Write what was played: the snapshot that empties tables, and the one with what became of rows. A table emptied
    and filled in one snapshot would be sent on as emptied only."""
    if player.truncated:
        _empty(session, player, origin)
        restart_sequences(session, player.restarted)
        session.transaction.numbering.store_snapshot()
    _change(session, player, origin)
    session.transaction.numbering.store_snapshot()


def _empty(session: Session, player: Player, origin: str) -> None:
    from pgrepl.lake import commit
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write import Write

    writes = []
    for overlay in player.overlays.values():
        if overlay.truncated:
            writes.append(Write(session, lake_table(session, overlay.relation.oid)))
            writes[-1].truncate()
    truncated = {"tables": player.truncated, "cascade": False, "restart_identity": bool(player.restarted)}
    commit.apply(session, writes, {"origin": origin, "truncate": truncated})


def _change(session: Session, player: Player, origin: str) -> None:
    from pgrepl.lake import commit
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write import Write

    writes = []
    for overlay in player.overlays.values():
        steps = list(overlay.steps())
        if not steps:
            continue
        change = Write(session, lake_table(session, overlay.relation.oid))
        for step in steps:
            row = None if step.row is None else change.table.lake_row(step.row)
            if row is None:
                assert step.place is not None
                change.delete([step.place])
            elif step.place is None:
                change.insert([row])
            else:
                change.update(step.place, row)
        writes.append(change)
    if writes:
        commit.apply(session, writes, {"origin": origin})
