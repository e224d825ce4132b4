"""Statements that change rows through a view become statements on the table behind it (rewriteTargetView); privileges,
and read-only transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import acl
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_writable
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.lookup import TABLEOID, relation_rte
from pgrepl.expr.dml_tree import TARGET, Assignment, CheckOption, Command, Conflict, Merge, Modify
from pgrepl.expr.rewrite.dml_defaults import with_defaults
from pgrepl.expr.rewrite.dml_queries import if_there, map_level, row_versions
from pgrepl.expr.rewrite.views import ONE_TABLE, view_query, view_role, why_not_updatable
from pgrepl.expr.rewrite.virtual import modify_with_virtual_columns
from pgrepl.expr.tree import (
    MERGE_ACTION,
    BoolExpr,
    Const,
    Expr,
    Join,
    Query,
    RangeRef,
    RowExpr,
    Rte,
    RteKind,
    SubLink,
    Target,
    Var,
)
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query import run
from pgrepl.query.reads import used_columns
from pgrepl.rows.triggers import TriggerEvent, has_instead_trigger
from pgrepl.sql.nodes import BoolOp
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.expr.tree import Cte

_WORDS = {
    Command.INSERT: ("insert into", "inserting into"),
    Command.UPDATE: ("update", "updating"),
    Command.DELETE: ("delete from", "deleting from"),
}
_COLUMN_WORDS = {Command.INSERT: "insert into", Command.UPDATE: "update", Command.MERGE: "merge into"}


@frozen
class ViewLevel:
    """The statement on one relation on the way to the table, and the role whose privileges count there."""

    modify: Modify
    role: int
    where: Query | None = None  # the view's query, for privileges on all that it reads beside its table
    shown: frozenset[int] = frozenset()  # the table's columns that the view uses


def on_tables(session: Session, written: Modify) -> tuple[Modify, list[ViewLevel]]:
    """The statement on the base table with all defaults, and the levels on the way there, from the top. It stays on a
    view with INSTEAD OF triggers."""
    levels = [ViewLevel(written, session.role)]
    modify = written
    while relation(session, modify.relid).kind == "v" and not is_instead(session, modify):
        view = relation(session, modify.relid)
        modify = with_defaults(session, modify)
        modify, where, shown = _through(session, modify, view)
        levels.append(ViewLevel(modify, view_role(session, view), where, shown))
    return modify_with_virtual_columns(session, with_defaults(session, modify)), levels


def is_instead(session: Session, modify: Modify) -> bool:
    """Whether INSTEAD OF triggers of the view carry out the statement."""
    return all(_has_trigger(session, modify.relid, command) for command in modify.commands)


def _has_trigger(session: Session, view: int, command: Command) -> bool:
    return has_instead_trigger(session, view, TriggerEvent(command.value))


def _through(session: Session, modify: Modify, view: Relation) -> tuple[Modify, Query, frozenset[int]]:
    query = _updatable(session, modify, view)
    step = _Step(session, modify, view, query)
    _check_columns(modify, view, step)
    if modify.merge is not None:
        _check_no_trigger(session, modify, view)
    own = list(query.rtable)
    own[step.base - 1] = replace(step.rte, kind=RteKind.VALUES, relid=0)
    shown = used_columns(query).get(step.base, frozenset())
    return step.rewritten(), replace(query, targets=(), rtable=tuple(own)), shown


def _updatable(session: Session, modify: Modify, view: Relation) -> Query:
    query = None if view.is_system else view_query(session, view.oid)
    problem = ONE_TABLE if query is None else why_not_updatable(query)
    if problem is None:
        assert query is not None
        return query
    command = next(c for c in modify.commands if modify.merge is None or not _has_trigger(session, view.oid, c))
    word, doing = _WORDS[command]
    name = command.value
    hint = f"To enable {doing} the view, provide an INSTEAD OF {name} trigger"
    hint += f" or an unconditional ON {name} DO INSTEAD rule."
    if modify.merge is not None:
        hint = f"To enable {doing} the view using MERGE, provide an INSTEAD OF {name} trigger."
    raise PgError("55000", f'cannot {word} view "{view.name}"', detail=problem, hint=hint)


def _check_no_trigger(session: Session, modify: Modify, view: Relation) -> None:
    """A MERGE is carried out by triggers altogether or not at all."""
    if any(_has_trigger(session, view.oid, command) for command in modify.commands):
        raise PgError(
            "0A000",
            f'cannot merge into view "{view.name}"',
            detail="MERGE is not supported for views with INSTEAD OF triggers for some actions but not all.",
            hint="To enable merging into the view, either provide a full set of INSTEAD OF triggers or drop the "
            "existing INSTEAD OF triggers.",
        )


def _check_columns(modify: Modify, view: Relation, step: _Step) -> None:
    """Only view columns that are columns of the table can be given values."""
    conflict = modify.conflict
    named = {*modify.named, *(a.attnum for a in modify.assigned)}  # a default of the view's own is given, too
    if modify.merge is not None:
        named |= {a.attnum for action in modify.merge.actions for a in action.assigned}
    if conflict is not None and conflict.assigned is not None:
        named |= {a.attnum for a in conflict.assigned}
    for column in view.columns:
        if column.num not in named:
            continue
        problem = _problem(step.exprs[column.num], step.base)
        if problem is not None:
            word = _COLUMN_WORDS[modify.command]
            message = f'cannot {word} column "{column.name}" of view "{view.name}"'
            raise PgError("0A000", message, detail=problem)


def _problem(expr: Expr, base: int) -> str | None:
    """Why a column of a view is not updatable; None: it is (view_col_is_auto_updatable)."""
    if not isinstance(expr, Var) or expr.varno != base or expr.levelsup:
        return "View columns that are not columns of their base relation are not updatable."
    if expr.attnum < 0:
        return "View columns that refer to system columns are not updatable."
    if expr.attnum == 0:
        return "View columns that return whole-row references are not updatable."
    return None


class _Step:
    """One view on the way to the table."""

    def __init__(self, session: Session, modify: Modify, view: Relation, query: Query) -> None:
        self.session = session
        self.modify = modify
        self.view = view
        self.query = query
        source = query.from_[0]
        assert isinstance(source, RangeRef)
        self.base = source.varno
        self.rte: Rte = query.rtable[self.base - 1]
        shown = [t.expr for t in query.targets if not t.junk]
        self.exprs = dict(enumerate(shown, 1))

    def rewritten(self) -> Modify:
        modify = self.modify
        where = self._mapped_optional(modify.where)
        own = self.query.where
        checks = modify.check_options
        if own is not None:
            condition = self._own(own, TARGET, 0)
            if modify.command is not Command.INSERT:
                where = condition if where is None else BoolExpr(oids.BOOL, op=BoolOp.AND, args=(condition, where))
        if modify.command is not Command.DELETE:
            checks = (*self._check_option(), *(replace(c, expr=self._mapped(c.expr)) for c in checks))
        rtable = list(modify.rtable)
        rtable[TARGET - 1] = replace(
            self.rte, name=modify.rtable[TARGET - 1].name, alias=modify.rtable[TARGET - 1].alias
        )
        table = relation(self.session, self.rte.relid)
        if modify.conflict is not None and modify.conflict.excluded:
            rtable[modify.conflict.excluded - 1] = relation_rte(table, "excluded")
        for varno, version in row_versions(modify).items():
            rtable[varno - 1] = replace(relation_rte(table, rtable[varno - 1].alias), version=version)
        return replace(
            modify,
            relid=self.rte.relid,
            rtable=tuple(rtable),
            from_=tuple(self._join(item) for item in modify.from_),
            where=where,
            assigned=self._assigned(modify.assigned),
            named=self._named(modify.named),
            returning=tuple(replace(t, expr=self._mapped(t.expr)) for t in modify.returning),
            multi=tuple(self._link(link) for link in modify.multi),
            conflict=self._conflict(modify.conflict) if modify.conflict is not None else None,
            check_options=checks,
            merge=self._merge(modify.merge) if modify.merge is not None else None,
        )

    def _assigned(self, assigned: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        mapped = []
        for assignment in assigned:
            column = self.exprs[assignment.attnum]
            assert isinstance(column, Var)
            mapped.append(Assignment(column.attnum, self._mapped(assignment.expr)))
        return tuple(mapped)

    def _named(self, named: frozenset[int]) -> frozenset[int]:
        return frozenset(e.attnum for n in named if isinstance(e := self.exprs[n], Var))

    def _merge(self, merge: Merge) -> Merge:
        actions = tuple(
            replace(
                action,
                condition=self._mapped_optional(action.condition),
                assigned=self._assigned(action.assigned),
                named=self._named(action.named),
                multi=tuple(self._link(link) for link in action.multi),
            )
            for action in merge.actions
        )
        return Merge(self._mapped(merge.condition), actions)

    def _conflict(self, conflict: Conflict) -> Conflict:
        return replace(
            conflict,
            elements=tuple(replace(e, expr=self._mapped(e.expr)) for e in conflict.elements),
            arbiter_where=self._mapped_optional(conflict.arbiter_where),
            assigned=self._assigned(conflict.assigned) if conflict.assigned is not None else None,
            where=self._mapped_optional(conflict.where),
            multi=tuple(self._link(link) for link in conflict.multi),
        )

    def _check_option(self) -> tuple[CheckOption, ...]:
        """WITH CHECK OPTION: a cascaded one applies to the views below, too."""
        option = next((o.partition("=")[2] for o in self.view.options or () if o.startswith("check_option=")), None)
        above = self.modify.check_options
        cascaded = option == "cascaded" or any(c.cascaded for c in above)
        if (option is None and not cascaded) or self.query.where is None:
            return (CheckOption("", Const(oids.BOOL, value=True), True),) if cascaded else ()
        return (CheckOption(self.view.name, self._own(self.query.where, TARGET, 0), cascaded),)

    def _link(self, link: SubLink) -> SubLink:
        mapped = self._mapped(link)
        assert isinstance(mapped, SubLink)
        return mapped

    def _join(self, item: RangeRef | Join) -> RangeRef | Join:
        if isinstance(item, RangeRef):
            return item
        quals = self._mapped_optional(item.quals)
        return replace(item, left=self._join(item.left), right=self._join(item.right), quals=quals)

    def _mapped_optional(self, expr: Expr | None) -> Expr | None:
        return self._mapped(expr) if expr is not None else None

    def _mapped(self, expr: Expr) -> Expr:
        """The expression with the view's columns replaced by their expressions."""
        excluded = self.modify.conflict.excluded if self.modify.conflict is not None else 0
        versions = row_versions(self.modify)

        def other(var: Var, depth: int) -> Expr | None:
            if var.varno not in (TARGET, excluded, *versions) or var.attnum < 0:
                return None
            if var.attnum > 0:
                own = self._own(self.exprs[var.attnum], var.varno, depth)
            else:
                args = tuple(self._own(e, var.varno, depth) for e in self.exprs.values())
                own = RowExpr(lookup.row_type(self.session, self.view.oid), args=args)
            if var.varno in versions and not (isinstance(own, Var) and own.varno == var.varno):
                return if_there(own, Var(oids.OID, varno=var.varno, attnum=TABLEOID, levelsup=depth))
            return own

        return map_level(expr, other)

    def _own(self, expr: Expr, varno: int, depth: int) -> Expr:
        """An expression of the view over the table, used `depth` levels further in."""

        def other(var: Var, inside: int) -> Expr | None:
            return replace(var, varno=varno, levelsup=var.levelsup + depth)

        return map_level(expr, other)


# --- permissions ------------------------------------------------------------------------------------------------------


def check(session: Session, levels: Sequence[ViewLevel]) -> None:
    """Check the privilege to change the target, and SELECT on everything that the statement reads. Behind a view the
    view's owner changes the table, and must be able to read all columns that the view uses, if the statement reads the
    view (rewriteTargetView)."""
    everything = _as_query(levels[0].modify)
    columns = _read_columns(everything, levels[0].modify)
    for level in levels:
        target = relation(session, level.modify.relid)
        asked = columns if level is levels[0] or not columns else level.shown
        if not _allowed(session, target, level.modify, asked, level.role):
            raise acl.permission_denied(target)
        read = level.where
        if level is levels[0]:
            hidden = {TARGET}
            if level.modify.conflict is not None:
                hidden.add(level.modify.conflict.excluded)
            read = _without(everything, hidden)
            run.check_functions(session, read)
        if read is not None:
            run.check(session, read, level.role)


def _without(query: Query, hidden: set[int]) -> Query:
    """The query with the hidden relations as VALUES, so that no privilege on them is checked."""
    rtable = tuple(
        replace(rte, kind=RteKind.VALUES, relid=0) if n in hidden else rte for n, rte in enumerate(query.rtable, 1)
    )
    return replace(query, rtable=rtable)


def _as_query(modify: Modify) -> Query:
    """All expressions that the statement has, as if they were the columns of a query."""
    exprs = [a.expr for a in modify.assigned] + [t.expr for t in modify.returning]
    exprs += modify.merge.exprs if modify.merge is not None else ()
    conflict = modify.conflict
    if conflict is not None:
        exprs += [e.expr for e in conflict.elements]
        exprs += [a.expr for a in conflict.assigned or ()]
        exprs += [e for e in (conflict.arbiter_where, conflict.where) if e is not None]
    return Query(
        tuple(Target(expr, "", n) for n, expr in enumerate(exprs, 1)),
        modify.rtable,
        modify.from_ if modify.command is not Command.INSERT else tuple(modify.from_) or (RangeRef(TARGET),),
        modify.where,
        ctes=modify.ctes,
        recursive=modify.recursive,
    )


def _read_columns(query: Query, modify: Modify) -> frozenset[int]:
    by_relation = used_columns(query)
    used = by_relation.get(TARGET, frozenset()) - {MERGE_ACTION}
    if modify.conflict is not None:
        # `excluded` has the rights of the table
        used |= modify.conflict.constraint_columns | by_relation.get(modify.conflict.excluded, frozenset())
    return used


def _allowed(session: Session, target: Relation, modify: Modify, read: frozenset[int], role: int) -> bool:
    commands, named = modify.commands, modify.named_by
    if Command.DELETE in commands and not acl.has_table_privilege(session, target, "DELETE", role):
        return False
    if Command.INSERT in commands and not may_use(session, target, "INSERT", named(Command.INSERT), role):
        return False
    updated = named(Command.UPDATE) if Command.UPDATE in commands else None
    conflict = modify.conflict
    if conflict is not None and conflict.assigned is not None:
        updated = frozenset(a.attnum for a in conflict.assigned)
    if updated is not None and not may_use(session, target, "UPDATE", updated, role):
        return False
    if not read and not (modify.merge is not None and any(action.command is None for action in modify.merge.actions)):
        return True
    wanted = read if 0 not in read else {*read, *(a.num for a in target.columns)} - {0}
    return may_use(session, target, "SELECT", wanted, role)


def may_use(
    session: Session, target: Relation, privilege: str, columns: Collection[int], role: int | None = None
) -> bool:
    """The privilege on each named column; on any column if none is named (ExecCheckPermissionsModified)."""
    if acl.has_table_privilege(session, target, privilege, role):
        return True
    if not columns:
        return any(acl.has_column_privilege(session, target, a.num, privilege, role) for a in target.columns)
    return all(acl.has_column_privilege(session, target, n, privilege, role) for n in columns)


def check_writable(session: Session, what: str, ctes: Iterable[Cte], *statements: Modify) -> None:
    """Refuse, in a transaction that only reads, a statement and those in its WITH list unless every table and view on
    the way is temporary."""
    for modify in (*(cte.modify for cte in ctes if cte.modify is not None), *statements):
        for level in on_tables(session, modify)[1]:
            if relation(session, level.modify.relid).persistence != "t":
                require_writable(session, what)
