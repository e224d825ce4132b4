"""CREATE TABLE: the parts of the statement in the order PostgreSQL does them; the columns and CHECKs that a table gets
from its parents, merged with its own (MergeAttributes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import check_relation_owner
from pgrepl.catalog.facts.relation import Attribute, Relation, find_relation, oid_in_schema, relation
from pgrepl.catalog.facts.relation_parts import constraints_of, not_nulls
from pgrepl.catalog.session.session import Session
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.catalog_trees import defaults_of, mapped
from pgrepl.expr.tree import Expr
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.rows.requirements import DefaultPartition
from pgrepl.sql.nodes import CreateStmt, CreateTableAsStmt, ObjectType
from pgrepl.statements.deletion import drop_on_commit, empty_on_commit
from pgrepl.statements.index.define import define_index
from pgrepl.statements.sequence import create_column_sequence, own_sequence
from pgrepl.statements.table.clauses import add_elements, comment_column, expand_like, make_indexes
from pgrepl.statements.table.columns import (
    MAX_COLUMNS,
    NewColumn,
    column_of_type,
    compression_name,
    finish,
    refuse_duplicates,
    storage_name,
    too_many_columns,
)
from pgrepl.statements.table.constraints import Check, Clauses, add_checks, cook_check
from pgrepl.statements.table.heap import create_relation
from pgrepl.statements.table.names import check_tablespace, chosen_access_method, creation_schema, store_inheritance
from pgrepl.statements.table.not_null import Inherited, store_not_nulls
from pgrepl.statements.table.storage import table_options
from pgrepl.writing.phase3 import require

if TYPE_CHECKING:
    from pgrepl.sql.nodes import PartitionBoundSpec, PartitionSpec


def create_table(stmt: CreateStmt, session: Session) -> Result:
    namespace, persistence = creation_schema(session, stmt.relation)
    if stmt.if_not_exists and oid_in_schema(session, namespace, stmt.relation.name) is not None:
        session.notice("NOTICE", f'relation "{stmt.relation.name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE TABLE")
    if stmt.of_type is not None:
        raise unsupported("CREATE TABLE OF")
    parents = (stmt.partition_of,) if stmt.partition_of is not None else stmt.inherits
    clauses = Clauses(
        session,
        stmt.relation.name,
        namespace,
        persistence,
        parents=parents,
        is_partition=stmt.bound is not None,
        is_partitioned=stmt.partition_by is not None,
    )
    if stmt.partition_by is not None and stmt.inherits:
        raise PgError("42P17", "cannot create partitioned table as inheritance child")
    add_elements(clauses, stmt.elements)
    make_indexes(clauses)
    for sequence in clauses.sequences:
        create_column_sequence(session, sequence)
    table = _define_table(session, stmt, clauses)
    _complete(session, table, clauses)
    _at_commit(session, table, stmt.on_commit)
    return Result("CREATE TABLE")


def _define_table(session: Session, stmt: CreateStmt, clauses: Clauses) -> int:
    """Makes the table, its columns and constraints (DefineRelation)."""
    if stmt.on_commit is not None and clauses.persistence != "t":
        raise PgError("42P16", "ON COMMIT can only be used on temporary tables")
    partitioned = stmt.partition_by is not None
    if partitioned and clauses.persistence == "u" and session.settings.release >= 18:
        raise PgError("0A000", "partitioned tables cannot be unlogged")
    parents: list[Relation] = []
    for name in clauses.parents:
        parent = find_relation(session, replace(name, location=-1))
        if parent in parents:
            raise PgError("42P07", f'relation "{parent.name}" would be inherited from more than once')
        parents.append(parent)
    check_tablespace(stmt.tablespace, partitioned=partitioned)
    options = table_options(stmt.options, partitioned=partitioned)
    merger = Merger(session, clauses.persistence, is_partition=clauses.is_partition)
    columns = merger.merge(clauses.columns, parents)
    finish(session, columns)
    access_method = chosen_access_method(stmt.access_method, partitioned, parents if clauses.is_partition else [])
    kind = "p" if partitioned else "r"
    table = create_relation(
        session,
        clauses.table,
        clauses.namespace,
        kind,
        columns,
        persistence=clauses.persistence,
        access_method=access_method,
        options=options,
        has_index=bool(clauses.indexes),
    )
    add_checks(session, relation(session, table), merger.checks, merge=False, count=0)
    if stmt.bound is not None:
        _store_bound(session, table, parents[0], stmt.bound)
    for number, parent in enumerate(parents, 1):
        store_inheritance(session, table, parent, number, is_partition=clauses.is_partition)
    if stmt.partition_by is not None:
        _store_key(session, table, stmt.partition_by)
    if clauses.is_partition:
        from pgrepl.statements.table.partition import clone_from_parent

        clone_from_parent(session, table, parents[0].oid)
    if clauses.checks:
        rel = relation(session, table)
        checks = (
            Check(
                c.name, cook_check(session, rel, c.expr), valid=c.enforced, no_inherit=c.no_inherit, enforced=c.enforced
            )
            for c in clauses.checks
            if c.expr is not None
        )
        add_checks(session, rel, checks, merge=True)
    if clauses.not_nulls or merger.not_nulls:
        store_not_nulls(session, relation(session, table), clauses.not_nulls, merger.not_nulls)
    return table


def define_columns(
    session: Session, stmt: CreateTableAsStmt, namespace: int, persistence: str, columns: list[NewColumn]
) -> int:
    """The table or materialized view of CREATE … AS: columns and options, no constraints."""
    if stmt.on_commit is not None and persistence != "t":
        raise PgError("42P16", "ON COMMIT can only be used on temporary tables")
    check_tablespace(stmt.tablespace, partitioned=False)
    options = table_options(stmt.options, partitioned=False)
    refuse_duplicates(columns)
    finish(session, columns)
    access_method = chosen_access_method(stmt.access_method, False, [])
    table = create_relation(
        session,
        stmt.relation.name,
        namespace,
        "m" if stmt.kind is ObjectType.MATVIEW else "r",
        columns,
        persistence=persistence,
        access_method=access_method,
        options=options,
    )
    _at_commit(session, table, stmt.on_commit)
    return table


def _at_commit(session: Session, table: int, action: str | None) -> None:
    if action in ("DROP", "DELETE ROWS"):
        (drop_on_commit if action == "DROP" else empty_on_commit)(session, table)


def _store_bound(session: Session, table: int, parent: Relation, spec: PartitionBoundSpec) -> None:
    from pgrepl.statements.table.bounds import check_bound, store_bound, transform_bound

    if parent.kind != "p":
        raise PgError("42P17", f'"{parent.name}" is not partitioned')
    rel = relation(session, table)
    bound = transform_bound(session, parent, spec, rel)
    default = check_bound(session, rel.name, parent, bound)
    if default:
        require(session, DefaultPartition(default, parent.oid, bound))
    store_bound(session, table, parent, bound)


def _store_key(session: Session, table: int, spec: PartitionSpec) -> None:
    from pgrepl.statements.table.partition import define_key

    define_key(session, relation(session, table), spec)


def _complete(session: Session, table: int, clauses: Clauses) -> None:
    """Add NOT NULL of inherited keys, indexes, LIKE, foreign keys, owned sequences and comments to the new table."""
    if clauses.set_not_null:
        from pgrepl.statements.table.alter.run import set_not_null

        set_not_null(session, table, clauses.set_not_null)
    if clauses.indexes:
        for spec in clauses.indexes:
            define_index(session, table, spec)
    if clauses.likes:
        for like in clauses.likes:
            expand_like(session, table, like)
    if clauses.foreign_keys:
        from pgrepl.statements.table.alter.run import add_foreign_keys

        add_foreign_keys(session, table, clauses.foreign_keys)
    if clauses.sequences:
        for sequence in clauses.sequences:
            own_sequence(session, sequence, relation(session, table))
    for comment in clauses.comments:
        comment_column(session, table, comment)


class Merger:
    """Columns by their place, the inherited ones first, in the order of the parents."""

    def __init__(self, session: Session, persistence: str, *, is_partition: bool) -> None:
        self.session = session
        self.persistence = persistence
        self.is_partition = is_partition
        self.inherited: list[NewColumn] = []
        self.checks: list[Check] = []
        self.not_nulls: list[Inherited] = []  # under PostgreSQL 18, where they have names
        self._conflicting: set[str] = set()

    def merge(self, columns: Sequence[NewColumn], parents: Sequence[Relation]) -> list[NewColumn]:
        if len(columns) > MAX_COLUMNS:
            raise too_many_columns()
        refuse_duplicates(columns)
        for parent in parents:
            self._refuse_parent(parent)
            self._add_parent(parent)
        if self.is_partition:
            result = self.inherited
            for column in columns:
                self._add_options(column)
        else:
            result = self._with_own(columns)
        for column in result:
            if column.name in self._conflicting and column.raw_default is None:
                raise _conflicting_defaults(column)
        return result

    def _refuse_parent(self, parent: Relation) -> None:
        name = parent.name
        if parent.kind == "p" and not self.is_partition:
            raise PgError("42809", f'cannot inherit from partitioned table "{name}"')
        if parent.is_partition and not self.is_partition:
            raise PgError("42809", f'cannot inherit from partition "{name}"')
        if parent.kind not in ("r", "f", "p"):
            raise PgError("42809", f'inherited relation "{name}" is not a table or foreign table')
        if self.is_partition and parent.persistence != "t" and self.persistence == "t":
            raise PgError("42809", f'cannot create a temporary relation as partition of permanent relation "{name}"')
        if self.persistence != "t" and parent.persistence == "t":
            raise PgError(
                "42809",
                f'cannot create a permanent relation as partition of temporary relation "{name}"'
                if self.is_partition
                else f'cannot inherit from temporary relation "{name}"',
            )
        check_relation_owner(self.session, parent)

    def _add_parent(self, parent: Relation) -> None:
        numbers: dict[int, int] = {}
        targets: list[tuple[NewColumn, Expr]] = []
        defaults = defaults_of(self.session, parent.oid) if any(a.has_default for a in parent.attributes) else {}
        own = self._inheritable(parent)
        for attribute in parent.columns:
            new = _copied(attribute, identity=self.is_partition)
            new.not_null = attribute.num in own
            place = _place(self.inherited, new.name)
            if place is not None:
                column = self._merge_inherited(self.inherited[place], new)
            else:
                column = new
                column.inhcount, column.is_local = 1, False
                place = len(self.inherited)
                self.inherited.append(column)
            numbers[attribute.num] = place + 1
            if attribute.num in defaults:
                targets.append((column, defaults[attribute.num]))
        for column, default in targets:
            self._add_default(parent, column, default, numbers)
        for row in constraints_of(self.session, parent.oid, "c"):
            if not row.connoinherit:
                detail = f'Constraint "{row.conname}" contains a whole-row reference to table "{parent.name}".'
                expr = mapped(stored.from_json(row.conbin, self.session), numbers, detail)
                self._add_check(row.conname, expr, enforced=bool(row.conenforced))

    def _inheritable(self, parent: Relation) -> set[int]:
        """The parent's columns whose NOT NULL its children get."""
        numbers = {attribute.num for attribute in parent.columns if attribute.notnull}
        named = not_nulls(self.session, parent.oid)
        numbers.difference_update(number for number, row in named.items() if row.connoinherit)
        if self.session.settings.release >= 18:
            listed = [*(number for number in named if number in numbers), *sorted(numbers - named.keys())]
            self.not_nulls += [
                (parent.attributes[number - 1].name, named[number].conname if number in named else None)
                for number in listed
            ]
        return numbers

    def _add_default(self, parent: Relation, column: NewColumn, default: Expr, numbers: dict[int, int]) -> None:
        detail = (
            f'Generation expression for column "{column.name}" contains a whole-row reference to table "{parent.name}".'
        )
        expr = mapped(default, numbers, detail)
        if column.cooked_default is None:
            column.cooked_default = expr
        elif column.cooked_default != expr:
            self._conflicting.add(column.name)

    def _add_check(self, name: str, expr: Expr, *, enforced: bool) -> None:
        """Adds an inherited CHECK, or ties it to one of the same name (MergeCheckConstraint)."""
        for number, check in enumerate(self.checks):
            if check.name == name:
                if check.expr != expr:
                    raise PgError(
                        "42710", f'check constraint name "{name}" appears multiple times but with different expressions'
                    )
                enforced |= check.enforced
                self.checks[number] = replace(check, inhcount=check.inhcount + 1, enforced=enforced, valid=enforced)
                return
        self.checks.append(Check(name, expr, valid=enforced, local=False, inhcount=1, enforced=enforced))

    def _merge_inherited(self, previous: NewColumn, new: NewColumn) -> NewColumn:
        """A column of a second parent joins that of the first, as MergeInheritedAttribute does."""
        name = previous.name
        self.session.notice("NOTICE", f'merging multiple inherited definitions of column "{name}"')
        self._same_type(f'inherited column "{name}"', previous, new)
        previous.not_null |= new.not_null
        _same_collation(f'inherited column "{name}"', previous, new)
        if previous.storage != new.storage:
            raise _storage_conflict(f'inherited column "{name}"', previous, new)
        _same_compression(name, previous, new)
        if previous.generated != new.generated:
            raise PgError("42804", f'inherited column "{name}" has a generation conflict')
        previous.inhcount += 1
        return previous

    def _with_own(self, columns: Sequence[NewColumn]) -> list[NewColumn]:
        if not self.inherited:
            return list(columns)
        result = list(self.inherited)
        for number, column in enumerate(columns):
            place = _place(self.inherited, column.name)
            if place is None:
                result.append(column)
            else:
                self._merge_own(self.inherited[place], column, moved=place != number)
        if len(result) > MAX_COLUMNS:
            raise too_many_columns()
        return result

    def _merge_own(self, inherited: NewColumn, new: NewColumn, *, moved: bool) -> None:
        """A column of the table itself joins the inherited one of its name, as MergeChildAttribute does."""
        name = inherited.name
        if moved:
            self.session.notice(
                "NOTICE",
                f'moving and merging column "{name}" with inherited definition',
                detail="User-specified column moved to the position of the inherited column.",
            )
        else:
            self.session.notice("NOTICE", f'merging column "{name}" with inherited definition')
        self._same_type(f'column "{name}"', inherited, new)
        _same_collation(f'column "{name}"', inherited, new)
        inherited.identity = new.identity
        if new.storage and inherited.storage != new.storage:
            raise _storage_conflict(f'column "{name}"', inherited, new)
        _same_compression(name, inherited, new)
        inherited.not_null |= new.not_null
        _check_generated(inherited, new)
        if new.raw_default is not None:
            inherited.raw_default, inherited.cooked_default = new.raw_default, None
        inherited.is_local = True

    def _same_type(self, what: str, one: NewColumn, two: NewColumn) -> None:
        if (one.type, one.typmod) != (two.type, two.typmod):
            first = lookup.type_text(self.session, one.type, one.typmod)
            second = lookup.type_text(self.session, two.type, two.typmod)
            raise PgError("42804", f"{what} has a type conflict", detail=f"{first} versus {second}")

    def _add_options(self, option: NewColumn) -> None:
        """Options that PARTITION OF gives a column of the parent."""
        place = _place(self.inherited, option.name)
        if place is None:
            raise PgError("42703", f'column "{option.name}" does not exist')
        column = self.inherited[place]
        column.not_null |= option.not_null
        _check_generated(column, option)
        if option.raw_default is not None:
            column.raw_default, column.cooked_default = option.raw_default, None


def _copied(attribute: Attribute, *, identity: bool) -> NewColumn:
    column = column_of_type(
        attribute.name, attribute.type, attribute.typmod, attribute.collation, ndims=attribute.ndims
    )
    column.storage = attribute.storage
    column.generated = attribute.generated
    column.compression = attribute.compression
    if identity:
        column.identity = attribute.identity
    return column


def _place(columns: Sequence[NewColumn], name: str) -> int | None:
    return next((number for number, column in enumerate(columns) if column.name == name), None)


def _check_generated(parent: NewColumn, own: NewColumn) -> None:
    if parent.generated:
        if own.raw_default is not None and not own.generated:
            raise PgError("42611", f'column "{parent.name}" inherits from generated column but specifies default')
        if own.identity:
            raise PgError("42611", f'column "{parent.name}" inherits from generated column but specifies identity')
        if own.generated and own.generated != parent.generated:
            kinds = {"s": "STORED", "v": "VIRTUAL"}
            raise PgError(
                "42611",
                f'column "{parent.name}" inherits from generated column of different kind',
                detail=f"Parent column is {kinds[parent.generated]}, child column is {kinds[own.generated]}.",
            )
    elif own.generated:
        raise PgError(
            "42611",
            f'child column "{parent.name}" specifies generation expression',
            hint="A child table column cannot be generated unless its parent column is.",
        )


def _conflicting_defaults(column: NewColumn) -> PgError:
    if column.generated:
        return PgError(
            "42611",
            f'column "{column.name}" inherits conflicting generation expressions',
            hint="To resolve the conflict, specify a generation expression explicitly.",
        )
    return PgError(
        "42611",
        f'column "{column.name}" inherits conflicting default values',
        hint="To resolve the conflict, specify a default explicitly.",
    )


def _same_collation(what: str, one: NewColumn, two: NewColumn) -> None:
    if one.collation != two.collation:
        raise PgError(
            "42P21",
            f"{what} has a collation conflict",
            detail=f'"{collation_name(one.collation)}" versus "{collation_name(two.collation)}"',
        )


def _storage_conflict(what: str, one: NewColumn, two: NewColumn) -> PgError:
    return PgError(
        "42804",
        f"{what} has a storage parameter conflict",
        detail=f"{storage_name(one.storage)} versus {storage_name(two.storage)}",
    )


def _compression(column: NewColumn) -> str | None:
    return compression_name(column.compression) if column.compression else column.compression_name


def _same_compression(name: str, one: NewColumn, two: NewColumn) -> None:
    mine, other = _compression(one), _compression(two)
    if mine is None:
        one.compression_name = other
    elif other is not None and mine != other:
        raise PgError("42804", f'column "{name}" has a compression method conflict', detail=f"{mine} versus {other}")
