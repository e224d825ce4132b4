"""The specification of a new index, from CREATE INDEX, a constraint or the index of a partition's parent."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.expr.tree import Expr
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import DefElem, NullsOrder, SortDir


@frozen
class IndexKey:
    """A column by name, or an expression."""

    name: str | None = None
    typed: Expr | None = None
    column_name: str | None = None  # what the index's column is called, if that is decided
    collation: tuple[str, ...] = ()
    collation_oid: int = 0  # of a copied index, instead of a name
    opclass: tuple[str, ...] = ()
    opclass_oid: int = 0  # likewise
    opclass_options: tuple[DefElem, ...] = ()
    dir: SortDir = SortDir.DEFAULT
    nulls: NullsOrder = NullsOrder.DEFAULT


@frozen
class IndexSpec:
    name: str | None
    keys: tuple[IndexKey, ...]
    including: tuple[IndexKey, ...] = ()
    method: str = "btree"
    unique: bool = False
    primary: bool = False
    constraint: bool = False
    deferrable: bool = False
    initially_deferred: bool = False
    nulls_not_distinct: bool = False
    typed_where: Expr | None = None
    options: tuple[DefElem, ...] = ()
    tablespace: str | None = None
    recurse: bool = True
    if_not_exists: bool = False
    concurrently: bool = False
    existing: int = 0  # ADD CONSTRAINT … USING INDEX
    comment: str | None = None

    def same_as(self, other: IndexSpec) -> bool:
        """Whether one index can serve both constraints."""
        return replace(self, name=None, primary=False, unique=True, options=(), tablespace=None) == replace(
            other, name=None, primary=False, unique=True, options=(), tablespace=None
        )
