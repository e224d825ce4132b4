"""Rows of pg_constraint: stored, merged with those of parents, tied to those of partitioned tables; and the lists of
CreateStmtContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependencies, record_dependency
from pgrepl.catalog.facts.namespace import schema_name
from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation_parts import constraint_named, constraint_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_constraint
from pgrepl.expr import stored
from pgrepl.expr.analyse.analyze import transform
from pgrepl.expr.analyse.coerce import coerce_to_boolean
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import walk
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.location import conflicting, get_qualified_name
from pgrepl.sql.nodes import Constraint, DefElem, RangeVar, TypeName
from pgrepl.statements.dependencies import record_expression_dependencies
from pgrepl.statements.index.attributes import IndexSpec
from pgrepl.statements.table.columns import SYSTEM_NAMES, NewColumn
from pgrepl.statements.table.names import choose_constraint_name, choose_relation_name


@dataclass(slots=True)
class ColumnSequence:
    """The sequence of a serial or identity column: created before the table, owned by the column afterwards."""

    schema: str
    name: str
    options: tuple[DefElem, ...]
    identity: bool
    column: str
    persistence: str
    owner: int  # 0: the current role
    oid: int = 0


@dataclass(slots=True)
class ColumnComment:
    """A comment that LIKE … INCLUDING COMMENTS carries over; `constraint`: it is one on the NOT NULL of this name."""

    column: str
    text: str
    constraint: str | None = None


@dataclass(slots=True)
class Like:
    relation: int
    options: frozenset[str]


@dataclass(slots=True)
class Clauses:
    session: Session
    table: str
    namespace: int
    persistence: str
    parents: tuple[RangeVar, ...] = ()
    is_partition: bool = False
    rel: Relation | None = None  # the table that is altered
    columns: list[NewColumn] = field(default_factory=list)
    checks: list[Constraint] = field(default_factory=list)
    foreign_keys: list[Constraint] = field(default_factory=list)
    index_constraints: list[Constraint] = field(default_factory=list)
    likes: list[Like] = field(default_factory=list)
    sequences: list[ColumnSequence] = field(default_factory=list)
    comments: list[ColumnComment] = field(default_factory=list)
    indexes: list[IndexSpec] = field(default_factory=list)
    set_not_null: list[str] = field(default_factory=list)
    not_nulls: list[Constraint] = field(default_factory=list)  # which have names under PostgreSQL 18
    is_partitioned: bool = False


def add_sequence(
    clauses: Clauses, column: NewColumn, type_: TypeName | None, options: Sequence[DefElem], *, identity: bool
) -> ColumnSequence:
    """Plan the sequence of a serial or identity column, as generateSerialExtraStmts does."""
    session = clauses.session
    named: DefElem | None = None
    logged: DefElem | None = None
    rest: list[DefElem] = []
    for option in options:
        if option.name == "sequence_name":
            if named is not None:
                conflicting(option)
            named = option
        elif option.name in ("logged", "unlogged"):
            if logged is not None:
                conflicting(option)
            logged = option
        else:
            rest.append(option)
    if named is not None:
        parts = get_qualified_name(named)
        schema = parts[-2] if len(parts) > 1 else schema_name(session, clauses.namespace)
        name = parts[-1]
    else:
        schema = schema_name(session, clauses.namespace)
        name = choose_relation_name(session, clauses.table, column.name, "seq", clauses.namespace)
    persistence = clauses.persistence
    if logged is not None:
        if persistence == "t":
            raise PgError("42P16", "cannot set logged status of a temporary sequence", location=logged.location)
        persistence = "p" if logged.name == "logged" else "u"
    if type_ is not None:
        rest.insert(0, DefElem("as", type_))
    sequence = ColumnSequence(
        schema, name, tuple(rest), identity, column.name, persistence, clauses.rel.owner if clauses.rel else 0
    )
    clauses.sequences.append(sequence)
    return sequence


# --- constraints ------------------------------------------------------------------------------------------------------


@frozen
class Check:
    """An analyzed CHECK constraint."""

    name: str | None
    expr: Expr
    valid: bool = True
    local: bool = True
    inhcount: int = 0
    no_inherit: bool = False
    enforced: bool = True


@frozen
class ForeignKeyFields:
    """The part of a foreign key's row that CHECK and index constraints do not have."""

    table: int
    columns: tuple[int, ...]
    index: int
    on_update: str
    on_delete: str
    match: str
    delete_set: tuple[int, ...] = ()


def store_constraint(
    session: Session,
    rel: Relation,
    name: str,
    kind: str,
    *,
    columns: Sequence[int],
    key_columns: int | None = None,
    deferrable: bool = False,
    deferred: bool = False,
    valid: bool = True,
    parent: int = 0,
    index: int = 0,
    foreign: ForeignKeyFields | None = None,
    expr: Expr | None = None,
    local: bool = True,
    inhcount: int = 0,
    no_inherit: bool = True,
    enforced: bool = True,
    period: bool = False,
) -> int:
    """Store a new row and its dependencies, as CreateConstraintEntry does. `columns` may have INCLUDE columns after the
    first `key_columns`: the constraint depends on them, but conkey does not list them."""
    oid = store.new_oid(session)
    keys = list(columns if key_columns is None else columns[:key_columns])
    store.insert(
        session,
        pg_constraint,
        datid=session.database_oid,
        oid=oid,
        conname=name,
        connamespace=rel.namespace,
        contype=kind,
        condeferrable=deferrable,
        condeferred=deferred,
        convalidated=valid,
        conrelid=rel.oid,
        conindid=foreign.index if foreign else index,
        conparentid=parent,
        confrelid=foreign.table if foreign else 0,
        confupdtype=foreign.on_update if foreign else " ",
        confdeltype=foreign.on_delete if foreign else " ",
        confmatchtype=foreign.match if foreign else " ",
        conislocal=local,
        coninhcount=inhcount,
        connoinherit=no_inherit,
        conkey=keys or None,
        confkey=list(foreign.columns) if foreign else None,
        confdelsetcols=list(foreign.delete_set) if foreign and foreign.delete_set else None,
        conbin=None if expr is None else stored.to_json(expr),
        conenforced=enforced,
        conperiod=period,
    )
    self = ObjectAddress(PG_CONSTRAINT, oid)
    needed = [ObjectAddress(PG_CLASS, rel.oid, number) for number in columns] or [ObjectAddress(PG_CLASS, rel.oid)]
    record_dependencies(session, self, needed, Dependency.AUTO)
    if foreign:
        record_dependencies(
            session,
            self,
            [
                *[ObjectAddress(PG_CLASS, foreign.table, number) for number in foreign.columns],
                ObjectAddress(PG_CLASS, foreign.index),
            ],
        )
    if expr is not None:
        record_expression_dependencies(session, self, expr, rel.oid)
    return oid


# --- updates and errors -------------------------------------------------------------------------------------------


def update_constraint(session: Session, oid: int, **values: object) -> None:
    store.update(session, pg_constraint, {"oid": oid}, **values)


def already_exists(name: str, table: str) -> PgError:
    return PgError("42710", f'constraint "{name}" for relation "{table}" already exists')


def does_not_exist(name: str, table: str) -> PgError:
    return PgError("42704", f'constraint "{name}" of relation "{table}" does not exist')


# --- CHECK --------------------------------------------------------------------------------------------------------


def cook_check(session: Session, rel: Relation, raw: nodes.Expr) -> Expr:
    """A CHECK as a typed tree, which must be boolean (cookConstraint)."""
    scope = scope_of_relation(session, rel)
    return assign_collations(coerce_to_boolean(scope, transform(scope, raw, ExprKind.CHECK), "CHECK"))


def add_checks(
    session: Session, rel: Relation, checks: Iterable[Check], *, merge: bool, count: int | None = None
) -> list[tuple[str, Check]]:
    """Add CHECK constraints, as AddRelationNewConstraints does. Returns the new ones with their names, without those
    merged into existing ones. `count` is the number of CHECKs the relation has so far."""
    added: list[tuple[str, Check]] = []
    names: list[str] = []
    for check in checks:
        name = check.name
        if name is not None:
            if name in names:
                raise PgError("42710", f'check constraint "{name}" already exists')
            names.append(name)
            if merge_with_existing(session, rel, name, check, merge=merge):
                continue
        else:
            name = choose_constraint_name(
                session, rel.name, _only_column(rel, check.expr), "check", rel.namespace, names
            )
            names.append(name)
        store_check(session, rel, name, check)
        added.append((name, check))
    if added:
        total = (rel.checks if count is None else count) + len(added)
        store.update(session, pg_class, {"oid": rel.oid}, relchecks=total)
    return added


def _only_column(rel: Relation, expr: Expr) -> str | None:
    """The column of a CHECK that is about one column only."""
    numbers = {node.attnum for node in walk(expr) if isinstance(node, Var)}
    if len(numbers) != 1:
        return None
    number = numbers.pop()
    attribute = rel.attribute_by_number(number)
    return SYSTEM_NAMES.get(number) if attribute is None else attribute.name


def store_check(session: Session, rel: Relation, name: str, check: Check) -> int:
    """Stores a CHECK constraint (StoreRelCheck)."""
    if check.no_inherit and rel.kind == "p":
        raise PgError("42P16", f'cannot add NO INHERIT constraint to partitioned table "{rel.name}"')
    columns = list(dict.fromkeys(node.attnum for node in walk(check.expr) if isinstance(node, Var)))
    return store_constraint(
        session,
        rel,
        name,
        "c",
        columns=columns,
        valid=check.valid,
        expr=check.expr,
        local=check.local,
        inhcount=check.inhcount,
        no_inherit=check.no_inherit,
        enforced=check.enforced,
    )


def merge_with_existing(session: Session, rel: Relation, name: str, check: Check, *, merge: bool) -> bool:
    """Merge a CHECK into an equal one of the relation, as MergeWithExistingConstraint does. False: no constraint has
    the name; an error if another one has it."""
    row = constraint_named(session, rel.oid, name)
    if row is None:
        return False
    same = row.contype == "c" and stored.from_json(row.conbin, session) == check.expr
    if check.local and not row.conislocal and not rel.is_partition:
        merge = True
    if not same or not merge:
        raise already_exists(name, rel.name)
    what = f'on relation "{rel.name}"'
    if row.connoinherit:
        raise PgError("42P17", f'constraint "{name}" conflicts with non-inherited constraint {what}')
    if row.coninhcount > 0 and check.no_inherit:
        raise PgError("42P17", f'constraint "{name}" conflicts with inherited constraint {what}')
    if check.valid and row.conenforced and not row.convalidated:
        raise PgError("42P17", f'constraint "{name}" conflicts with NOT VALID constraint {what}')
    if check.enforced != bool(row.conenforced) and check.local != check.enforced:
        raise PgError("42P17", f'constraint "{name}" conflicts with NOT ENFORCED constraint {what}')
    session.notice("NOTICE", f'merging constraint "{name}" with inherited definition')
    values: dict[str, object] = {}
    if rel.is_partition:
        values = {"coninhcount": 1, "conislocal": False}
    elif check.local:
        values = {"conislocal": True}
    else:
        values = {"coninhcount": row.coninhcount + 1}
    if check.no_inherit:
        values["connoinherit"] = True
    if check.enforced and not row.conenforced:
        values |= {"conenforced": True, "convalidated": True}
    update_constraint(session, row.oid, **values)
    return True


def set_parent_constraint(session: Session, child: int, parent: int, child_table: int) -> None:
    """Tie a partition's constraint to the one of its parent, or (parent 0) untie it, as ConstraintSetParentConstraint
    does."""
    row = constraint_row(session, child)
    self = ObjectAddress(PG_CONSTRAINT, child)
    if parent:
        if row.conparentid:
            raise PgError("XX000", f"constraint {child} already has a parent constraint")
        update_constraint(session, child, conislocal=False, coninhcount=row.coninhcount + 1, conparentid=parent)
        record_dependency(session, self, ObjectAddress(PG_CONSTRAINT, parent), Dependency.PARTITION_PRI)
        record_dependency(session, self, ObjectAddress(PG_CLASS, child_table), Dependency.PARTITION_SEC)
    else:
        update_constraint(session, child, conislocal=True, coninhcount=row.coninhcount - 1, conparentid=0)
        forget_dependencies(session, self, refclassid=PG_CONSTRAINT, kind=Dependency.PARTITION_PRI)
        forget_dependencies(session, self, refclassid=PG_CLASS, kind=Dependency.PARTITION_SEC)
