"""What of two databases' definitions matters to replication from one to the other: that the subscriber has the
published tables with their columns and types, a key where the publisher has one, and takes every row. Defaults,
identities, indexes and other constraints do not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.statements.definitions.changes import Definitions
    from pgrepl.statements.definitions.definition import ColumnFacts, Definition, Fact

Published = Mapping[str, Collection[str]]  # the columns of each table, by its qualified name


def what_matters(have: Definitions, wanted: Definitions, published: Published) -> tuple[Definitions, Definitions]:
    """The subscriber's and the publisher's definitions, without what does not matter."""
    here: Definitions = {}
    there: Definitions = {}
    for key, after in wanted.items():
        kind, name = key
        if kind != "table" or name not in published or after.columns is None:
            continue
        before = have.get(key)
        if before is None or before.columns is None:
            there[key] = after
            continue
        sent = [column for column in after.columns if column in published[name]]
        here[key] = replace(
            before,
            facts={},
            columns={c: _taking(before.columns[c], after.columns[c]) for c in sent if c in before.columns},
        )
        there[key] = replace(
            after,
            facts={} if _keys(before) else _keys(after),
            columns={c: _given(after.columns[c], is_there=c in before.columns) for c in sent},
        )
    return here, there


def _keys(table: Definition) -> dict[str, Fact]:
    return {name: fact for name, fact in table.facts.items() if " PRIMARY KEY " in fact.made[0]}


def _taking(here: ColumnFacts, there: ColumnFacts) -> ColumnFacts:
    """The subscriber's column; that it takes no NULL matters where the publisher's does."""
    return _plain(here, there, notnull=here.notnull and not there.notnull)


def _given(there: ColumnFacts, *, is_there: bool) -> ColumnFacts:
    """The publisher's column, as it is made or compared."""
    return _plain(there, there, notnull=False) if is_there else there


def _plain(column: ColumnFacts, there: ColumnFacts, *, notnull: bool) -> ColumnFacts:
    """A column by its type, and whether it takes NULL."""
    return replace(
        column,
        definition=there.definition,
        default=None,
        generated="",
        identity="",
        identity_clause="",
        identity_options="",
        inherited=False,
        notnull=notnull,
        not_null=("", ""),
    )
