"""The columns and expressions of an index: numbers, types, collations, operator classes, order (ComputeIndexAttrs)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.inline import is_immutable
from pgrepl.expr.tree import CollateExpr, Expr, Var
from pgrepl.expr.typenames import comparing_collation
from pgrepl.sql.nodes import NullsOrder, SortDir
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.index.opclass import ABILITIES, resolve_opclass
from pgrepl.statements.index.spec import IndexKey, IndexSpec
from pgrepl.statements.table import storage
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, check_type
from pgrepl.types import oids
from pgrepl.types.builtin import AccessMethod, opclass_by_oid

DESC, NULLS_FIRST = 1, 2  # bits of indoption


@dataclass(slots=True)
class IndexColumns:
    """Keys first, then INCLUDE columns; collations, opclasses and ordering have an entry for each key."""

    attnums: list[int] = field(default_factory=list)  # 0: an expression
    exprs: list[Expr] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    typmods: list[int] = field(default_factory=list)
    stored_types: list[int] = field(default_factory=list)
    collations: list[int] = field(default_factory=list)
    opclasses: list[int] = field(default_factory=list)
    ordering: list[int] = field(default_factory=list)
    options: list[list[str]] = field(default_factory=list)  # of the operator classes


def index_columns(session: Session, rel: Relation, spec: IndexSpec, method: AccessMethod) -> IndexColumns:
    found = IndexColumns()
    for key in spec.keys:
        collation = _add_column(session, rel, spec, key, found)
        _add_key(session, key, found, method, collation)
    for key in spec.including:
        if key.name is None:
            raise PgError("0A000", "expressions are not supported in included columns")
        _add_column(session, rel, spec, key, found)
        _refuse_key_options(key)
        found.collations.append(0)
        found.opclasses.append(0)
        found.ordering.append(0)
        found.stored_types.append(found.types[-1])
    count = len(spec.keys)
    del found.collations[len(found.attnums) :]
    found.opclasses = found.opclasses[:count]
    found.ordering = found.ordering[:count]
    return found


def _add_column(session: Session, rel: Relation, spec: IndexSpec, key: IndexKey, found: IndexColumns) -> int:
    """Add a column or expression; returns its own collation."""
    if key.name is not None:
        attribute = rel.attribute(key.name)
        if attribute is None:
            if key.name in SYSTEM_COLUMNS:
                found.attnums.append(SYSTEM_COLUMNS[key.name])
                found.types.append(oids.TID if key.name == "ctid" else oids.OID)
                found.typmods.append(-1)
                return 0
            what = " named in key" if spec.constraint else ""
            raise PgError("42703", f'column "{key.name}"{what} does not exist')
        found.attnums.append(attribute.num)
        found.types.append(attribute.type)
        found.typmods.append(attribute.typmod)
        return attribute.collation
    expr = key.typed
    assert expr is not None
    type_, collation, typmod = expr.type, expr.collation, expr.typmod
    while isinstance(expr, CollateExpr):
        assert expr.arg is not None
        expr = expr.arg
    if isinstance(expr, Var) and expr.attnum != 0:
        found.attnums.append(expr.attnum)
    else:
        found.attnums.append(0)
        found.exprs.append(expr)
        if not is_immutable(session, expr):
            raise PgError("42P17", "functions in index expression must be marked IMMUTABLE")
    found.types.append(type_)
    found.typmods.append(typmod)
    return collation


def _refuse_key_options(key: IndexKey) -> None:
    refused = (
        (bool(key.collation), "a collation"),
        (bool(key.opclass), "an operator class"),
        (key.dir is not SortDir.DEFAULT, "ASC/DESC options"),
        (key.nulls is not NullsOrder.DEFAULT, "NULLS FIRST/LAST options"),
    )
    for given, what in refused:
        if given:
            raise PgError("42P17", f"including column does not support {what}")


def _add_key(session: Session, key: IndexKey, found: IndexColumns, method: AccessMethod, collation: int) -> None:
    type_ = found.types[-1]
    if key.collation_oid:
        collation = key.collation_oid
    elif key.collation:
        collation = comparing_collation(session, key.collation)
    if typefacts.is_collatable(type_):
        if not collation:
            raise PgError(
                "42P22",
                "could not determine which collation to use for index expression",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
    elif collation:
        raise PgError("42804", f"collations are not supported by type {typefacts.type_text(session, type_)}")
    found.collations.append(collation)
    opclass = key.opclass_oid or resolve_opclass(session, key.opclass, type_, method)
    found.opclasses.append(opclass)
    found.ordering.append(_ordering(key, method))
    found.options.append(_opclass_options(key, opclass))
    if found.attnums[-1] == 0:
        check_type(session, key.column_name or "expr", type_, collation)
    found.stored_types.append(_stored_type(opclass, type_, method))


def _opclass_options(key: IndexKey, opclass: int) -> list[str]:
    """As index_opclass_options does."""
    if not key.opclass_options:
        return []
    found = opclass_by_oid(opclass)
    name = found.name if found is not None else ""
    texts = storage.transform(None, key.opclass_options)
    kind = next((kind for kind in storage.OPCLASSES if name.endswith(kind)), None)
    if kind is None:
        raise PgError("22023", f"operator class {quote_identifier(name)} has no options")
    storage.validate(texts, kind)
    return texts


def _ordering(key: IndexKey, method: AccessMethod) -> int:
    if not ABILITIES[method.name].order:
        for given, what in (
            (key.dir is not SortDir.DEFAULT, "ASC/DESC"),
            (key.nulls is not NullsOrder.DEFAULT, "NULLS FIRST/LAST"),
        ):
            if given:
                raise PgError("0A000", f'access method "{method.name}" does not support {what} options')
        return 0
    descending = key.dir is SortDir.DESC
    first = key.nulls is NullsOrder.FIRST or (key.nulls is NullsOrder.DEFAULT and descending)
    return (DESC if descending else 0) | (NULLS_FIRST if first else 0)


def _stored_type(opclass: int, type_: int, method: AccessMethod) -> int:
    """The type that the index stores: hashes in a hash index, else opckeytype, if any, or the type of the value."""
    if method.name == "hash":
        return oids.INT4
    found = opclass_by_oid(opclass)
    if found is None or not found.keytype:
        return type_
    if found.keytype == oids.ANYELEMENT and found.intype == oids.ANYARRAY:
        return typefacts.base_element(type_)
    return found.keytype
