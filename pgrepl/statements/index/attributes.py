"""The specification of an index: columns, expressions, types, collations, operator classes, order (ComputeIndexAttrs);
and an index like another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from pgrepl.catalog.facts.namespace import explicit_schema
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_of_index, constraint_row
from pgrepl.catalog.session.session import Session
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import comparing_collation, is_binary_coercible
from pgrepl.expr.analyse.sorting import default_opclass
from pgrepl.expr.catalog_trees import IndexInfo, index_info, mapped
from pgrepl.expr.rewrite.inline import is_immutable
from pgrepl.expr.tree import CollateExpr, Expr, Var
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import DefElem, NullsOrder, SortDir
from pgrepl.statements.table import storage
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, check_type
from pgrepl.types import oids
from pgrepl.types.builtin import AccessMethod, OpClass, access_method_by_name, access_methods, opclass_by_oid, opclasses
from pgrepl.types.names import format_type


@frozen
class Abilities:
    """The abilities of an access method, as in its IndexAmRoutine."""

    order: bool = False
    unique: bool = False
    multicolumn: bool = False
    include: bool = False


ABILITIES = {
    "btree": Abilities(order=True, unique=True, multicolumn=True, include=True),
    "hash": Abilities(),
    "gist": Abilities(multicolumn=True, include=True),
    "gin": Abilities(multicolumn=True),
    "spgist": Abilities(include=True),
    "brin": Abilities(multicolumn=True),
}


def index_access_method(name: str) -> AccessMethod:
    method = access_method_by_name(name)
    if method is None:
        raise PgError("42704", f'access method "{name}" does not exist')
    if method.type != "i":
        raise PgError("55000", f'access method "{name}" is not of type INDEX')
    return method


@lru_cache(maxsize=512)
def default_opclass_oid(type_: int, method: int) -> int:
    """The operator class a type has by default; 0: none."""
    opclass = default_opclass(type_, method)
    return opclass.oid if opclass is not None else 0


def resolve_opclass(session: Session, names: tuple[str, ...], type_: int, method: AccessMethod) -> int:
    """The named operator class, or the default one, as ResolveOpClass does."""
    if not names:
        oid = default_opclass_oid(type_, method.oid)
        if not oid:
            raise PgError(
                "42704",
                f'data type {format_type(type_)} has no default operator class for access method "{method.name}"',
                hint="You must specify an operator class for the index or define a default operator class for the "
                "data type.",
            )
        return oid
    opclass = find_opclass(session, names, method)
    if not is_binary_coercible(type_, opclass.intype):
        raise PgError("42804", f'operator class "{".".join(names)}" does not accept data type {format_type(type_)}')
    return opclass.oid


def find_opclass(session: Session, names: tuple[str, ...], method: AccessMethod) -> OpClass:
    if len(names) > 1:
        explicit_schema(session, names[-2])
    if len(names) == 1 or (len(names) == 2 and names[0] == "pg_catalog"):
        for opclass in opclasses:
            if opclass.method == method.oid and opclass.name == names[-1]:
                return opclass
    raise PgError("42704", f'operator class "{".".join(names)}" does not exist for access method "{method.name}"')


# --- spec -------------------------------------------------------------------------------------------------------------


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
    without_overlaps: bool = False
    cloned: bool = False
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


# --- attributes -------------------------------------------------------------------------------------------------------


DESC, NULLS_FIRST = 1, 2  # bits of indoption
BTREE = 403


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
    columns = IndexColumns()
    for key in spec.keys:
        collation = _add_column(session, rel, spec, key, columns)
        equal = spec.without_overlaps and not default_opclass_oid(columns.types[-1], method.oid)
        _add_key(session, key, columns, method, collation, equal=equal)
    for key in spec.including:
        if key.name is None:
            raise PgError("0A000", "expressions are not supported in included columns")
        _add_column(session, rel, spec, key, columns)
        _refuse_key_options(key)
        columns.collations.append(0)
        columns.opclasses.append(0)
        columns.ordering.append(0)
        columns.stored_types.append(columns.types[-1])
    count = len(spec.keys)
    del columns.collations[len(columns.attnums) :]
    columns.opclasses = columns.opclasses[:count]
    columns.ordering = columns.ordering[:count]
    return columns


def _add_column(session: Session, rel: Relation, spec: IndexSpec, key: IndexKey, columns: IndexColumns) -> int:
    """Add a column or expression; returns its own collation."""
    if key.name is not None:
        attribute = rel.attribute(key.name)
        if attribute is None:
            if key.name in SYSTEM_COLUMNS:
                columns.attnums.append(SYSTEM_COLUMNS[key.name])
                columns.types.append(oids.TID if key.name == "ctid" else oids.OID)
                columns.typmods.append(-1)
                return 0
            what = " named in key" if spec.constraint else ""
            raise PgError("42703", f'column "{key.name}"{what} does not exist')
        columns.attnums.append(attribute.num)
        columns.types.append(attribute.type)
        columns.typmods.append(attribute.typmod)
        return attribute.collation
    expr = key.typed
    assert expr is not None
    type_, collation, typmod = expr.type, expr.collation, expr.typmod
    while isinstance(expr, CollateExpr):
        assert expr.arg is not None
        expr = expr.arg
    if isinstance(expr, Var) and expr.attnum != 0:
        columns.attnums.append(expr.attnum)
    else:
        columns.attnums.append(0)
        columns.exprs.append(expr)
        if not is_immutable(session, expr):
            raise PgError("42P17", "functions in index expression must be marked IMMUTABLE")
    columns.types.append(type_)
    columns.typmods.append(typmod)
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


def _add_key(
    session: Session, key: IndexKey, columns: IndexColumns, method: AccessMethod, collation: int, *, equal: bool
) -> None:
    """`equal`: of a key WITHOUT OVERLAPS, a column whose type GiST has no operators for but with btree_gist."""
    type_ = columns.types[-1]
    if key.collation_oid:
        collation = key.collation_oid
    elif key.collation:
        collation = comparing_collation(session, key.collation)
    if lookup.is_collatable(type_):
        if not collation:
            raise PgError(
                "42P22",
                "could not determine which collation to use for index expression",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
    elif collation:
        raise PgError("42804", f"collations are not supported by type {lookup.type_text(session, type_)}")
    columns.collations.append(collation)
    opclass = key.opclass_oid or (default_opclass_oid(type_, BTREE) if equal else 0)
    opclass = opclass or resolve_opclass(session, key.opclass, type_, method)
    columns.opclasses.append(opclass)
    columns.ordering.append(_ordering(key, method))
    columns.options.append(_opclass_options(key, opclass))
    if columns.attnums[-1] == 0:
        check_type(session, key.column_name or "expr", type_, collation)
    columns.stored_types.append(_stored_type(opclass, type_, method))


def _opclass_options(key: IndexKey, opclass: int) -> list[str]:
    """The options of an operator class; it takes none (index_opclass_options)."""
    if not key.opclass_options:
        return []
    row = opclass_by_oid(opclass)
    name = row.name if row is not None else ""
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
    row = opclass_by_oid(opclass)
    if row is None or not row.keytype:
        return type_
    if row.keytype == oids.ANYELEMENT and row.intype == oids.ANYARRAY:
        return lookup.base_element(type_)
    return row.keytype


# --- clone ------------------------------------------------------------------------------------------------------------


CLONE_DESC, CLONE_NULLS_FIRST = 1, 2


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
        without_overlaps=info.is_temporal,
        cloned=True,
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
        descending = bool(info.ordering[place] & CLONE_DESC)
        first = bool(info.ordering[place] & CLONE_NULLS_FIRST)
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
