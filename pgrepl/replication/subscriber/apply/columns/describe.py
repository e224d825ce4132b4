"""The description of a table for kernels: its columns, keys, rules and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import Declined
from pgrepl.expr.defaults import column_default
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable, TableKeys
from pgrepl.replication.subscriber.apply.columns.key_columns import table_keys
from pgrepl.replication.subscriber.convert import MatchedColumns, converted
from pgrepl.replication.wire.batch import INSERT
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.rows.checks_columns import check_form, check_program, default_column, generated_columns
from pgrepl.rows.checks_table import table_rules
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def described(
    session: Session, target: Relation, table: Relation, matched: MatchedColumns, keys: TableKeys, *, inserts: bool
) -> DescribedTable:
    """The target of the messages, or the partition of it that their rows are routed to. `inserts`: there are INSERTs.
    Declined: new rows cannot be made by columns."""
    from pgrepl.lake.kernels.row_maker import KernelColumn

    kept, rules = lake_table(session, table.oid), table_rules(session, table)
    if kept.has_dimensions:
        raise Declined("arrays of several dimensions")
    places = list(matched.places)
    same, columns = set(), []
    sent = matched.sent.columns
    for attribute in table.columns:
        place = places[attribute.num - 1]
        if place >= 0:
            if attribute.type == oids.NUMERIC:  # a HUGEINT is a double in files, and would take NaN
                check_form(kept.column(attribute.num), attribute.type, attribute.typmod)
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


def described_leaves(session: Session, target: Relation, messages: MessageFiles) -> dict[int, DescribedTable]:
    """The table, or the leaf partitions of a partitioned one, by oid."""
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
