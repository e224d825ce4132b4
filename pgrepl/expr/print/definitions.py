"""The SQL text of catalog objects (ruleutils.c): pg_get_indexdef, pg_get_constraintdef, pg_get_viewdef …, CREATE TYPE
and CREATE DOMAIN.

`pretty` leaves out needless parentheses, and the schema of relations that the search path finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.catalog.facts.depend import dependencies_of
from pgrepl.catalog.facts.namespace import collation_text, qualified_collation, schema_name
from pgrepl.catalog.facts.relation import Relation, display_name, relation, relation_or_none
from pgrepl.catalog.facts.user_types import domain_constraints, labels_of, type_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.system import PG_CONSTRAINT, PG_OPERATOR, PG_PROC, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_index, pg_rewrite, pg_type
from pgrepl.expr import stored, tree
from pgrepl.expr.analyse.lookup import collation, type_text
from pgrepl.expr.analyse.sorting import BTREE, default_opclass
from pgrepl.expr.catalog_trees import KeyColumn, bound_from_json, bound_text, partition_key
from pgrepl.expr.print.deparse import expression_text, query_text, stored_expression_text
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types.builtin import access_methods, opclass_by_oid, range_by_oid, type_by_oid
from pgrepl.types.oids import REGPROC
from pgrepl.types.user_types import UserType

DESCENDING, NULLS_FIRST = 1, 2  # bits of pg_index.indoption

_PRINTED_AS_CALLS = (
    tree.Aggref, tree.WindowFunc, tree.CoalesceExpr, tree.MinMaxExpr, tree.NullIfExpr, tree.SQLValueFunction,
    tree.JsonExpr,
)  # fmt: skip


def _qualified(session: Session, rel: Relation, pretty: bool) -> str:
    if pretty:
        return display_name(session, rel)
    return quote_qualified(rel.schema, rel.name)


def looks_like_function(expr: tree.Expr) -> bool:
    """Whether an expression is printed like a function call, so that it needs no parentheses (ruleutils'
    looks_like_function)."""
    if isinstance(expr, tree.FuncExpr):
        return expr.form in (CoercionForm.EXPLICIT_CALL, CoercionForm.SQL_SYNTAX)
    return isinstance(expr, _PRINTED_AS_CALLS)


def _key_expression(session: Session, expr: tree.Expr, table: Relation, pretty: bool) -> str:
    text = expression_text(session, expr, table, pretty)
    return text if looks_like_function(expr) else f"({text})"


def _collation(session: Session, collation: int, own: int) -> str:
    """` COLLATE "C"`, where it is not the default of the column or expression."""
    if not collation or collation == own:
        return ""
    text = collation_text(session, collation)
    return "" if text is None else f" COLLATE {text}"


def _opclass(oid: int, typid: int, options: list[str] | None = None) -> str:
    """` text_pattern_ops`, where it is not the type's default; its options are always printed."""
    opclass = opclass_by_oid(oid)
    usual = default_opclass(typid, opclass.method) if opclass is not None else None
    if opclass is None or (usual is not None and usual.oid == oid and not options):
        return ""
    return f" {quote_identifier(opclass.name)}" + (f" ({options_text(options)})" if options else "")


# --- indexes --------------------------------------------------------------------------------------------------------


def index_definition(session: Session, oid: int, column: int = 0, pretty: bool = False) -> str | None:
    """The CREATE INDEX statement of an index, or one of its keys (counted from 1)."""
    index = one(session, pg_index, indexrelid=oid)
    if index is None:
        return None
    own, table = relation(session, oid), relation(session, index.indrelid)
    keys = _index_keys(session, index, own, table, column, pretty)
    if column:
        return keys[column - 1] if 1 <= column <= len(keys) else ""
    method = next(m.name for m in access_methods if m.oid == own.access_method)
    only = "ONLY " if own.kind == "I" else ""
    text = f"CREATE {'UNIQUE ' if index.indisunique else ''}INDEX {quote_identifier(own.name)} ON {only}"
    text += f"{_qualified(session, table, pretty)} USING {method} ({', '.join(keys[: index.indnkeyatts])})"
    if len(keys) > index.indnkeyatts:
        text += f" INCLUDE ({', '.join(keys[index.indnkeyatts :])})"
    if index.indnullsnotdistinct:
        text += " NULLS NOT DISTINCT"
    if own.options:
        text += f" WITH ({options_text(own.options)})"
    if index.indpred is not None:
        text += f" WHERE {stored_expression_text(session, index.indpred, table.oid, pretty)}"
    return text


def _index_keys(
    session: Session, index: pg_index, own: Relation, table: Relation, column: int, pretty: bool
) -> list[str]:
    expressions = iter([stored.from_json(e, session) for e in index.indexprs or ()])
    keys = []
    for number, attnum in enumerate(index.indkey):
        if attnum:
            attribute = table.attribute_by_number(attnum)
            assert attribute is not None
            text, typid, collation = quote_identifier(attribute.name), attribute.type, attribute.collation
        else:
            expr = next(expressions)
            text, typid, collation = _key_expression(session, expr, table, pretty), expr.type, expr.collation
        if not column and number < index.indnkeyatts:
            text += _collation(session, index.indcollation[number], collation)
            text += _opclass(index.indclass[number], typid, own.attributes[number].options)
            text += _key_order(index.indoption[number]) if own.access_method == BTREE else ""
        keys.append(text)
    return keys


def _key_order(option: int) -> str:
    if option & DESCENDING:
        return " DESC" if option & NULLS_FIRST else " DESC NULLS LAST"
    return " NULLS FIRST" if option & NULLS_FIRST else ""


def options_text(options: list[str]) -> str:
    """`fillfactor='70'`, as flatten_reloptions prints stored options."""
    parts = []
    for option in options:
        name, _, value = option.partition("=")
        plain = value == quote_identifier(value)
        parts.append(f"{quote_identifier(name)}={value if plain else _literal(value)}")
    return ", ".join(parts)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# --- constraints ----------------------------------------------------------------------------------------------------

_ACTIONS = {"a": "", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


def constraint_definition(session: Session, oid: int, pretty: bool = False) -> str | None:
    row = one(session, pg_constraint, oid=oid)
    if row is None:
        return None
    if row.contypid:
        return _domain_constraint(session, row, pretty)
    table = relation(session, row.conrelid)
    if row.contype == "f":
        text = _foreign_key(session, row, table)
    elif row.contype in "pu":
        text = _key_constraint(session, row, table)
    elif row.contype == "t":
        text = "TRIGGER"  # no ALTER TABLE adds such a constraint
    elif row.contype == "n":
        text = f"NOT NULL {_columns(table, row.conkey)}"
    else:
        text = f"CHECK ({expression_text(session, stored.from_json(row.conbin, session), table, pretty)})"
    if row.contype in "cn" and row.connoinherit:
        text += " NO INHERIT"
    if row.condeferrable:
        text += " DEFERRABLE"
    if row.condeferred:
        text += " INITIALLY DEFERRED"
    if not row.conenforced:
        text += " NOT ENFORCED"
    elif not row.convalidated:
        text += " NOT VALID"
    return text


def _domain_constraint(session: Session, row: pg_constraint, pretty: bool) -> str:
    if row.contype == "n":
        return "NOT NULL"
    text = f"CHECK ({expression_text(session, stored.from_json(row.conbin, session), None, pretty)})"
    return text if row.convalidated else f"{text} NOT VALID"


def _columns(table: Relation, numbers: Sequence[int] | None, *, period: bool = False) -> str:
    names = [quote_identifier(table.attributes[number - 1].name) for number in numbers or ()]
    if period:
        names[-1] = f"PERIOD {names[-1]}"
    return ", ".join(names)


def _foreign_key(session: Session, row: pg_constraint, table: Relation) -> str:
    referenced = relation(session, row.confrelid)
    period = bool(row.conperiod)
    own, other = _columns(table, row.conkey, period=period), _columns(referenced, row.confkey, period=period)
    text = f"FOREIGN KEY ({own}) REFERENCES {display_name(session, referenced)}({other})"
    if row.confmatchtype == "f":
        text += " MATCH FULL"
    if row.confupdtype != "a":
        text += f" ON UPDATE {_ACTIONS[row.confupdtype]}"
    if row.confdeltype != "a":
        text += f" ON DELETE {_ACTIONS[row.confdeltype]}"
    if row.confdelsetcols:
        text += f" ({_columns(table, row.confdelsetcols)})"
    return text


def _key_constraint(session: Session, row: pg_constraint, table: Relation) -> str:
    index = one(session, pg_index, indexrelid=row.conindid)
    assert index is not None
    text = "PRIMARY KEY" if row.contype == "p" else "UNIQUE"
    if index.indnullsnotdistinct:
        text += " NULLS NOT DISTINCT"
    text += f" ({_columns(table, row.conkey)}{' WITHOUT OVERLAPS' if row.conperiod else ''})"
    included = index.indkey[index.indnkeyatts :]
    if included:
        text += f" INCLUDE ({_columns(table, included)})"
    own = relation(session, row.conindid)
    if own.options:
        text += f" WITH ({options_text(own.options)})"
    return text


# --- partitions and views -------------------------------------------------------------------------------------------

_STRATEGIES = {"l": "LIST", "r": "RANGE", "h": "HASH"}


def partition_key_definition(session: Session, relid: int) -> str | None:
    """`RANGE (a, lower(b))`"""
    key = partition_key(session, relid)
    if key is None:
        return None
    table = relation(session, relid)
    parts = [_partition_column(session, column, table) for column in key.columns]
    return f"{_STRATEGIES[key.strategy]} ({', '.join(parts)})"


def partition_key_columns(session: Session, relid: int) -> list[str]:
    """The columns and expressions of the key only, as pg_get_partkeydef_columns gives them."""
    key = partition_key(session, relid)
    assert key is not None
    table = relation(session, relid)
    return [
        quote_identifier(table.attributes[column.attnum - 1].name)
        if column.expr is None
        else _key_expression(session, column.expr, table, True)
        for column in key.columns
    ]


def _partition_column(session: Session, column: KeyColumn, table: Relation) -> str:
    if column.expr is None:
        text = quote_identifier(table.attributes[column.attnum - 1].name)
    else:
        text = _key_expression(session, column.expr, table, False)
    return text + _collation(session, column.collation, column.own_collation) + _opclass(column.opclass, column.type)


def partition_bound_text(session: Session, oid: int) -> str | None:
    """`FOR VALUES FROM (1) TO (10)`"""
    row = one(session, pg_class, oid=oid)
    if row is None or row.relpartbound is None:
        return None
    return bound_text(session, bound_from_json(row.relpartbound, session))


def view_definition(session: Session, oid: int, pretty: bool = False) -> str | None:
    row = one(session, pg_rewrite, ev_class=oid)
    view = relation_or_none(session, oid)
    if row is None or view is None:
        return None
    names = [a.name for a in view.columns]
    return query_text(session, stored.from_json(row.ev_action, session), pretty, names) + ";"


# --- type definition --------------------------------------------------------------------------------------------------


def types_in_order(session: Session, oids: Iterable[int]) -> list[pg_type]:
    """The user's types, each after those that it is made of, without the arrays over them."""
    ordered: dict[int, pg_type] = {}

    def place(oid: int) -> None:
        typoid = session.type_of(oid)
        if not isinstance(typoid, UserType) or oid in ordered:
            return
        of_range = typoid.range
        if of_range is not None and of_range.multirange == oid:
            place(of_range.oid)  # a multirange comes with its range
            return
        for part in reversed(typoid.types.closure(typoid)[1:]):
            if of_range is None or part.row.oid != of_range.multirange:
                place(part.row.oid)
        row = type_row(session, oid)
        if row is not None and not row.typelem:
            ordered[oid] = row

    for oid in oids:
        place(int(oid))
    return list(ordered.values())


def type_definition_name(session: Session, row: pg_type) -> str:
    return quote_qualified(schema_name(session, row.typnamespace), row.typname)


def create_type(session: Session, row: pg_type) -> str:
    """The CREATE statement of a type, with those validated constraints of a domain that call no user's functions, which
    may be made later."""
    name = type_definition_name(session, row)
    if row.typtype == "e":
        labels = [f"\n    {quote_literal(label.enumlabel)}" for label in labels_of(session, row.oid)]
        return f"CREATE TYPE {name} AS ENUM ({','.join(labels)}\n);"
    if row.typtype == "c":
        return f"CREATE TYPE {name} AS ({','.join(attribute_definitions(session, row).values())}\n);"
    if row.typtype == "r":
        return _create_range(session, row)
    checks = [check for check in checks_of(session, row) if check.convalidated and not calls_routines(session, check)]
    return create_domain(session, row, default_of_domain(session, row), checks)


def _create_range(session: Session, row: pg_type) -> str:
    """CREATE TYPE of a range as pg_dump words it, with those options that are not the default."""
    range_row = range_by_oid(session.type_of(row.oid))
    assert range_row is not None
    multirange = type_row(session, range_row.multirange)
    assert multirange is not None
    parts = [
        f"subtype = {type_text(session, session.type_of(int(range_row.subtype)))}",
        f"multirange_type_name = {type_definition_name(session, multirange)}",
    ]
    opclass = opclass_by_oid(range_row.subopc)
    if opclass is not None and not opclass.default:
        parts.append(f"subtype_opclass = pg_catalog.{quote_identifier(opclass.name)}")
    if range_row.collation and range_row.collation != collation(range_row.subtype):
        parts.append(f"collation = {qualified_collation(session, range_row.collation)}")
    if range_row.subdiff:
        parts.append(f"subtype_diff = {session.object_name(REGPROC, range_row.subdiff)}")
    listed = ",\n    ".join(parts)
    return f"CREATE TYPE {type_definition_name(session, row)} AS RANGE (\n    {listed}\n);"


def attribute_definitions(session: Session, row: pg_type) -> dict[str, str]:
    """Each attribute of a composite type, as in its CREATE TYPE."""
    columns = {}
    for column in relation(session, row.typrelid).columns:
        text = f"\n\t{quote_identifier(column.name)} {type_text(session, column.type, column.typmod)}"
        columns[column.name] = text + collate_clause(session, column.type, column.collation)
    return columns


def create_domain(session: Session, row: pg_type, default: str | None, checks: Iterable[pg_constraint]) -> str:
    text = f"CREATE DOMAIN {type_definition_name(session, row)} AS {base_of_domain(session, row)}"
    text += (" NOT NULL" if row.typnotnull else "") + (f" DEFAULT {default}" if default is not None else "")
    for check in checks:
        text += f"\n\tCONSTRAINT {quote_identifier(check.conname)} {constraint_definition(session, check.oid)}"
    return text + ";"


def add_check(session: Session, domain: str, check: pg_constraint) -> str:
    definition = constraint_definition(session, check.oid)
    return f"ALTER DOMAIN {domain} ADD CONSTRAINT {quote_identifier(check.conname)} {definition};"


def base_of_domain(session: Session, row: pg_type) -> str:
    """The base type and the collation of a domain."""
    base = session.type_of(row.typbasetype)
    return type_text(session, base, row.typtypmod) + collate_clause(session, base, row.typcollation)


def default_of_domain(session: Session, row: pg_type) -> str | None:
    if row.typdefaultbin is None:
        return None
    return expression_text(session, stored.from_json(row.typdefaultbin, session))


def checks_of(session: Session, row: pg_type) -> list[pg_constraint]:
    return [constraint for constraint in domain_constraints(session, row.oid) if constraint.contype == "c"]


def calls_routines(session: Session, check: pg_constraint) -> bool:
    return any(
        row.refclassid in (PG_PROC, PG_OPERATOR)
        for row in dependencies_of(session, ObjectAddress(PG_CONSTRAINT, check.oid))
    )


def collate_clause(session: Session, typoid: int, given: int) -> str:
    """` COLLATE pg_catalog."C"`, where it is not the type's own."""
    kind = type_by_oid(typoid)
    if not given or kind is None or kind.collation == given:
        return ""
    return f" COLLATE {qualified_collation(session, given)}"
