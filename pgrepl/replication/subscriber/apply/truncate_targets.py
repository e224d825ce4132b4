"""The tables that a TRUNCATE of the publisher empties here (apply_handle_truncate)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.sequences import check_sequences_owner
from pgrepl.replication.subscriber.apply.roles import check_target_privilege
from pgrepl.rows.references import refuse_referenced

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def emptied_by(session: Session, targets: Iterable[Relation], *, restart_identity: bool) -> list[Relation]:
    """These tables with their partitions, each once, after all checks. It never cascades further than at the
    publisher."""
    emptied: dict[int, Relation] = {}
    for target in targets:
        for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
            if oid not in emptied:
                table = relation(session, oid)
                check_target_privilege(session, table, "TRUNCATE")
                emptied[oid] = table
    refuse_referenced(session, list(emptied))
    if restart_identity:
        check_sequences_owner(session, list(emptied))
    return list(emptied.values())
