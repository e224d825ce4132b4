"""The SQL text of catalog objects: pg_get_indexdef, pg_get_constraintdef, pg_get_partkeydef, pg_get_viewdef …

As ruleutils.c does. `pretty` leaves out needless parentheses, and the schema of relations that the search path finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.collations import collation_text
from pgrepl.catalog.relation import Relation, display_name, relation, relation_or_none
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one
from pgrepl.catalog.tables import pg_class, pg_constraint, pg_index, pg_rewrite
from pgrepl.expr import stored, tree
from pgrepl.expr.deparse import expression_text, query_text, stored_expression_text
from pgrepl.expr.opclasses import BTREE, default_opclass
from pgrepl.expr.partition import KeyColumn, bound_from_json, bound_text, partition_key
from pgrepl.sql.nodes import CoercionForm
from pgrepl.sql.quote import quote_identifier, quote_qualified
from pgrepl.types.builtin import access_methods, opclass_by_oid

DESCENDING, NULLS_FIRST = 1, 2  # bits of pg_index.indoption

_PRINTED_AS_CALLS = (
    tree.Aggref, tree.WindowFunc, tree.CoalesceExpr, tree.MinMaxExpr, tree.NullIfExpr, tree.SQLValueFunction,
    tree.JsonExpr,
)  # fmt: skip


def _qualified(session: Session, found: Relation, pretty: bool) -> str:
    if pretty:
        return display_name(session, found)
    return quote_qualified(found.schema, found.name)


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
    found = opclass_by_oid(oid)
    usual = default_opclass(typid, found.method) if found is not None else None
    if found is None or (usual is not None and usual.oid == oid and not options):
        return ""
    return f" {quote_identifier(found.name)}" + (f" ({options_text(options)})" if options else "")


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
    else:
        text = f"CHECK ({expression_text(session, stored.from_json(row.conbin, session), table, pretty)})"
    if row.contype == "c" and row.connoinherit:
        text += " NO INHERIT"
    if row.condeferrable:
        text += " DEFERRABLE"
    if row.condeferred:
        text += " INITIALLY DEFERRED"
    if not row.convalidated:
        text += " NOT VALID"
    return text


def _domain_constraint(session: Session, row: pg_constraint, pretty: bool) -> str:
    if row.contype == "n":
        return "NOT NULL"
    text = f"CHECK ({expression_text(session, stored.from_json(row.conbin, session), None, pretty)})"
    return text if row.convalidated else f"{text} NOT VALID"


def _columns(table: Relation, numbers: Sequence[int] | None) -> str:
    return ", ".join(quote_identifier(table.attributes[number - 1].name) for number in numbers or ())


def _foreign_key(session: Session, row: pg_constraint, table: Relation) -> str:
    referenced = relation(session, row.confrelid)
    text = f"FOREIGN KEY ({_columns(table, row.conkey)}) REFERENCES {display_name(session, referenced)}"
    text += f"({_columns(referenced, row.confkey)})"
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
    text += f" ({_columns(table, row.conkey)})"
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
