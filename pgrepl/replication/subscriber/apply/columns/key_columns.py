"""The key by which a table's rows are found, and the description of the table for kernels."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation, relation
from pgrepl.engine import Declined
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.apply.columns.convert import Conversion
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable, TableKeys
from pgrepl.replication.subscriber.apply.target import identity_of
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def described(
    session: Session, table: Relation, conversion: Conversion, keys: TableKeys, *, routed: bool
) -> DescribedTable:
    """The table as plain data. `routed`: the rows are known to satisfy the partition constraint."""
    rules = table_rules(session, table)
    same = frozenset(
        [a.num for a in table.columns if conversion.places[a.num - 1] >= 0 and conversion.same_type(a.num)]
    )
    bound = rules.bound and not routed
    is_plain = not (conversion.unsent or rules.checks or rules.generated or bound) and len(same) == len(table.columns)
    return DescribedTable(
        lake_table(session, table.oid),
        keys,
        conversion.places,
        same,
        is_plain,
        frozenset([a.num for a in rules.not_null]),
    )


def table_keys(
    session: Session, table: Relation, conversion: Conversion, unsent: Collection[int], *, needed: bool
) -> TableKeys:
    """The keys to look up. `needed`: some messages are UPDATE or DELETE, which must find rows. `unsent`: places whose
    values are missing in some messages. Declined for unique indexes that need another check."""
    infos = [info for info in unique_indexes(session, table) if info.immediate]
    if not infos and not needed:
        return TableKeys(())
    places = conversion.places
    if not needed and len(infos) == 1:
        info = infos[0]
        attnums = tuple(info.columns[: info.key_count])
        if any(places[n - 1] < 0 for n in attnums if n):
            raise Declined("a key that is not sent")
    else:
        identity = identity_of(session, table, places, conversion.sent)
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


def described_leaves(session: Session, target: Relation, messages: MessageFiles) -> dict[int, DescribedTable]:
    """By oid, the table, or the leaf partitions of a partitioned one."""
    unsent = {place for file in messages.files for place in file.unchanged}
    found = {}
    for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
        table = relation(session, oid)
        if table.kind == "p":
            continue
        conversion = Conversion(session, table, messages.relation)
        keys = table_keys(session, table, conversion, unsent, needed=messages.searches)
        found[oid] = described(session, table, conversion, keys, routed=target.kind == "p")
    return found
