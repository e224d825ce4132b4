"""The columns and CHECKs a new table gets from its parents, merged with its own (PostgreSQL's MergeAttributes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog.facts.acl import check_relation_owner
from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.catalog.facts.relation_parts import constraints_of, not_nulls
from pgrepl.catalog.session.session import Session
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.catalog_trees import defaults_of, mapped
from pgrepl.expr.tree import Expr
from pgrepl.ground.errors import PgError
from pgrepl.statements.table.columns import (
    MAX_COLUMNS,
    NewColumn,
    column_of_type,
    compression_name,
    refuse_duplicates,
    storage_name,
    too_many_columns,
)
from pgrepl.statements.table.constraints import Check
from pgrepl.statements.table.not_null import Inherited


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
        found = {attribute.num for attribute in parent.columns if attribute.notnull}
        named = not_nulls(self.session, parent.oid)
        found.difference_update(number for number, row in named.items() if row.connoinherit)
        if self.session.settings.release >= 18:
            listed = [*(number for number in named if number in found), *sorted(found - named.keys())]
            self.not_nulls += [
                (parent.attributes[number - 1].name, named[number].conname if number in named else None)
                for number in listed
            ]
        return found

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
