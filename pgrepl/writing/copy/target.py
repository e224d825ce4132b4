"""The target of COPY FROM: the table, the columns in the file, the defaults of the others, and the WHERE condition.

It is computed before the client is asked for its data, so that a wrong statement fails at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import permission_denied
from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.expr.analyse.analyze import analyze_where
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.catalog_trees import column_default
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import functions_used, var_attnums, volatilities, walk
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.writing.copy.copy_options import CopyOptions, copied_columns, forced, open_relation
from pgrepl.writing.copy.reader import CopyColumn
from pgrepl.writing.views import may_use

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import CopyStmt

_NEXTVAL = 1574


@frozen
class CopyTarget:
    relation: Relation
    columns: tuple[Attribute, ...]  # those that the file gives, in its order
    listed: bool  # the statement names them
    defaults: dict[int, Expr]  # by attnum, of all columns that have one, but for generated ones
    where: Expr | None
    force_not_null: tuple[bool, ...]
    force_null: tuple[bool, ...]

    @property
    def attnums(self) -> tuple[int, ...]:
        return tuple([column.num for column in self.columns])

    @property
    def left_out(self) -> list[tuple[int, Expr]]:
        """The columns that always get their default."""
        given = set(self.attnums)
        return [(number, expr) for number, expr in self.defaults.items() if number not in given]

    def copy_columns(self) -> list[CopyColumn]:
        flags = zip(self.columns, self.force_not_null, self.force_null, strict=True)
        return [
            CopyColumn(a.name, a.type, a.typmod, a.num in self.defaults, not_null, null) for a, not_null, null in flags
        ]


def find_target(session: Session, stmt: CopyStmt) -> CopyTarget:
    """The target before options are applied (DoCopy)."""
    assert stmt.relation is not None
    rel = open_relation(session, stmt.relation)
    where = _condition(session, rel, stmt) if stmt.where is not None else None
    columns = copied_columns(rel, stmt.columns)
    _check_privileges(session, rel, columns, where)
    defaults = {}
    for column in rel.columns:
        default = column_default(session, rel, column)
        if default is not None:
            defaults[column.num] = default
    no = (False,) * len(columns)
    return CopyTarget(rel, tuple(columns), bool(stmt.columns), defaults, where, no, no)


def with_options(target: CopyTarget, options: CopyOptions) -> CopyTarget:
    """The target with the columns that options name: they are looked up once all options have been read."""
    names = [column.name for column in target.columns]
    return replace(
        target,
        force_not_null=tuple(forced("FORCE_NOT_NULL", options.force_not_null, names, target.relation)),
        force_null=tuple(forced("FORCE_NULL", options.force_null, names, target.relation)),
    )


def _condition(session: Session, rel: Relation, stmt: CopyStmt) -> Expr:
    assert stmt.where is not None
    scope = scope_of_relation(session, rel)
    where = assign_collations(analyze_where(scope, stmt.where, ExprKind.COPY_WHERE, "WHERE"))
    used = var_attnums(where)
    for column in rel.columns:
        if column.generated and (column.num in used or 0 in used):
            raise PgError(
                "42P10",
                "generated columns are not supported in COPY FROM WHERE conditions",
                detail=f'Column "{column.name}" is a generated column.',
            )
    return where


def _check_privileges(session: Session, rel: Relation, columns: list[Attribute], where: Expr | None) -> None:
    """INSERT on the columns filled, SELECT on the columns that the condition reads."""
    read = var_attnums(where) if where is not None else ()
    wanted = [a.num for a in rel.columns] if 0 in read else sorted(read)
    allowed = may_use(session, rel, "INSERT", [column.num for column in columns])
    if not allowed or (read and not may_use(session, rel, "SELECT", wanted)):
        raise permission_denied(rel)


def one_by_one(target: CopyTarget, options: CopyOptions) -> bool:
    """Whether PostgreSQL would insert each row before it reads the next: a default or the condition might look at the
    table. It decides which of several faults is met first."""
    asked = target.left_out if options.default is None else target.defaults.items()
    if any(_is_volatile(expr, nextval_too=False) for _, expr in asked):
        return True
    return target.where is not None and _is_volatile(target.where, nextval_too=True)


def _is_volatile(expr: Expr, *, nextval_too: bool) -> bool:
    for node in walk(expr):
        if not nextval_too and _NEXTVAL in functions_used(node):
            continue
        if "v" in volatilities(node):
            return True
    return False


def default_values(session: Session, target: CopyTarget) -> dict[int, Callable[[], Any]]:
    """A function for each column with a default that computes it."""
    context = Context(session)

    def value_of(expr: Expr) -> Callable[[], Any]:
        compiled = compile(expr, context)
        return lambda: compiled(())

    return {number: value_of(expr) for number, expr in target.defaults.items()}
