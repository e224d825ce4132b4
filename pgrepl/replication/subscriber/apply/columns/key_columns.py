"""The key by which a table's rows are found."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.errors import Declined
from pgrepl.replication.subscriber.apply.columns.described import TableKeys
from pgrepl.replication.subscriber.apply.target import identity_of
from pgrepl.replication.subscriber.convert import MatchedColumns
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def table_keys(
    session: Session, table: Relation, matched: MatchedColumns, unsent: Collection[int], *, needed: bool
) -> TableKeys:
    """The keys to look up. `needed`: some messages are UPDATE or DELETE, which must find rows. `unsent`: places whose
    values are missing in some messages. Declined for unique indexes that need another check."""
    infos = [info for info in unique_indexes(session, table) if info.immediate]
    if not infos and not needed:
        return TableKeys(())
    places = matched.places
    if not needed and len(infos) == 1:
        info = infos[0]
        attnums = tuple(info.columns[: info.key_count])
        if any(places[n - 1] < 0 for n in attnums if n):
            raise Declined("a key that is not sent")
    else:
        identity = identity_of(session, table, places, matched.sent)
        if not identity.by_index:
            raise Declined("a table without a key")
        attnums = identity.attnums
    others = []
    for info in infos:
        own = tuple(info.columns[: info.key_count])
        if info.predicate is not None or 0 in own or info.nulls_not_distinct:
            raise Declined("a unique index of another kind")
        if sorted(own) != sorted(attnums):
            if any(places[n - 1] < 0 for n in own):
                raise Declined("a key that is not sent")
            if any(places[n - 1] in unsent for n in own):
                raise Declined("a key that was not sent")
            others.append(own)
    if not infos:
        raise Declined("a key that is checked later")
    return TableKeys(attnums, tuple(others))
