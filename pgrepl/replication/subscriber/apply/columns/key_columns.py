"""The key by which a table's rows are found, and the description of the table for kernels."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.engine import Declined
from pgrepl.expr.dml.defaults import column_default
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable, TableKeys
from pgrepl.replication.subscriber.apply.target import identity_of
from pgrepl.replication.subscriber.convert import MatchedColumns, converted
from pgrepl.replication.wire.batch import INSERT
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.rows.checks_columns import check_program, default_column, generated_columns
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.unique import unique_indexes
from pgrepl.types import oids
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeColumn


def described(
    session: Session, target: Relation, table: Relation, matched: MatchedColumns, keys: TableKeys, *, inserts: bool
) -> DescribedTable:
    """The target of the messages, or the partition of it that their rows are routed to. `inserts`: there are INSERTs.
    Declined: new rows cannot be made by columns."""
    from pgrepl.lake.kernels.row_maker import KernelColumn

    kept, rules = lake_table(session, table.oid), table_rules(session, table)
    places = list(matched.places)
    same, columns = set(), []
    sent = tuple([(column.type, column.typmod) for column in matched.sent.columns])
    for attribute in table.columns:
        place = places[attribute.num - 1]
        if place >= 0:
            _check_form(kept.column(attribute.num), attribute)
            columns.append(converted(session, matched.sent.columns[place], attribute, place))
            if matched.same_type(attribute.num):
                same.add(attribute.num)
    defaults = {}
    named = {attribute.name: attribute for attribute in target.columns}
    for place, attribute in enumerate(matched.unsent, len(sent)):
        places[attribute.num - 1] = place
        expr = column_default(session, target, named[attribute.name]) if inserts else None
        defaults[place] = default_column(session, kept.column(attribute.num), expr, not_null=False).value
        columns.append(KernelColumn(attribute.num, place + 1, None, attribute.notnull))
        same.add(attribute.num)
    return DescribedTable(
        kept,
        keys,
        tuple(places),
        frozenset(same),
        sent,
        (*columns, *generated_columns(session, rules).values()),
        check_program(session, rules, bound=target.oid == table.oid),
        defaults,
    )


def _check_form(column: LakeColumn, attribute: Attribute) -> None:
    """Declined for numerics that DuckDB keeps as another type: a HUGEINT is a double in files, and would take NaN."""
    if attribute.type == oids.NUMERIC and column.form.lake != form(attribute.type, attribute.typmod).lake:
        raise Declined(f'column "{column.name}" is kept as {column.form.lake}')


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


def described_leaves(session: Session, target: Relation, messages: MessageFiles) -> dict[int, DescribedTable]:
    """By oid, the table, or the leaf partitions of a partitioned one."""
    unsent = {place for file in messages.files for place in file.unchanged}
    found = {}
    for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
        table = relation(session, oid)
        if table.kind == "p":
            continue
        matched = MatchedColumns(table, messages.relation)
        keys = table_keys(session, table, matched, unsent, needed=messages.searches)
        inserts = INSERT in messages.operations
        found[oid] = described(session, target, table, matched, keys, inserts=inserts)
    return found
