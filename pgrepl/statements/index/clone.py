"""An index like another one, for a partition or for CREATE TABLE LIKE (PostgreSQL's generateClonedIndexStmt)."""

from __future__ import annotations

from pgrepl.catalog.constraint import constraint_of_index, constraint_row
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.expr.attmap import mapped
from pgrepl.expr.index_info import IndexInfo, index_info
from pgrepl.expr.tree import Expr
from pgrepl.sql.nodes import DefElem, NullsOrder, SortDir
from pgrepl.statements.index.spec import IndexKey, IndexSpec
from pgrepl.types.builtin import access_methods

DESC, NULLS_FIRST = 1, 2


def cloned_spec(
    session: Session, index: int, numbers: dict[int, int], *, comment: str | None = None
) -> tuple[IndexSpec, int]:
    """The spec of such an index of another table, and the constraint of the source, 0 if it has none. `numbers` are the
    other table's columns for those of the source's table."""
    info = index_info(session, index)
    constraint = constraint_of_index(session, index)
    row = constraint_row(session, constraint) if constraint else None
    detail = f'Index "{info.name}" contains a whole-row table reference.'
    keys = _keys(session, info, numbers, detail)
    method = access_methods.get(info.method)
    spec = IndexSpec(
        name=None,
        keys=keys[: info.key_count],
        including=keys[info.key_count :],
        method=method.name if method is not None else "btree",
        unique=info.unique,
        primary=info.primary,
        constraint=bool(constraint),
        deferrable=bool(row.condeferrable) if row is not None else False,
        initially_deferred=bool(row.condeferred) if row is not None else False,
        nulls_not_distinct=info.nulls_not_distinct,
        typed_where=None if info.predicate is None else mapped(info.predicate, numbers, detail),
        options=tuple(_option(text) for text in info.options),
        comment=comment,
    )
    return spec, constraint


def _option(text: str) -> DefElem:
    name, _, value = text.partition("=")
    return DefElem(name, value)


def _keys(session: Session, info: IndexInfo, numbers: dict[int, int], detail: str) -> tuple[IndexKey, ...]:
    source = relation(session, info.table)
    own = relation(session, info.oid)
    exprs = iter(info.exprs)
    keys: list[IndexKey] = []
    for place, attnum in enumerate(info.columns):
        name: str | None = None
        typed: Expr | None = None
        if attnum:
            attribute = source.attribute_by_number(attnum)
            assert attribute is not None
            name = attribute.name
        else:
            typed = mapped(next(exprs), numbers, detail)
        if place >= info.key_count:
            keys.append(IndexKey(name=name, column_name=info.column_names[place]))
            continue
        descending = bool(info.ordering[place] & DESC)
        first = bool(info.ordering[place] & NULLS_FIRST)
        keys.append(
            IndexKey(
                name=name,
                typed=typed,
                column_name=info.column_names[place],
                collation_oid=info.collations[place],
                opclass_oid=info.opclasses[place],
                opclass_options=tuple(_option(text) for text in own.attributes[place].options or ()),
                dir=SortDir.DESC if descending else SortDir.DEFAULT,
                nulls=NullsOrder.DEFAULT if descending == first else NullsOrder.FIRST if first else NullsOrder.LAST,
            )
        )
    return tuple(keys)
