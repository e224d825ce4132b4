"""Statements that change rows through a view: they become statements on the table behind it (rewriteTargetView)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import PgError
from pgrepl.expr import lookup
from pgrepl.expr.dml.defaults import with_defaults
from pgrepl.expr.dml.levels import map_level
from pgrepl.expr.dml.plan import TARGET, Assignment, CheckOption, Command, Conflict, Merge, Modify
from pgrepl.expr.range_table import relation_rte
from pgrepl.expr.rewrite import view_query, view_role
from pgrepl.expr.tree import BoolExpr, Const, Expr, Join, Query, RangeRef, RowExpr, Rte, RteKind, SubLink, Var
from pgrepl.expr.updatable import ONE_TABLE, why_not_updatable
from pgrepl.frozen import frozen
from pgrepl.query.columns import used_columns
from pgrepl.rows.trigger_data import TriggerEvent
from pgrepl.rows.triggers import has_instead_trigger
from pgrepl.sql.nodes import BoolOp
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
    return with_defaults(session, modify), levels


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
    """As view_col_is_auto_updatable does."""
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
        if modify.conflict is not None and modify.conflict.excluded:
            table = relation(self.session, self.rte.relid)
            rtable[modify.conflict.excluded - 1] = relation_rte(table, "excluded")
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
        found = []
        for each in assigned:
            column = self.exprs[each.attnum]
            assert isinstance(column, Var)
            found.append(Assignment(column.attnum, self._mapped(each.expr)))
        return tuple(found)

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

        def other(var: Var, depth: int) -> Expr | None:
            if var.varno not in (TARGET, excluded):
                return None
            if var.attnum > 0:
                return self._own(self.exprs[var.attnum], var.varno, depth)
            if var.attnum == 0:
                args = tuple(self._own(e, var.varno, depth) for e in self.exprs.values())
                return RowExpr(lookup.row_type(self.session, self.view.oid), args=args)
            return None

        return map_level(expr, other)

    def _own(self, expr: Expr, varno: int, depth: int) -> Expr:
        """An expression of the view over the table, used `depth` levels further in."""

        def other(var: Var, inside: int) -> Expr | None:
            return replace(var, varno=varno, levelsup=var.levelsup + depth)

        return map_level(expr, other)
