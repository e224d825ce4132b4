"""The target table of a statement, and the columns that it names (setTargetTable, checkInsertTargets)."""

from __future__ import annotations

from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.errors import PgError
from pgrepl.expr.from_clause import open_relation
from pgrepl.expr.range_table import SYSTEM_COLUMNS, relation_rte
from pgrepl.expr.scope import Scope
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import RangeVar, ResTarget


@frozen
class NamedColumn:
    """A column in an INSERT's column list, written or implied."""

    name: str
    attnum: int
    indirection: tuple[object, ...] = ()
    location: int = -1


def open_target(scope: Scope, name: RangeVar, *, inh: bool = False) -> Relation:
    """Open the target relation as the first range table entry; it is not yet in the namespace."""
    if name.schema is None and name.name in scope.session.transition_tables:
        raise PgError("0A000", f'relation "{name.name}" cannot be the target of a modifying statement')
    found = open_relation(scope, name)
    alias = name.alias
    rte = relation_rte(
        found, alias.name if alias is not None else None, alias.columns if alias is not None else (), inh
    )
    scope.target_item = scope.add_rte(rte)
    return found


def column_number(relation: Relation, name: str) -> int:
    """The attnum of a column, negative for system columns; 0: no such column (attnameAttNum)."""
    found = relation.attribute(name)
    if found is not None:
        return found.num
    if relation.kind in "vc":
        return 0
    return SYSTEM_COLUMNS.get(name, (0, 0))[0]


def missing_column_of(relation: Relation, name: str, location: int, hint: str | None = None) -> PgError:
    message = f'column "{name}" of relation "{relation.name}" does not exist'
    return PgError("42703", message, hint=hint, location=location)


def insert_columns(relation: Relation, columns: tuple[ResTarget, ...]) -> list[NamedColumn]:
    """The columns that an INSERT gives values (checkInsertTargets)."""
    if not columns:
        return [NamedColumn(a.name, a.num) for a in relation.columns]
    found: list[NamedColumn] = []
    whole: set[int] = set()
    partial: set[int] = set()
    for column in columns:
        assert column.name is not None
        attnum = relation.attribute(column.name)
        if attnum is None:
            raise missing_column_of(relation, column.name, column.location)
        if attnum.num in whole or (not column.indirection and attnum.num in partial):
            message = f'column "{column.name}" specified more than once'
            raise PgError("42701", message, location=column.location)
        (partial if column.indirection else whole).add(attnum.num)
        found.append(NamedColumn(column.name, attnum.num, tuple(column.indirection), column.location))
    return found


def attribute_at(relation: Relation, attnum: int) -> Attribute:
    found = relation.attribute_by_number(attnum)
    assert found is not None
    return found
