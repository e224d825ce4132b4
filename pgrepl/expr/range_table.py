"""Range table entries of relations, and the system columns of tables."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.tree import Column, Rte, RteKind, Var
from pgrepl.types import oids

# name: attnum, type
SYSTEM_COLUMNS: dict[str, tuple[int, int]] = {
    "ctid": (-1, oids.TID),
    "xmin": (-2, oids.XID),
    "cmin": (-3, oids.CID),
    "xmax": (-4, oids.XID),
    "cmax": (-5, oids.CID),
    "tableoid": (-6, oids.OID),
}
SYSTEM_COLUMN_NAMES = {attnum: name for name, (attnum, _) in SYSTEM_COLUMNS.items()}
TABLEOID = -6
XMAX = -4


def relation_rte(
    relation: Relation,
    alias: str | None = None,
    alias_columns: tuple[str, ...] = (),
    inh: bool = True,
) -> Rte:
    """A range table entry of a relation, its columns renamed by an alias (buildRelationAliases)."""
    name = alias if alias is not None else relation.name
    names = list(alias_columns)
    columns = []
    for attribute in relation.attributes:
        if attribute.dropped:
            columns.append(Column("", 0, dropped=True))
            continue
        column_name = names.pop(0) if names else attribute.name
        column_collation = typefacts.collation(attribute.type) if relation.is_system else attribute.collation
        columns.append(Column(column_name, attribute.type, attribute.typmod, column_collation))
    if names:
        live = sum(not column.dropped for column in columns)
        raise PgError(
            "42P10", f'table "{name}" has {live} columns available but {len(alias_columns)} columns specified'
        )
    return Rte(
        RteKind.RELATION,
        name,
        tuple(columns),
        alias=alias,
        alias_columns=alias_columns,
        relid=relation.oid,
        relkind=relation.kind,
        inh=inh,
    )


def var_of(column: Column, attnum: int) -> Var:
    """A column of a query's only relation."""
    return Var(column.type, typmod=column.typmod, collation=column.collation, varno=1, attnum=attnum)
