"""The SQL statements that PostgreSQL's triggers of foreign keys run, which are the CONTEXT of an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_row
from pgrepl.expr.analyse import lookup as typefacts
from pgrepl.expr.analyse.sorting import EQUAL, family_member
from pgrepl.expr.catalog_trees import GIST, index_info
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.rows.foreign.key import CASCADE, SET_NULL, ForeignKey
from pgrepl.sql.keywords import quote_always, quote_identifier
from pgrepl.types.builtin import opclass_by_oid, operator_by_oid, type_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@contextmanager
def in_statement(text_of: Callable[..., str], session: Session, key: ForeignKey, *rest: Any) -> Iterator[None]:
    """Add the CONTEXT of the statement that a function of this module gives to an error."""
    try:
        yield
    except PgError as error:
        text = f'SQL statement "{text_of(session, key, *rest)}"'
        context = error.report.context
        error.report = replace(error.report, context=text if context is None else f"{context}\n{text}")
        raise


def check_statement(session: Session, key: ForeignKey) -> str:
    """The query for a referenced row (RI_FKey_check)."""
    columns = _compared(session, key)
    where = " AND ".join(
        f"{column.referenced} {column.operator} ${n}{column.cast}" for n, column in enumerate(columns, 1)
    )
    rows = f"FROM {_table(relation(session, key.referenced))} x WHERE {where} FOR KEY SHARE OF x"
    if not key.period:
        return f"SELECT 1 {rows}"
    last, parameter = columns[-1], f"${len(columns)}{columns[-1].cast}"
    within = f"{parameter} OPERATOR(pg_catalog.<@) pg_catalog.range_agg(x1.r)"
    return f"SELECT 1 FROM (SELECT {last.name} AS r {rows}) x1 HAVING   {within}"


def restrict_statement(session: Session, key: ForeignKey) -> str:
    """The query for a referencing row (ri_restrict)."""
    columns = _compared(session, key)
    table = _table(relation(session, key.referencing))
    where = _conditions(columns, 1)
    if key.period:
        last, parameter = columns[-1], f"${len(columns)}"
        there = " AND ".join(
            f"${n}{column.other_cast} {column.operator} {column.referenced}" for n, column in enumerate(columns, 1)
        )
        within = (
            f"(SELECT pg_catalog.range_agg(r) FROM (SELECT y.{last.name} r FROM"
            f" {_table(relation(session, key.referenced))} y WHERE {there} FOR KEY SHARE OF y) y2)"
        )
        common = f"(  {last.referencing} OPERATOR(pg_catalog.*) {parameter}{last.cast}){last.cast}"
        where += f" AND NOT coalesce(  {common} OPERATOR(pg_catalog.<@) {within}, false)"
    return f"SELECT 1 FROM {table} x WHERE {where} FOR KEY SHARE OF x"


def action_statement(
    session: Session, key: ForeignKey, rel: Relation, action: str, delete: bool, columns: Sequence[int]
) -> str:
    """The statement that changes the referencing rows."""
    table, compared = _table(rel), _compared(session, key)
    if delete and action == CASCADE:
        return f"DELETE FROM {table} WHERE {_conditions(compared, 1)}"
    names = [quote_always(rel.attributes[number - 1].name) for number in columns]
    if action == CASCADE:
        sets = [f"{name} = ${number}" for number, name in enumerate(names, 1)]
        return f"UPDATE {table} SET {', '.join(sets)} WHERE {_conditions(compared, len(names) + 1)}"
    word = "NULL" if action == SET_NULL else "DEFAULT"
    sets = [f"{name} = {word}" for name in names]
    return f"UPDATE {table} SET {', '.join(sets)} WHERE {_conditions(compared, 1)}"


@frozen
class Compared:
    """One pair of columns of a foreign key, as ri_GenerateQual compares them."""

    name: str  # of the referenced column
    referenced: str  # with its cast
    referencing: str
    operator: str
    other_cast: str  # of a value of the referenced column's type
    cast: str  # of a value of the referencing column's type


def _conditions(columns: Sequence[Compared], first: int) -> str:
    """The conditions on the referencing rows."""
    return " AND ".join(
        f"${n}{column.other_cast} {column.operator} {column.referencing}" for n, column in enumerate(columns, first)
    )


def _compared(session: Session, key: ForeignKey) -> list[Compared]:
    own, other = relation(session, key.referencing), relation(session, key.referenced)
    info = index_info(session, constraint_row(session, key.oid).conindid)
    classes = dict(zip(info.columns, info.opclasses, strict=False))
    comparisons = []
    for number, own_number in zip(key.referenced_columns, key.columns, strict=True):
        there, here = other.attributes[number - 1], own.attributes[own_number - 1]
        is_period = key.period and number == key.referenced_columns[-1]
        operator, left, right = _operator(classes[number], here.type, is_period=is_period)
        name, own_name = quote_always(there.name), quote_always(here.name)
        other_cast, cast = _cast(there.type, left), _cast(here.type, right)
        text = f"OPERATOR(pg_catalog.{operator})"
        comparisons.append(Compared(name, name + other_cast, own_name + cast, text, other_cast, cast))
    return comparisons


def _operator(opclass_oid: int, own: int, *, is_period: bool) -> tuple[str, int, int]:
    """The operator between a referenced and a referencing column, as ATAddForeignKeyConstraint chooses it, and its
    types."""
    opclass = opclass_by_oid(opclass_oid)
    assert opclass is not None
    if opclass.method == GIST:
        return "&&" if is_period else "=", opclass.intype, opclass.intype
    member = family_member(opclass.family, opclass.intype, typefacts.base(own), EQUAL)
    operator = operator_by_oid(member or family_member(opclass.family, opclass.intype, opclass.intype, EQUAL))
    assert operator is not None
    return operator.name, operator.left, operator.right


def _table(rel: Relation) -> str:
    return f"{'' if rel.kind == 'p' else 'ONLY '}{quote_always(rel.schema)}.{quote_always(rel.name)}"


def _cast(source: int, target: int) -> str:
    kind = type_by_oid(target)
    return "" if source == target or kind is None else f"::pg_catalog.{quote_identifier(kind.name)}"
