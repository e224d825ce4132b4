"""CREATE TABLE and CREATE TABLE AS; CREATE SEQUENCE and the options of sequences and identity columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.building import build, release
from pgrepl.sql.building.constraint import ColumnCollate
from pgrepl.sql.building.names import Names
from pgrepl.sql.building.select import warn_of_global
from pgrepl.sql.nodes import (
    ColumnDef,
    Constraint,
    CreateSeqStmt,
    CreateStmt,
    CreateTableAsStmt,
    DefElem,
    ObjectType,
    PartitionBoundSpec,
    PartitionElem,
    PartitionSpec,
    RangeVar,
    SelectStmt,
    TypeName,
)

NewRelation = tuple[RangeVar, bool]
"""The name, and whether IF NOT EXISTS stands before it."""

_LIKE_OPTIONS = frozenset(
    "comments compression constraints defaults generated identity indexes statistics storage".split()
)


@frozen
class Tail:
    access_method: str | None
    options: tuple[DefElem, ...]
    on_commit: str | None
    tablespace: str | None


# ------------------------------------------------------------------------------------------------ names


@build
def global_temporary(location: int) -> str:
    warn_of_global(location)
    return "t"


# ------------------------------------------------------------------------------------------------ statements


def _create(
    persistence: str, new: NewRelation, elements: list[Any], partition_by: PartitionSpec | None, tail: Tail, **more: Any
) -> CreateStmt:
    relation, if_not_exists = new
    return CreateStmt(
        replace(relation, persistence=persistence),
        tuple(elements),
        partition_by=partition_by,
        options=tail.options,
        on_commit=tail.on_commit,
        tablespace=tail.tablespace,
        access_method=tail.access_method,
        if_not_exists=if_not_exists,
        **more,
    )


@build
def create_table(
    location: int,
    persistence: str,
    new: NewRelation,
    elements: list[Any],
    parents: list[RangeVar],
    partition_by: PartitionSpec | None,
    tail: Tail,
) -> CreateStmt:
    return _create(persistence, new, elements, partition_by, tail, inherits=tuple(parents))


@build
def create_table_of_type(
    location: int,
    persistence: str,
    new: NewRelation,
    names: Names,
    elements: list[Any],
    partition_by: PartitionSpec | None,
    tail: Tail,
) -> CreateStmt:
    return _create(persistence, new, elements, partition_by, tail, of_type=TypeName(names, location=location))


@build
def create_table_partition(
    location: int,
    persistence: str,
    new: NewRelation,
    parent: RangeVar,
    elements: list[Any],
    bound: PartitionBoundSpec,
    partition_by: PartitionSpec | None,
    tail: Tail,
) -> CreateStmt:
    return _create(persistence, new, elements, partition_by, tail, partition_of=parent, bound=bound)


@build
def create_table_as(
    location: int,
    persistence: str,
    target: tuple[NewRelation, list[str] | None, Tail],
    query: SelectStmt,
    with_data: bool,
    kind: ObjectType = ObjectType.TABLE,
) -> CreateTableAsStmt:
    (relation, if_not_exists), columns, tail = target
    return CreateTableAsStmt(
        replace(relation, persistence=persistence),
        tuple(columns or ()),
        query,
        with_data,
        if_not_exists,
        kind,
        options=tail.options,
        on_commit=tail.on_commit,
        tablespace=tail.tablespace,
        access_method=tail.access_method,
    )


@build
def table_tail(
    location: int, access_method: str | None, options: list[DefElem], on_commit: str | None, tablespace: str | None
) -> Tail:
    return Tail(access_method, tuple(options), on_commit, tablespace)


# ------------------------------------------------------------------------------------------------ columns


@build
def column_def(
    location: int,
    name: str,
    type_name: TypeName,
    storage: str | None,
    compression: str | None,
    foreign_options: object,
    qualifiers: list[Constraint | ColumnCollate],
) -> ColumnDef:
    constraints, collation = split(qualifiers)
    return ColumnDef(
        name,
        type_name,
        collation=collation.names if collation else (),
        collation_location=collation.location if collation else -1,
        constraints=constraints,
        storage=storage,
        compression=compression,
        location=location,
    )


@build
def column_options(location: int, name: str, qualifiers: list[Constraint | ColumnCollate]) -> ColumnDef:
    constraints, collation = split(qualifiers)
    return ColumnDef(
        name,
        None,
        collation=collation.names if collation else (),
        collation_location=collation.location if collation else -1,
        constraints=constraints,
        location=location,
    )


def split(qualifiers: list[Constraint | ColumnCollate]) -> tuple[tuple[Constraint, ...], ColumnCollate | None]:
    """Separate a column's constraints from its COLLATE clause (as SplitColQualList does)."""
    collations = [item for item in qualifiers if isinstance(item, ColumnCollate)]
    if len(collations) > 1:
        raise PgError("42601", "multiple COLLATE clauses not allowed", location=collations[1].location)
    constraints = tuple(item for item in qualifiers if isinstance(item, Constraint))
    return constraints, collations[0] if collations else None


@build
def like_nothing(location: int) -> frozenset[str]:
    return frozenset()


@build
def including(location: int, options: frozenset[str], option: str) -> frozenset[str]:
    return options | (_LIKE_OPTIONS if option == "all" else {option})


@build
def excluding(location: int, options: frozenset[str], option: str) -> frozenset[str]:
    return options - (_LIKE_OPTIONS if option == "all" else {option})


# ------------------------------------------------------------------------------------------------ partitions


@build
def partition_by(locations: tuple[int, int], strategy: str, keys: list[PartitionElem]) -> PartitionSpec:
    if strategy.lower() not in ("list", "range", "hash"):
        place = locations[1] if release.get() >= 18 else -1
        raise PgError("22023", f'unrecognized partitioning strategy "{strategy}"', location=place)
    return PartitionSpec(strategy.lower(), tuple(keys), locations[0])


@build
def bound_hash(location: int, parts: list[DefElem]) -> PartitionBoundSpec:
    given: dict[str, int] = {}
    for part in parts:
        if part.name not in ("modulus", "remainder"):
            message = f'unrecognized hash partition bound specification "{part.name}"'
            raise PgError("42601", message, location=part.location)
        if part.name in given:
            message = f"{part.name} for hash partition provided more than once"
            raise PgError("42710", message, location=part.location)
        assert isinstance(part.value, int)
        given[part.name] = part.value
    for name in ("modulus", "remainder"):
        if name not in given:
            raise PgError("42601", f"{name} for hash partition must be specified")
    return PartitionBoundSpec("h", given["modulus"], given["remainder"], location=location)


# --- sequence ---------------------------------------------------------------------------------------------------------


@build
def create_sequence(location: int, persistence: str, new: NewRelation, options: list[DefElem]) -> CreateSeqStmt:
    relation, if_not_exists = new
    return CreateSeqStmt(replace(relation, persistence=persistence), tuple(options), if_not_exists)
