"""NOT NULL as PostgreSQL 18 has it: a constraint with a name, one for each column that it is about."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.catalog.facts.relation_parts import not_nulls
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import Constraint
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, set_attribute
from pgrepl.statements.table.constraints import already_exists, store_constraint, update_constraint
from pgrepl.statements.table.names import choose_constraint_name, constraint_on

Inherited = tuple[str, str | None]  # a column, and the name of a parent's constraint


def store_not_nulls(session: Session, rel: Relation, own: Sequence[Constraint], inherited: Sequence[Inherited]) -> None:
    """The NOT NULL constraints of a new table: its own, and those of its parents that it has none for, as
    AddRelationNotNullConstraints merges them."""
    wanted: dict[int, Constraint] = {}
    for constraint in own:
        attribute = _column(rel, constraint)
        before = wanted.get(attribute.num)
        wanted[attribute.num] = constraint if before is None else _joined(before, constraint, attribute.name)
    above: dict[int, list[str | None]] = {}
    for column, parent_name in inherited:
        above.setdefault(_number(rel, column), []).append(parent_name)
    names: list[str] = []
    for number, constraint in wanted.items():
        column = constraint.keys[0]
        parents = above.pop(number, [])
        if parents and constraint.no_inherit:
            raise PgError(
                "42804",
                f'cannot define not-null constraint with NO INHERIT on column "{column}"',
                detail="The column has an inherited not-null constraint.",
            )
        if constraint.name is not None and constraint_on(session, rel.oid, constraint.name):
            raise already_exists(constraint.name, rel.name)
        name = constraint.name or _chosen(session, rel, column, names)
        names.append(name)
        _store(session, rel, name, number, inhcount=len(parents), no_inherit=constraint.no_inherit)
    for number, parents in above.items():
        free = [name for name in parents if name is not None and name not in names]
        name = free[0] if free else _chosen(session, rel, rel.attributes[number - 1].name, names)
        names.append(name)
        _store(session, rel, name, number, local=False, inhcount=len(parents))


def _column(rel: Relation, constraint: Constraint) -> Attribute:
    name = constraint.keys[0]
    attribute = rel.attribute(name)
    if attribute is not None:
        return attribute
    if name in SYSTEM_COLUMNS:
        raise PgError("0A000", f'cannot add not-null constraint on system column "{name}"')
    raise PgError("42703", f'column "{name}" of relation "{rel.name}" does not exist')


def _number(rel: Relation, column: str) -> int:
    return next(attribute.num for attribute in rel.columns if attribute.name == column)


def _joined(one: Constraint, two: Constraint, column: str) -> Constraint:
    """Two constraints of one column become one, if they agree."""
    if one.no_inherit != two.no_inherit:
        raise PgError("42601", f'conflicting NO INHERIT declaration for not-null constraint on column "{column}"')
    if one.name and two.name and one.name != two.name:
        raise PgError("42601", f'conflicting not-null constraint names "{one.name}" and "{two.name}"')
    return one if one.name else two


def _chosen(session: Session, rel: Relation, column: str, others: Sequence[str] = ()) -> str:
    return choose_constraint_name(session, rel.name, column, "not_null", rel.namespace, others)


def _store(
    session: Session,
    rel: Relation,
    name: str,
    number: int,
    *,
    valid: bool = True,
    local: bool = True,
    inhcount: int = 0,
    no_inherit: bool = False,
) -> None:
    """Stores the constraint, and that the column is NOT NULL (StoreRelNotNull, set_attnotnull)."""
    if no_inherit and rel.kind == "p":
        raise PgError("0A000", "not-null constraints on partitioned tables cannot be NO INHERIT")
    store_constraint(
        session, rel, name, "n", columns=[number], valid=valid, local=local, inhcount=inhcount, no_inherit=no_inherit
    )
    if not rel.attributes[number - 1].notnull:
        set_attribute(session, rel.oid, number, attnotnull=True)


def add_not_null(session: Session, rel: Relation, wanted: Constraint, *, local: bool) -> str | None:
    """Add a constraint, or join it to the one that the column has; its name, or None if nothing new was needed (as
    AddRelationNewConstraints does)."""
    attribute = _column(rel, wanted)
    row = not_nulls(session, rel.oid).get(attribute.num)
    if row is not None:
        _join(session, rel, row, wanted, local=local)
        return None
    if wanted.name is not None and constraint_on(session, rel.oid, wanted.name):
        raise already_exists(wanted.name, rel.name)
    name = wanted.name or _chosen(session, rel, attribute.name)
    _store(
        session,
        rel,
        name,
        attribute.num,
        valid=not wanted.skip_validation,
        local=local,
        inhcount=0 if local else 1,
        no_inherit=wanted.no_inherit,
    )
    return name


def _join(session: Session, rel: Relation, row: pg_constraint, wanted: Constraint, *, local: bool) -> None:
    """The column has a constraint already, which must fit (AdjustNotNullInheritance)."""
    if bool(row.connoinherit) != wanted.no_inherit:
        raise no_inherit_status(rel, row)
    if not wanted.skip_validation and not row.convalidated:
        raise not_valid(rel, row)
    if local and wanted.name and wanted.name != row.conname:
        raise PgError(
            "55000",
            f'cannot create not-null constraint "{wanted.name}" on column "{wanted.keys[0]}" of table "{rel.name}"',
            detail=f'A not-null constraint named "{row.conname}" already exists for this column.',
        )
    note_source(session, row, local=local)


def not_valid(rel: Relation, row: pg_constraint) -> PgError:
    return PgError(
        "55000",
        f'incompatible NOT VALID constraint "{row.conname}" on relation "{rel.name}"',
        hint="You might need to validate it using ALTER TABLE ... VALIDATE CONSTRAINT.",
    )


def no_inherit_status(rel: Relation, row: pg_constraint) -> PgError:
    return PgError(
        "55000",
        f'cannot change NO INHERIT status of NOT NULL constraint "{row.conname}" on relation "{rel.name}"',
        hint="You might need to make the existing constraint inheritable using ALTER TABLE ... ALTER CONSTRAINT ... "
        "INHERIT.",
    )


def note_source(session: Session, row: pg_constraint, *, local: bool) -> bool:
    """Note one more reason for a constraint: the table's own definition, or a parent. False: it was known."""
    if local and row.conislocal:
        return False
    values: dict[str, object] = {"conislocal": True} if local else {"coninhcount": row.coninhcount + 1}
    update_constraint(session, row.oid, **values)
    return True


def lose_parent(session: Session, row: pg_constraint) -> None:
    """One parent less has the constraint; without any it is the table's own."""
    values: dict[str, object] = {"coninhcount": row.coninhcount - 1}
    if row.coninhcount == 1:
        values["conislocal"] = True
    update_constraint(session, row.oid, **values)
