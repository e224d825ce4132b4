"""Column constraints and table constraints."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.building import build, release
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import Constraint, ConstrType, DefElem, Expr, KeyAction, KeyActions, RangeVar

Attributes = dict[str, tuple[int, int]]  # the places of an attribute's first and last word


@frozen
class KeyColumns:
    names: tuple[str, ...]
    newer: int = -1  # the place of WITHOUT OVERLAPS or PERIOD, which are about the last of the columns


@frozen
class ColumnCollate:
    """COLLATE, written among a column's constraints."""

    names: Names
    location: int


# ------------------------------------------------------------------------------------------------ of a column


@build
def column_collation(location: int, names: Names) -> ColumnCollate:
    return ColumnCollate(names, location)


@build
def column_generated(locations: tuple[int, int, int], when: str, expr: Expr, kind: str) -> Constraint:
    """17 expects STORED behind the last parenthesis."""
    if when != "a":
        raise PgError("42601", "for a generated column, GENERATED ALWAYS must be specified", location=locations[1])
    newer = -1 if kind else locations[2] + 1
    return Constraint(ConstrType.GENERATED, expr=expr, generated_kind=kind or "v", location=locations[0], newer=newer)


@build
def column_references(
    location: int, table: RangeVar, columns: list[str] | None, match: str, actions: KeyActions
) -> Constraint:
    return Constraint(
        ConstrType.FOREIGN,
        pk_table=table,
        pk_columns=tuple(columns or ()),
        match=match,
        on_update=actions.update.action,
        on_delete=actions.delete.action,
        delete_set_columns=actions.delete.columns,
        location=location,
    )


# ------------------------------------------------------------------------------------------------ of a table


@build
def without_overlaps(location: int) -> int:
    return location


@build
def key_columns(location: int, names: list[str], overlaps: int | None) -> KeyColumns:
    return KeyColumns(tuple(names), -1 if overlaps is None else overlaps)


@build
def period_columns(location: int, names: list[str], last: tuple[str, int] | None) -> KeyColumns:
    return KeyColumns(tuple(names)) if last is None else KeyColumns((*names, last[0]), last[1])


@build
def no_period_columns(location: int) -> KeyColumns:
    return KeyColumns(())


@build
def table_check(location: int, expr: Expr, attributes: Attributes) -> Constraint:
    refuse(attributes, "CHECK", "DEFERRABLE")
    return Constraint(
        ConstrType.CHECK,
        expr=expr,
        skip_validation="NOT VALID" in attributes or "NOT ENFORCED" in attributes,
        no_inherit="NO INHERIT" in attributes,
        enforced="NOT ENFORCED" not in attributes,
        newer=enforcement(attributes),
        location=location,
    )


def enforcement(attributes: Attributes) -> int:
    """Where ENFORCED stands, or -1."""
    return max(attributes.get(word, (-1, -1))[1] for word in ("ENFORCED", "NOT ENFORCED"))


@build
def table_not_null(location: int, column: str, attributes: Attributes) -> Constraint:
    refuse(attributes, "NOT NULL", "DEFERRABLE", "NOT ENFORCED", "ENFORCED")
    return Constraint(
        ConstrType.NOTNULL,
        keys=(column,),
        skip_validation="NOT VALID" in attributes,
        no_inherit="NO INHERIT" in attributes,
        newer=location,
        location=location,
    )


@build
def table_unique(
    location: int,
    nulls_not_distinct: bool,
    keys: KeyColumns,
    including: list[str],
    options: list[DefElem],
    tablespace: str | None,
    attributes: Attributes,
) -> Constraint:
    constraint = Constraint(
        ConstrType.UNIQUE,
        keys=keys.names,
        without_overlaps=keys.newer >= 0,
        newer=keys.newer,
        including=tuple(including),
        nulls_not_distinct=nulls_not_distinct,
        index_options=tuple(options),
        tablespace=tablespace,
        location=location,
    )
    return deferral(constraint, attributes, "UNIQUE")


@build
def table_unique_using_index(location: int, index: str, attributes: Attributes) -> Constraint:
    constraint = Constraint(ConstrType.UNIQUE, using_index=index, location=location)
    return deferral(constraint, attributes, "UNIQUE")


@build
def table_primary_key(
    location: int,
    keys: KeyColumns,
    including: list[str],
    options: list[DefElem],
    tablespace: str | None,
    attributes: Attributes,
) -> Constraint:
    constraint = Constraint(
        ConstrType.PRIMARY,
        keys=keys.names,
        without_overlaps=keys.newer >= 0,
        newer=keys.newer,
        including=tuple(including),
        index_options=tuple(options),
        tablespace=tablespace,
        location=location,
    )
    return deferral(constraint, attributes, "PRIMARY KEY")


@build
def table_primary_key_using_index(location: int, index: str, attributes: Attributes) -> Constraint:
    constraint = Constraint(ConstrType.PRIMARY, using_index=index, location=location)
    return deferral(constraint, attributes, "PRIMARY KEY")


@build
def table_exclude(
    location: int,
    method: str,
    exclusions: object,
    including: list[str],
    options: list[DefElem],
    tablespace: str | None,
    where: Expr | None,
    attributes: Attributes,
) -> Constraint:
    """EXCLUDE. Only its presence is kept, as pgrepl has no EXCLUDE constraints."""
    return deferral(Constraint(ConstrType.EXCLUSION, location=location), attributes, "EXCLUDE")


@build
def table_foreign_key(
    location: int,
    columns: KeyColumns,
    table: RangeVar,
    referenced: KeyColumns,
    match: str,
    actions: KeyActions,
    attributes: Attributes,
) -> Constraint:
    refuse(attributes, "FOREIGN KEY", "NO INHERIT")
    constraint = replace(
        column_references(location, table, list(referenced.names), match, actions),
        fk_columns=columns.names,
        fk_period=columns.newer >= 0,
        pk_period=referenced.newer >= 0,
        skip_validation="NOT VALID" in attributes or "NOT ENFORCED" in attributes,
        enforced="NOT ENFORCED" not in attributes,
        newer=next((at for at in (columns.newer, referenced.newer, enforcement(attributes)) if at >= 0), -1),
    )
    return deferral(constraint, attributes, "FOREIGN KEY", but=("NOT VALID", "NOT ENFORCED", "ENFORCED"))


# ------------------------------------------------------------------------------------------------ foreign keys


@build
def match_partial(location: int) -> str:
    raise PgError("0A000", "MATCH PARTIAL not yet implemented", location=location)


@build
def key_update(location: int, action: KeyAction) -> KeyAction:
    if action.columns:
        what = "SET NULL" if action.action == "n" else "SET DEFAULT"
        message = f"a column list with {what} is only supported for ON DELETE actions"
        raise PgError("0A000", message, location=location)
    return action


# ------------------------------------------------------------------------------------------------ attributes


@build
def no_attributes(location: int) -> Attributes:
    return {}


@build
def attributes(location: int, before: Attributes, attribute: tuple[str, int]) -> Attributes:
    """Constraint attributes. Contradicting ones are refused at once; whether they fit the constraint is checked
    later."""
    now = {attribute[0]: (location, attribute[1]), **before}
    words = now.keys()
    if words >= {"NOT DEFERRABLE", "INITIALLY DEFERRED"}:
        raise PgError("42601", "constraint declared INITIALLY DEFERRED must be DEFERRABLE", location=location)
    for word, other in _CONFLICTS:
        if words >= {word, other}:
            raise PgError("42601", "conflicting constraint properties", location=location)
    return now


_CONFLICTS = (
    ("NOT DEFERRABLE", "DEFERRABLE"),
    ("INITIALLY IMMEDIATE", "INITIALLY DEFERRED"),
    ("ENFORCED", "NOT ENFORCED"),
)


def refuse(attributes: Attributes, constraint: str, *refused: str) -> None:
    """Refuse attributes that a constraint cannot have: `CHECK constraints cannot be marked DEFERRABLE` (as
    processCASbits does, in its order; 17 without a cursor position)."""
    place = min(attributes.values(), default=(-1, -1))[0] if release.get() >= 18 else -1
    asked = set(attributes)
    if "INITIALLY DEFERRED" in asked:
        asked.add("DEFERRABLE")
    for attribute in ("DEFERRABLE", "NOT VALID", "NO INHERIT", "NOT ENFORCED", "ENFORCED"):
        if attribute in asked and attribute in refused:
            raise PgError("0A000", f"{constraint} constraints cannot be marked {attribute}", location=place)


def deferral(constraint: Constraint, attributes: Attributes, kind: str, but: tuple[str, ...] = ()) -> Constraint:
    """Set whether the constraint is DEFERRABLE and INITIALLY DEFERRED; other attributes `but` these are refused."""
    refuse(attributes, kind, *{"NOT VALID", "NO INHERIT", "NOT ENFORCED", "ENFORCED"}.difference(but))
    deferred = "INITIALLY DEFERRED" in attributes
    return replace(constraint, deferrable=deferred or "DEFERRABLE" in attributes, initially_deferred=deferred)
