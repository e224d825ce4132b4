"""The statements that bring a table's columns to what they are to be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.comparison.definition import ColumnFacts, Phase

Columns = Mapping[str, ColumnFacts]
Steps = Iterator[tuple[float, str]]


def changed_columns(table: str, have: Columns, wanted: Columns) -> Steps:
    """The statements for columns that both have, and for new ones. An inherited column's type changes with its
    parent's."""
    for name, column in wanted.items():
        before = have.get(name)
        if before is None:
            if not column.inherited:
                identity = f" {column.identity_clause}" if column.identity else ""
                yield Phase.COLUMNS, f"ALTER TABLE {table} ADD COLUMN {column.definition}{identity};"
        elif before != column:
            yield from _changed(f"ALTER TABLE {table} ALTER COLUMN {quote_identifier(name)}", name, before, column)


def gone_columns(table: str, have: Columns, wanted: Columns) -> Steps:
    for name, column in have.items():
        if name not in wanted and not column.inherited:
            yield Phase.DROPS, f"ALTER TABLE {table} DROP COLUMN {quote_identifier(name)};"


def anew(table: str, have: Columns, wanted: Columns) -> list[str]:
    """Columns that only dropping and adding them can change: a plain column does not become a generated one."""
    return [
        name
        for name, column in wanted.items()
        if (before := have.get(name)) is not None and column.generated and not before.generated
    ]


def _changed(alter: str, name: str, before: ColumnFacts, after: ColumnFacts) -> Steps:
    if after.generated and not before.generated:
        return  # see `anew`
    new_default = before.default != after.default or before.generated != after.generated
    new_type = before.type != after.type and not after.inherited
    if before.generated and not after.generated:
        yield Phase.COLUMNS, f"{alter} DROP EXPRESSION;"
    elif before.default is not None and not before.generated and new_default and (new_type or after.default is None):
        yield Phase.COLUMNS, f"{alter} DROP DEFAULT;"
    if before.identity and not after.identity:
        yield Phase.REMOVALS, f"{alter} DROP IDENTITY;"
    if new_type:
        plain = after.type.partition(" COLLATE ")[0]
        yield Phase.COLUMNS, f"{alter} TYPE {after.type} USING {quote_identifier(name)}::{plain};"
    if after.generated and new_default:
        yield Phase.COLUMNS, f"{alter} SET EXPRESSION AS ({after.default});"
    elif after.default is not None and not after.generated and (new_default or new_type):
        yield Phase.COLUMNS, f"{alter} SET DEFAULT {after.default};"
    if before.notnull != after.notnull:
        yield Phase.COLUMNS, f"{alter} {'SET' if after.notnull else 'DROP'} NOT NULL;"
    if after.identity and not before.identity:
        yield Phase.COLUMNS + 0.6, f"{alter} ADD {after.identity_clause};"
    elif after.identity:
        if before.identity != after.identity:
            yield Phase.COLUMNS, f"{alter} SET GENERATED {'ALWAYS' if after.identity == 'a' else 'BY DEFAULT'};"
        if before.identity_options != after.identity_options:
            words = after.identity_options.replace("START WITH", "SET START WITH").replace(
                " INCREMENT", " SET INCREMENT"
            )
            for word in ("NO MINVALUE", "MINVALUE", "NO MAXVALUE", "MAXVALUE", "CACHE", "NO CYCLE", "CYCLE"):
                words = re.sub(rf"(?<!SET)(?<!NO) {word}", f" SET {word}", words)
            yield Phase.COLUMNS, f"{alter} {words};"
