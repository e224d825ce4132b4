"""CREATE INDEX, CREATE [MATERIALIZED] VIEW and REFRESH, CREATE and ALTER TRIGGER."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.building import AtCurrentToken, build
from pgrepl.sql.building.constraint import Attributes, refuse
from pgrepl.sql.building.names import Names
from pgrepl.sql.building.table import NewRelation, Tail
from pgrepl.sql.nodes import (
    ColumnRef,
    CommonTableExpr,
    CreateTableAsStmt,
    DefElem,
    Expr,
    IndexElem,
    IndexStmt,
    NullsOrder,
    ObjectType,
    RangeVar,
    RefreshMatViewStmt,
    RenameStmt,
    ResTarget,
    SelectStmt,
    SortDir,
    ViewStmt,
    WithClause,
)
from pgrepl.sql.nodes.routine import CreateTrigStmt, TriggerEventSpec, TriggerTransition


@frozen
class _Options:
    """The part behind an index element: collation, operator class, direction."""

    collation: Names
    opclass: Names
    opclass_options: tuple[DefElem, ...]
    dir: SortDir
    nulls: NullsOrder


@build
def btree(location: int) -> str:
    return "btree"


@build
def index_element_options(
    location: int, collation: Names | None, opclass: Names | None, direction: SortDir, nulls: NullsOrder
) -> _Options:
    return _Options(collation or (), opclass or (), (), direction, nulls)


@build
def index_element_options_of_class(
    location: int,
    collation: Names | None,
    opclass: Names,
    options: list[DefElem],
    direction: SortDir,
    nulls: NullsOrder,
) -> _Options:
    return _Options(collation or (), opclass, tuple(options), direction, nulls)


def _element(name: str | None, expr: Expr | None, options: _Options, location: int) -> IndexElem:
    return IndexElem(
        name,
        expr,
        options.collation,
        options.opclass,
        options.opclass_options,
        options.dir,
        options.nulls,
        location,
    )


@build
def index_column(location: int, name: str, options: _Options) -> IndexElem:
    return _element(name, None, options, location)


@build
def index_expression(location: int, expr: Expr, options: _Options) -> IndexElem:
    return _element(None, expr, options, location)


@build
def index_definition(
    location: int,
    relation: RangeVar,
    method: str,
    elements: list[IndexElem],
    including: list[IndexElem],
    nulls_not_distinct: bool,
    options: list[DefElem],
    tablespace: str | None,
    where: Expr | None,
) -> IndexStmt:
    return IndexStmt(
        None,
        relation,
        tuple(elements),
        method=method,
        including=tuple(including),
        nulls_not_distinct=nulls_not_distinct,
        where=where,
        options=tuple(options),
        tablespace=tablespace,
    )


@build
def create_index(location: int, unique: bool, concurrently: bool, name: str | None, definition: IndexStmt) -> IndexStmt:
    return replace(definition, name=name, unique=unique, concurrently=concurrently)


@build
def create_index_if_not_exists(
    location: int, unique: bool, concurrently: bool, name: str, definition: IndexStmt
) -> IndexStmt:
    return replace(definition, name=name, unique=unique, concurrently=concurrently, if_not_exists=True)


# --- view -------------------------------------------------------------------------------------------------------------


@build
def create_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str] | None,
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    return ViewStmt(
        replace(relation, persistence=persistence),
        tuple(columns or ()),
        query,
        options=tuple(options),
        check_option=check_option,
    )


@build
def create_or_replace_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str] | None,
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    view = create_view(location, persistence, relation, columns, options, query, check_option)
    return replace(view, replace=True)


@build(at=10)
def create_recursive_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str],
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    if check_option is not None:
        raise PgError("0A000", "WITH CHECK OPTION not supported on recursive views", location=location)
    query = _recursive_query(relation.name, columns, query)
    view = create_view(location, persistence, relation, columns, options, query, check_option)
    return replace(view, recursive=True)


@build(at=12)
def create_or_replace_recursive_view(
    location: int,
    persistence: str,
    relation: RangeVar,
    columns: list[str],
    options: list[DefElem],
    query: SelectStmt,
    check_option: str | None,
) -> ViewStmt:
    view = create_recursive_view(location, persistence, relation, columns, options, query, check_option)
    return replace(view, replace=True)


def _recursive_query(name: str, columns: list[str], query: SelectStmt) -> SelectStmt:
    """CREATE RECURSIVE VIEW's query: WITH RECURSIVE name (columns) AS (query) SELECT columns FROM name (as
    makeRecursiveViewSelect does)."""
    return SelectStmt(
        targets=tuple(ResTarget(ColumnRef((column,))) for column in columns),
        from_=(RangeVar(name),),
        with_=WithClause((CommonTableExpr(name, tuple(columns), query),), recursive=True),
    )


@build
def check_option_cascaded(location: int) -> str:
    return "CASCADED"


@build
def check_option_local(location: int) -> str:
    return "LOCAL"


# ------------------------------------------------------------------------------------------------ materialized views


@build
def materialized_view_tail(
    location: int, access_method: str | None, options: list[DefElem], tablespace: str | None
) -> Tail:
    return Tail(access_method, tuple(options), None, tablespace)


@build
def create_materialized_view(
    location: int,
    persistence: str,
    target: tuple[NewRelation, list[str] | None, Tail],
    query: SelectStmt,
    with_data: bool,
) -> CreateTableAsStmt:
    (relation, if_not_exists), columns, tail = target
    return CreateTableAsStmt(
        replace(relation, persistence=persistence),
        tuple(columns or ()),
        query,
        with_data,
        if_not_exists,
        ObjectType.MATVIEW,
        options=tail.options,
        tablespace=tail.tablespace,
        access_method=tail.access_method,
    )


@build
def refresh_materialized_view(
    location: int, concurrently: bool, relation: RangeVar, with_data: bool
) -> RefreshMatViewStmt:
    return RefreshMatViewStmt(relation, concurrently, with_data)


# --- trigger ----------------------------------------------------------------------------------------------------------


Function = tuple[Names, tuple[str, ...]]


@build
def trigger_before(location: int) -> str:
    return "BEFORE"


@build
def trigger_after(location: int) -> str:
    return "AFTER"


@build
def trigger_instead_of(location: int) -> str:
    return "INSTEAD OF"


@build
def trigger_event(location: int, word: str) -> TriggerEventSpec:
    return TriggerEventSpec(word.upper())


@build
def trigger_update_of(location: int, columns: list[str]) -> TriggerEventSpec:
    return TriggerEventSpec("UPDATE", tuple(columns))


@build
def more_trigger_events(location: int, events: list[TriggerEventSpec], one: TriggerEventSpec) -> list[TriggerEventSpec]:
    if any(one.event == other.event for other in events):
        raise AtCurrentToken("duplicate trigger events specified")
    return [*events, one]


@build
def trigger_transition(location: int, is_new: bool, is_table: bool, _: None, name: str) -> TriggerTransition:
    return TriggerTransition(name, is_new, is_table)


@build
def trigger_number(location: int, number: int) -> str:
    return str(number)


@build
def trigger_function(location: int, _: None, name: Names, args: list[str]) -> Function:
    return name, tuple(args)


@build
def create_trigger(
    location: int,
    or_replace: bool,
    name: str,
    timing: str,
    events: list[TriggerEventSpec],
    relation: RangeVar,
    transitions: list[TriggerTransition],
    row: bool,
    when: Expr | None,
    function: Function,
) -> CreateTrigStmt:
    called, args = function
    return CreateTrigStmt(
        name, relation, called, args, timing, tuple(events), row, when, tuple(transitions), replace=or_replace
    )


@build
def create_constraint_trigger(
    location: int,
    or_replace: bool,
    name: str,
    events: list[TriggerEventSpec],
    relation: RangeVar,
    referenced: RangeVar | None,
    attributes: Attributes,
    when: Expr | None,
    function: Function,
) -> CreateTrigStmt:
    if or_replace:
        raise PgError("0A000", "CREATE OR REPLACE CONSTRAINT TRIGGER is not supported")
    refuse(attributes, "TRIGGER", "NOT VALID", "NO INHERIT", "NOT ENFORCED", "ENFORCED")
    called, args = function
    deferred = "INITIALLY DEFERRED" in attributes
    return CreateTrigStmt(
        name,
        relation,
        called,
        args,
        "AFTER",
        tuple(events),
        True,
        when,
        is_constraint=True,
        deferrable=deferred or "DEFERRABLE" in attributes,
        initially_deferred=deferred,
        referenced=referenced,
    )


@build
def rename_trigger(location: int, name: str, relation: RangeVar, new_name: str) -> RenameStmt:
    return RenameStmt(ObjectType.TRIGGER, new_name, relation, name=name)
