"""The elements of CREATE TABLE and behind ADD, transformed (CreateStmtContext); LIKE.

They are collected as objects to create before the table (sequences), parts of it (columns, CHECKs), and objects to
add afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog.facts.acl import check_table_privilege
from pgrepl.catalog.facts.objects import comment_on, put_comment
from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_named, constraints_of, not_nulls, not_supported
from pgrepl.catalog.facts.sequences import identity_sequence
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import type_of_name
from pgrepl.expr.catalog_trees import attnum_map, defaults_of, index_infos, mapped
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql.keywords import quote_qualified
from pgrepl.sql.location import refuse_newer, transform_constraint_attrs
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    ColumnDef,
    Constraint,
    ConstrType,
    FuncCall,
    TableLikeClause,
    TypeCast,
    TypeName,
)
from pgrepl.statements.index.attributes import IndexKey, IndexSpec, cloned_spec
from pgrepl.statements.index.define import define_index
from pgrepl.statements.index.store import usable_for_constraint
from pgrepl.statements.sequence import as_options, sequence_of
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, NewColumn, column_of_type, new_column
from pgrepl.statements.table.constraints import (
    Check,
    Clauses,
    ColumnComment,
    ColumnSequence,
    Like,
    add_checks,
    add_sequence,
)
from pgrepl.statements.table.heap import remove_default, store_default
from pgrepl.types.builtin import type_by_oid


def add_like(clauses: Clauses, clause: TableLikeClause) -> None:
    """The columns, with NOT NULL and, if they are included, identity, storage and comments
    (transformTableLikeClause)."""
    session, options = clauses.session, clause.options
    try:
        source = find_relation(session, clause.relation)
        if source.kind not in ("r", "v", "m", "c", "f", "p"):
            raise PgError(
                "42809", f'relation "{source.name}" is invalid in LIKE clause', detail=not_supported(source.kind)
            )
    except PgError as error:
        raise error.at(clause.relation.location) from None
    check_table_privilege(session, source, "SELECT")
    named = not_nulls(session, source.oid)
    for attribute in source.columns:
        column = column_of_type(
            attribute.name,
            attribute.type,
            attribute.typmod,
            attribute.collation,
            ndims=attribute.ndims,
            not_null=attribute.notnull,
        )
        clauses.columns.append(column)
        if clauses.session.settings.release >= 18 and attribute.notnull and source.kind in "rpf":
            _add_not_null_like(clauses, attribute.name, named.get(attribute.num), comments="comments" in options)
        if attribute.has_default and attribute.generated and "generated" in options:
            column.generated = attribute.generated
        if attribute.identity and "identity" in options:
            like = sequence_of(session, identity_sequence(session, source.oid, attribute.num))
            add_sequence(clauses, column, None, as_options(like), identity=True)
            column.identity = attribute.identity
        if "storage" in options:
            column.storage = attribute.storage
        if "compression" in options:
            column.compression = attribute.compression
        if "comments" in options:
            text = comment_on(session, PG_CLASS, source.oid, attribute.num)
            if text is not None:
                clauses.comments.append(ColumnComment(attribute.name, text))
    if options & {"defaults", "generated", "constraints", "indexes", "statistics"}:
        clauses.likes.append(Like(source.oid, options))


def _add_not_null_like(clauses: Clauses, column: str, row: pg_constraint | None, *, comments: bool) -> None:
    name, no_inherit = (None, False) if row is None else (row.conname, bool(row.connoinherit))
    refuse_no_inherit(clauses, no_inherit)
    clauses.not_nulls.append(Constraint(ConstrType.NOTNULL, name, keys=(column,), no_inherit=no_inherit))
    text = comment_on(clauses.session, PG_CONSTRAINT, row.oid) if row is not None and comments else None
    if text is not None:
        clauses.comments.append(ColumnComment(column, text, constraint=name))


def expand_like(session: Session, table: int, like: Like) -> None:
    """Defaults, CHECKs and indexes, once the columns have their numbers (expandTableLikeClause)."""
    source, rel = relation(session, like.relation), relation(session, table)
    numbers = attnum_map(rel, source)
    if like.options & {"defaults", "generated"}:
        _copy_defaults(session, source, rel, numbers, like.options)
    if "constraints" in like.options:
        _copy_checks(session, source, rel, numbers, with_comments="comments" in like.options)
    if "indexes" in like.options:
        _copy_indexes(session, source, table, numbers, with_comments="comments" in like.options)


def _copy_defaults(
    session: Session, source: Relation, rel: Relation, numbers: dict[int, int], options: frozenset[str]
) -> None:
    defaults = defaults_of(session, source.oid)
    for attribute in source.columns:
        wanted = "generated" if attribute.generated else "defaults"
        if attribute.num not in defaults or wanted not in options:
            continue
        detail = (
            f'Generation expression for column "{attribute.name}" contains a whole-row reference to table '
            f'"{source.name}".'
        )
        expr = mapped(defaults[attribute.num], numbers, detail)
        number = numbers[attribute.num]
        remove_default(session, rel.oid, number)
        store_default(session, rel.oid, number, expr, attribute.generated)


def _copy_checks(
    session: Session, source: Relation, rel: Relation, numbers: dict[int, int], *, with_comments: bool
) -> None:
    comments: list[tuple[str, str]] = []
    checks: list[Check] = []
    for row in constraints_of(session, source.oid, "c"):
        detail = f'Constraint "{row.conname}" contains a whole-row reference to table "{source.name}".'
        expr = mapped(stored.from_json(row.conbin, session), numbers, detail)
        enforced = bool(row.conenforced)
        like = Check(row.conname, expr, valid=enforced, no_inherit=bool(row.connoinherit), enforced=enforced)
        checks.append(like)
        text = comment_on(session, PG_CONSTRAINT, row.oid) if with_comments else None
        if text is not None:
            comments.append((row.conname, text))
    for check in checks:
        add_checks(session, relation(session, rel.oid), [check], merge=False)
    for name, text in comments:
        _comment_constraint(session, rel.oid, name, text)


def _comment_constraint(session: Session, table: int, name: str, text: str) -> None:
    row = constraint_named(session, table, name)
    if row is not None:
        put_comment(session, ObjectAddress(PG_CONSTRAINT, row.oid), text)


def _copy_indexes(
    session: Session, source: Relation, table: int, numbers: dict[int, int], *, with_comments: bool
) -> None:
    for info in index_infos(session, source.oid):
        text = comment_on(session, PG_CLASS, info.oid) if with_comments else None
        spec, _ = cloned_spec(session, info.oid, numbers, comment=text)
        define_index(session, table, spec, alter_table=True)


def comment_column(session: Session, table: int, comment: ColumnComment) -> None:
    if comment.constraint is not None:
        _comment_constraint(session, table, comment.constraint, comment.text)
        return
    attribute = relation(session, table).attribute(comment.column)
    if attribute is not None:
        put_comment(session, ObjectAddress(PG_CLASS, table, attribute.num), comment.text)


_SERIAL = {
    "smallserial": "int2",
    "serial2": "int2",
    "serial": "int4",
    "serial4": "int4",
    "bigserial": "int8",
    "serial8": "int8",
}


# --- columns ------------------------------------------------------------------------------------------------------


def add_column(clauses: Clauses, definition: ColumnDef) -> NewColumn:
    """Adds a column with its constraints (transformColumnDefinition)."""
    type_name, serial = _serial_type(definition)
    if serial:
        definition = replace(definition, type_name=type_name)
    column = new_column(clauses.session, definition)
    clauses.columns.append(column)
    constraints = definition.constraints
    if clauses.session.settings.release < 18:
        for constraint in constraints:
            refuse_newer(clauses.session.query, constraint.newer)
    if serial:
        sequence = add_sequence(clauses, column, serial, (), identity=False)
        default, not_null = _serial_constraints(sequence)
        named = clauses.session.settings.release >= 18
        constraints = (not_null, *constraints, default) if named else (*constraints, default, not_null)
    reader = _ColumnConstraints if clauses.session.settings.release < 18 else _NamedColumnConstraints
    reader(clauses, column).add(transform_constraint_attrs(constraints))
    return column


def _serial_type(definition: ColumnDef) -> tuple[TypeName | None, TypeName | None]:
    """The column's type, where an integer type replaces a serial one; and that integer type, None for other types."""
    name = definition.type_name
    if name is None or len(name.names) != 1 or name.pct_type or name.names[0] not in _SERIAL:
        return name, None
    if name.array_bounds:
        raise PgError("0A000", "array of serial is not implemented", location=name.location)
    integer = TypeName(("pg_catalog", _SERIAL[name.names[0]]), location=name.location)
    return integer, integer


def _serial_constraints(sequence: ColumnSequence) -> tuple[Constraint, Constraint]:
    """DEFAULT nextval('sequence') NOT NULL. The expression is analyzed once the sequence exists."""
    text = AConst(AConstKind.STRING, quote_qualified(sequence.schema, sequence.name))
    argument = TypeCast(text, TypeName(("pg_catalog", "regclass")))
    call = FuncCall(("pg_catalog", "nextval"), (argument,))
    return Constraint(ConstrType.DEFAULT, expr=call), Constraint(ConstrType.NOTNULL)


class _ColumnConstraints:
    """The constraints of one column, which must agree with each other."""

    def __init__(self, clauses: Clauses, column: NewColumn) -> None:
        self.clauses = clauses
        self.column = column
        self.nullable = self.default = self.identity = self.generated = False

    def add(self, constraints: Sequence[Constraint]) -> None:
        for constraint in constraints:
            self._add(constraint)
            both = None
            if self.default and self.identity:
                both = "default and identity"
            elif self.default and self.generated:
                both = "default and generation expression"
            elif self.identity and self.generated:
                both = "identity and generation expression"
            if both is not None:
                raise self._conflict(f"both {both} specified", constraint)

    def _conflict(self, what: str, constraint: Constraint) -> PgError:
        return PgError(
            "42601",
            f'{what} for column "{self.column.name}" of table "{self.clauses.table}"',
            location=constraint.location,
        )

    def _set_not_null(self, value: bool, constraint: Constraint) -> None:
        if self.nullable and self.column.not_null != value:
            raise self._conflict("conflicting NULL/NOT NULL declarations", constraint)
        self.column.not_null = value
        self.nullable = True

    def _add(self, constraint: Constraint) -> None:
        column, clauses = self.column, self.clauses
        if constraint.kind is ConstrType.NULL:
            self._set_not_null(False, constraint)
        elif constraint.kind is ConstrType.NOTNULL:
            self._set_not_null(True, constraint)
        elif constraint.kind is ConstrType.DEFAULT:
            if self.default:
                raise self._conflict("multiple default values specified", constraint)
            column.raw_default = constraint.expr
            self.default = True
        elif constraint.kind is ConstrType.IDENTITY:
            self._add_identity(constraint)
        elif constraint.kind is ConstrType.GENERATED:
            if self.generated:
                raise self._conflict("multiple generation clauses specified", constraint)
            column.generated = constraint.generated_kind
            column.raw_default = constraint.expr
            self.generated = True
        elif constraint.kind is ConstrType.CHECK:
            clauses.checks.append(constraint)
        elif constraint.kind in (ConstrType.PRIMARY, ConstrType.UNIQUE):
            keys = constraint.keys or (column.name,)
            clauses.index_constraints.append(replace(constraint, keys=keys))
        elif constraint.kind is ConstrType.FOREIGN:
            clauses.foreign_keys.append(replace(constraint, fk_columns=(column.name,)))

    def _add_identity(self, constraint: Constraint) -> None:
        column, clauses = self.column, self.clauses
        if clauses.is_partition:
            raise PgError("0A000", "identity columns are not supported on partitions")
        if column.type_name is None:
            raise PgError("0A000", "identity columns are not supported on typed tables")
        type_of_name(clauses.session, column.type_name)
        if self.identity:
            raise self._conflict("multiple identity specifications", constraint)
        bare = replace(column.type_name, typmods=())
        add_sequence(clauses, column, bare, constraint.sequence_options, identity=True)
        column.identity = constraint.generated_when or "a"
        self.identity = True
        self._set_not_null(True, constraint)


class _NamedColumnConstraints(_ColumnConstraints):
    """The same under PostgreSQL 18, where NOT NULL is a constraint with a name and may be NO INHERIT."""

    def __init__(self, clauses: Clauses, column: NewColumn) -> None:
        super().__init__(clauses, column)
        self._needs_inherited = False
        self._own: int | None = None  # its place in clauses.not_nulls

    def add(self, constraints: Sequence[Constraint]) -> None:
        self._needs_inherited = any(c.kind in (ConstrType.IDENTITY, ConstrType.PRIMARY) for c in constraints)
        super().add(constraints)

    def _set_not_null(self, value: bool, constraint: Constraint) -> None:
        super()._set_not_null(value, constraint)
        written = constraint.kind is ConstrType.NOTNULL
        if value:
            no_inherit = written and constraint.no_inherit
            refuse_no_inherit(self.clauses, no_inherit)
            name = constraint.name if written else None
            self._note(Constraint(ConstrType.NOTNULL, name, keys=(self.column.name,), no_inherit=no_inherit), written)

    def _note(self, wanted: Constraint, written: bool) -> None:
        constraints, column = self.clauses.not_nulls, self.column.name
        conflict = f'conflicting NO INHERIT declarations for not-null constraints on column "{column}"'
        if wanted.no_inherit and self._needs_inherited:
            raise PgError("42601", conflict)
        if self._own is None:
            self._own = len(constraints)
            constraints.append(wanted)
        elif written:
            before = constraints[self._own]
            if wanted.name and before.name and wanted.name != before.name:
                raise PgError("42601", f'conflicting not-null constraint names "{before.name}" and "{wanted.name}"')
            if wanted.no_inherit != before.no_inherit:
                raise PgError("42601", conflict)
            constraints[self._own] = replace(before, name=before.name or wanted.name)

    def _add(self, constraint: Constraint) -> None:
        super()._add(constraint)
        if constraint.kind is ConstrType.PRIMARY:
            self._set_not_null(True, constraint)


def refuse_no_inherit(clauses: Clauses, no_inherit: bool) -> None:
    if no_inherit and clauses.is_partitioned:
        raise PgError("0A000", "not-null constraints on partitioned tables cannot be NO INHERIT")


# --- table constraints --------------------------------------------------------------------------------------------


def add_constraint(clauses: Clauses, constraint: Constraint) -> None:
    """Adds a table constraint (transformTableConstraint)."""
    if clauses.session.settings.release < 18:
        refuse_newer(clauses.session.query, constraint.newer)
    if constraint.kind is ConstrType.EXCLUSION:
        raise unsupported("EXCLUDE", location=constraint.location)
    if constraint.kind in (ConstrType.PRIMARY, ConstrType.UNIQUE):
        clauses.index_constraints.append(constraint)
    elif constraint.kind is ConstrType.CHECK:
        clauses.checks.append(constraint)
    elif constraint.kind is ConstrType.FOREIGN:
        clauses.foreign_keys.append(constraint)
    elif constraint.kind is ConstrType.NOTNULL:
        refuse_no_inherit(clauses, constraint.no_inherit)
        clauses.not_nulls.append(constraint)


def make_indexes(clauses: Clauses) -> None:
    """PRIMARY KEY and UNIQUE become indexes, the same index only once, as transformIndexConstraints does."""
    specs: list[IndexSpec] = []
    for constraint in clauses.index_constraints:
        if constraint.kind is ConstrType.PRIMARY and any(spec.primary for spec in specs):
            raise PgError(
                "42P16",
                f'multiple primary keys for table "{clauses.table}" are not allowed',
                location=constraint.location,
            )
        specs.append(_index_of(clauses, constraint))
    specs.sort(key=lambda spec: not spec.primary)
    for spec in specs:
        for number, prior in enumerate(clauses.indexes):
            if prior.same_as(spec):
                clauses.indexes[number] = replace(prior, name=prior.name or spec.name)
                break
        else:
            clauses.indexes.append(spec)


def _index_of(clauses: Clauses, constraint: Constraint) -> IndexSpec:
    """The index that a PRIMARY KEY or UNIQUE constraint asks for (transformIndexConstraint)."""
    primary = constraint.kind is ConstrType.PRIMARY
    existing, keys, including = 0, constraint.keys, constraint.including
    if constraint.using_index is not None:
        if clauses.rel is None:
            raise PgError("0A000", "cannot use an existing index in CREATE TABLE", location=constraint.location)
        existing, keys, including = usable_for_constraint(clauses.session, clauses.rel, constraint)
    if constraint.without_overlaps:
        _check_period(clauses, constraint)
    names: list[str] = []
    for key in keys:
        column = _key_column(clauses, key, constraint)
        if key in names:
            what = "primary key" if primary else "unique"
            raise PgError("42701", f'column "{key}" appears twice in {what} constraint', location=constraint.location)
        names.append(key)
        if primary:
            _note_primary(clauses, column, key, with_index=bool(existing))
    for key in including:
        _key_column(clauses, key, constraint)
    return IndexSpec(
        name=constraint.name,
        keys=tuple(IndexKey(name=key) for key in keys),
        including=tuple(IndexKey(name=key) for key in including),
        unique=True,
        primary=primary,
        constraint=True,
        deferrable=constraint.deferrable,
        initially_deferred=constraint.initially_deferred,
        nulls_not_distinct=constraint.nulls_not_distinct,
        without_overlaps=constraint.without_overlaps,
        method="gist" if constraint.without_overlaps else "btree",
        options=constraint.index_options,
        tablespace=constraint.tablespace,
        existing=existing,
    )


def _check_period(clauses: Clauses, constraint: Constraint) -> None:
    """WITHOUT OVERLAPS wants a range in the last of several columns."""
    if len(constraint.keys) < 2:
        raise PgError("42601", "constraint using WITHOUT OVERLAPS needs at least two columns")
    name = constraint.keys[-1]
    types = [column.type for column in clauses.columns if column.name == name]
    for parent in clauses.parents if not types else ():
        inherited = find_relation(clauses.session, replace(parent, location=-1)).attribute(name)
        types += [inherited.type] if inherited is not None else []
    own = clauses.rel.attribute(name) if clauses.rel is not None and not types else None
    types += [own.type] if own is not None else []
    type_ = type_by_oid(lookup.base(types[0])) if types else None
    if type_ is not None and type_.typtype not in "rm":
        message = f'column "{name}" in WITHOUT OVERLAPS is not a range or multirange type'
        raise PgError("42804", message, location=constraint.location)


def _note_primary(clauses: Clauses, column: NewColumn | None, key: str, *, with_index: bool) -> None:
    """A column of the primary key is NOT NULL."""
    named = clauses.session.settings.release >= 18
    if column is not None and column.not_null:
        if any(constraint.no_inherit and constraint.keys == (key,) for constraint in clauses.not_nulls):
            raise PgError("42601", f'conflicting NO INHERIT declaration for not-null constraint on column "{key}"')
    elif named and (column is not None or clauses.rel is None or with_index):
        clauses.not_nulls.append(Constraint(ConstrType.NOTNULL, keys=(key,)))
    elif column is None:
        clauses.set_not_null.append(key)
    if column is not None:
        column.not_null = True


def _key_column(clauses: Clauses, key: str, constraint: Constraint) -> NewColumn | None:
    """The new column of this name; None if it is a system column or comes from a parent or the altered table."""
    for column in clauses.columns:
        if column.name == key:
            return column
    if key in SYSTEM_COLUMNS:
        return None
    for parent in clauses.parents:
        relation = find_relation(clauses.session, replace(parent, location=-1))
        if relation.kind not in ("r", "f", "p"):
            raise PgError("42809", f'inherited relation "{parent.name}" is not a table or foreign table')
        if relation.attribute(key) is not None:
            return None
    if clauses.rel is None:
        raise PgError("42703", f'column "{key}" named in key does not exist', location=constraint.location)
    return None


def add_elements(clauses: Clauses, elements: Sequence[ColumnDef | Constraint | TableLikeClause]) -> None:
    for element in elements:
        if isinstance(element, ColumnDef):
            add_column(clauses, element)
        elif isinstance(element, Constraint):
            add_constraint(clauses, element)
        else:
            add_like(clauses, element)
