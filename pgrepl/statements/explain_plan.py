"""The plan of a query as nodes: scans with what they read of files, joins, groups, and the steps above them.

It shows the steps, not the order in which the engine takes them: Spark joins in an order of its own, which VERBOSE
shows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import schema_name
from pgrepl.catalog.facts.relation import relation
from pgrepl.engine.choice import Choice, Engine
from pgrepl.expr.analyse.queries.merge import joined_query
from pgrepl.expr.dml_tree import Command
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import insert_query, target_rows_query
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind, SetOperation, SubLink, has_modifying_cte
from pgrepl.expr.walk import returns_set, walk
from pgrepl.ground.errors import Declined
from pgrepl.lake.read.extent import skipping
from pgrepl.lake.read.files import Extent
from pgrepl.lake.read.local import answered
from pgrepl.lake.table import lake_table
from pgrepl.query.engine_choice import choose
from pgrepl.query.group_columns import ends_asked
from pgrepl.query.local.join_plan import equality, next_operand, relations_of
from pgrepl.query.local.joins import required_outer_of, take_early
from pgrepl.query.local.select import postponed
from pgrepl.query.local.sublinks import bare
from pgrepl.query.reads import bounds_of, conjuncts
from pgrepl.query.rowset import passing_rows
from pgrepl.query.shape import is_user_table, uses_groups
from pgrepl.rows.changes import Member, members
from pgrepl.sql.nodes import JoinType, SetOp, SubLinkType
from pgrepl.statements.explain_options import Texts, kilobytes
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.dml_tree import Conflict, Modify
    from pgrepl.ground.memory import Instruments, TriggerCalls
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.query.reads import Bounds
    from pgrepl.query.rowset import PassingRows, SparkRows
    from pgrepl.query.spark.statement import Wanted
    from pgrepl.statements.explain_options import Memory, Serialization

_ROW_BY_ROW = Choice(Engine.LOCAL, "statements in WITH change rows")


@dataclass
class Actual:
    """Rows and times of a node, on average over its runs; `startup` and `total` in seconds, None if not known."""

    rows: int
    loops: int = 1
    startup: float | None = None
    total: float | None = None
    removed: dict[str, tuple[int, bool]] = field(default_factory=dict)  # by Filter, Join Filter; whether any at all


@dataclass
class PlanNode:
    title: str
    details: dict[str, str | list[str] | int] = field(default_factory=dict)
    children: list[PlanNode] = field(default_factory=list)
    rows: int | None = None  # that it reads
    label: str = ""  # CTE a, SubPlan 1
    counted: tuple[object, Hashable] | None = None  # where EXPLAIN ANALYZE finds its counts
    projects: bool = False  # the targets of the query are computed here
    asks: bool = False  # its filter has subqueries
    actual: Actual | None = None
    engine: Choice | None = None  # of the top node
    named: dict[str, str] = field(default_factory=dict)  # what the title says, by the names that other formats use


def attach(plan: PlanNode, instruments: Instruments) -> None:
    """Add the counts of `instruments` to the node and to those below it."""
    for node in plan.children:
        attach(node, instruments)
    instrument = None if plan.counted is None else instruments.find(*plan.counted)
    if instrument is None or plan.counted is None:
        return
    loops = instrument.loops or 1
    plan.actual = Actual(round(instrument.rows / loops), instrument.loops)
    targets = instruments.find(plan.counted[0], "targets") if plan.projects else None
    times = targets or instrument
    if times.is_timed:
        plan.actual.startup, plan.actual.total = times.startup / loops, times.total / loops
    for name, removed in (("Filter", instrument.removed), ("Join Filter", instrument.joins_removed)):
        plan.actual.removed[name] = round(removed / loops), removed > 0


def spark_nodes(plan: PlanNode) -> Iterator[Wanted]:
    """The nodes whose rows Spark may count."""
    from pgrepl.query.spark.statement import Wanted

    for child in plan.children:
        yield from spark_nodes(child)
    if plan.counted is not None and not plan.asks:
        query, step = plan.counted
        groups = "Aggregate" in plan.title or plan.title == "Unique"
        if groups or isinstance(step, frozenset):
            yield Wanted(query, step, frozenset(_relations(plan)), groups, "Filter" in plan.details)


def spread(plan: PlanNode, *, limited: bool = False) -> None:
    """Sort and WindowAgg have as many rows as the node below: copy the count from the one that has it to the other.
    `limited`: a Limit above may not ask for all rows."""
    alike = plan.title in ("Sort", "WindowAgg") and not limited
    for child in plan.children:
        if alike and not child.label and child.actual is None and plan.actual is not None:
            child.actual = Actual(plan.actual.rows)
        spread(child, limited=limited or plan.title == "Limit")
        if alike and not child.label and child.actual is not None and plan.actual is None:
            plan.actual = Actual(child.actual.rows)


def _relations(plan: PlanNode) -> Iterator[tuple[object, Hashable]]:
    """The relations below a node."""
    if plan.counted is not None and isinstance(plan.counted[1], frozenset) and len(plan.counted[1]) == 1:
        if not any(child.projects for child in _below(plan)):
            yield plan.counted
            return
    for child in plan.children:
        if not child.label:
            yield from _relations(child)


def _below(plan: PlanNode) -> Iterator[PlanNode]:
    for child in plan.children:
        if not child.label:
            yield child
            yield from _below(child)


@dataclass
class Explained:
    plan: PlanNode
    session: Session
    query: Query | None = None  # its views expanded
    choice: Choice | None = None
    appendix: list[str] = field(default_factory=list)  # Spark's SQL and physical plan
    triggers: list[TriggerCalls] = field(default_factory=list)  # those that the statement has called
    names_tables: bool = False  # are they of several tables, or of a partition?
    settings: dict[str, str] = field(default_factory=dict)  # with SETTINGS
    memory: Memory | None = None  # with MEMORY
    serialization: Serialization | None = None  # with SERIALIZE

    def rows(self) -> PassingRows | SparkRows:
        assert self.query is not None
        return passing_rows(self.session, self.query, expanded=True, choice=self.choice)


def explain_query(session: Session, query: Query, verbose: bool, choice: Choice | None = None) -> Explained:
    """`choice`: that of the statement that the query is part of."""
    expanded, context = expand_views(session, query), Context(session)
    appendix: list[str] = []
    choice = choice or (_ROW_BY_ROW if has_modifying_cte(query.ctes) else choose(session, expanded, context))
    planner = _Planner(session, context, verbose=verbose)
    if choice.engine is Engine.COLUMNS:
        planner.ends = ends_asked(expanded)
    plan = planner.query(expanded, None)
    plan.engine = _engine(session, expanded, context, choice, verbose, appendix)
    return Explained(plan, session, expanded, choice, appendix)


def explain_modify(session: Session, modify: Modify, verbose: bool) -> Explained:
    from pgrepl.writing.planning import plan as plan_of
    from pgrepl.writing.run import with_choice

    planned = plan_of(session, modify)
    if has_modifying_cte(modify.ctes):
        node = _Planner(session, Context(session), verbose=verbose).modify(planned.modify)
        node.engine = _ROW_BY_ROW
        return Explained(node, session, None, _ROW_BY_ROW)
    planned = with_choice(session, planned)
    modify, choice = planned.modify, planned.choice
    assert choice is not None
    by_sql = choice.on_spark and not choice.kernels
    inner = explain_query(
        session, _rows_to_change(session, modify, on_spark=by_sql), verbose, choice if by_sql else None
    )
    plan = _modify_node(session, modify, inner.plan, verbose=verbose)
    plan.engine = inner.plan.engine if by_sql else choice
    inner.plan.engine = None
    return Explained(plan, session, None, inner.choice, inner.appendix)


def _rows_to_change(session: Session, modify: Modify, *, on_spark: bool = False) -> Query:
    """The query of the rows that a statement changes."""
    if modify.command is Command.INSERT:
        return insert_query(session, modify)
    if modify.command is Command.MERGE:
        return joined_query(session, modify, on_spark=on_spark).query
    return target_rows_query(session, modify).query


def _modify_node(session: Session, modify: Modify, rows: PlanNode, *, verbose: bool) -> PlanNode:
    """The node over the one that finds the rows. The queries in WITH belong to it."""
    lists = [child for child in rows.children if child.label.startswith("CTE ")]
    rows.children = [child for child in rows.children if not child.label.startswith("CTE ")]
    changed, operation = relation(session, modify.relid), modify.command.value.capitalize()
    alias = next((entry.name for entry in modify.rtable if entry.relid == changed.oid), changed.name)
    title = f"{operation} on {changed.name}"
    kind = {"Node Type": "ModifyTable", "Operation": operation}
    plan = PlanNode(title, children=[*lists, rows], named=kind | _target(session, changed.oid, alias, verbose=verbose))
    if modify.conflict is not None:
        plan.details.update(_conflict(session, modify, modify.conflict))
    return plan


def _target(session: Session, relid: int, alias: str, *, verbose: bool) -> dict[str, str]:
    """The relation of a node (ExplainTargetRel)."""
    rel = relation(session, relid)
    schema = {"Schema": schema_name(session, rel.namespace)} if verbose else {}
    return {"Relation Name": rel.name, **schema, "Alias": alias}


def _conflict(session: Session, modify: Modify, conflict: Conflict) -> Iterator[tuple[str, str | list[str]]]:
    from pgrepl.rows.arbiters import arbiter_indexes

    yield "Conflict Resolution", "NOTHING" if conflict.assigned is None else "UPDATE"
    arbiters = arbiter_indexes(session, modify, conflict)
    if arbiters:
        yield "Conflict Arbiter Indexes", [relation(session, oid).name for oid in sorted(arbiters)]
    if conflict.where is not None:
        yield "Conflict Filter", Texts(session, Query((), modify.rtable), None).text(conflict.where)


def _engine(
    session: Session, query: Query, context: Context, choice: Choice, verbose: bool, appendix: list[str]
) -> Choice:
    """The final choice: a query that Spark declines is carried out in this process."""
    if not choice.on_spark:
        return choice
    from pgrepl.query.spark import physical_plan, sql_of

    try:
        job, text = sql_of(session, query, context)
        if verbose:
            appendix += [f"Spark SQL: {text}", physical_plan(job, text)]
    except Declined as reason:
        return Choice(Engine.LOCAL, f"not on Spark: {reason}")
    return choice


class _Planner:
    def __init__(self, session: Session, context: Context, *, verbose: bool) -> None:
        self.session = session
        self.context = context
        self.verbose = verbose
        self.ends: set[int] | None = None  # the columns of the only table whose ends are asked, by columns

    def query(self, query: Query, parent: Texts | None, *, recursive: bool = False) -> PlanNode:
        texts = Texts(self.session, query, parent)
        with_queries = []
        for cte in query.ctes:
            if cte.modify is not None:
                node = self.statement(cte.modify)
            else:
                node = self.query(cte.query, texts, recursive=cte.recursive)
            node.label = f"CTE {cte.name}"
            with_queries.append(node)
        if query.set_operation is not None:
            union = self._recursive_union if recursive else self._set_operation
            plan = union(query, query.set_operation, texts)
        else:
            plan = self._select(query, texts)
        plan = self._finished(query, plan, texts)
        subplans = []
        for number, link in enumerate(texts.subplans, 1):
            assert link.query is not None
            node = self.query(bare(link.query) if link.kind is SubLinkType.EXISTS else link.query, texts)
            node.label = f"SubPlan {number}"
            subplans.append(node)
        plan.children = [*with_queries, *plan.children, *subplans]
        return plan

    def statement(self, written: Modify) -> PlanNode:
        """A statement in WITH that changes rows."""
        from pgrepl.writing.planning import plan as plan_of

        node = self.modify(plan_of(self.session, written).modify)
        node.counted = (written, "rows")
        return node

    def modify(self, modify: Modify) -> PlanNode:
        rows = expand_views(self.session, _rows_to_change(self.session, modify))
        return _modify_node(self.session, modify, self.query(rows, None), verbose=self.verbose)

    # --- FROM and WHERE -----------------------------------------------------------------------------------------------

    def _select(self, query: Query, texts: Texts) -> PlanNode:
        plan = self._from(query, texts)
        by_resno = {t.resno: t.expr for t in query.targets}
        if uses_groups(query):
            keys = [texts.text(by_resno[g.resno]) for g in query.group]
            named = {"Node Type": "Aggregate", "Strategy": "Hashed" if keys else "Plain"}
            plan = PlanNode("HashAggregate" if keys else "Aggregate", {}, [plan], counted=(query, "group"), named=named)
            if query.grouping_sets is not None:
                names = {g.resno: key for g, key in zip(query.group, keys, strict=True)}
                sets = ["(" + ", ".join(names[r] for r in members) + ")" for members in query.grouping_sets.sets]
                plan.details["Grouping Sets"] = sets
            elif keys:
                plan.details["Group Key"] = keys
            if query.having is not None:
                plan.details["Filter"] = texts.text(query.having)
        if query.windows:
            plan = PlanNode("WindowAgg", {}, [plan], counted=(query, "window"))
        if any(returns_set(t.expr) for t in query.targets) and not _sets_wait(query):
            plan = PlanNode("ProjectSet", {}, [plan], counted=(query, "targets"))
        plan.projects = True
        return plan

    def _from(self, query: Query, texts: Texts) -> PlanNode:
        """As this process joins it (query/local/joins.py)."""
        above = [texts.flat(c) for c in conjuncts(query.where)]
        if not query.from_:
            title = {"One-Time Filter": self._all(above, texts)} if above else {}
            return PlanNode("Result", {**title}, counted=(query, frozenset()))
        bounds = bounds_of(query, self.context)
        parts: list[_Part] = []
        conditions: list[Expr] = []
        for item in query.from_:
            self._flatten(query, item, texts, bounds, parts, conditions, above)
        return self._combine(query, parts, conditions + above, texts).plan

    def _flatten(
        self,
        query: Query,
        item: RangeRef | Join,
        texts: Texts,
        bounds: Bounds,
        parts: list[_Part],
        conditions: list[Expr],
        above: list[Expr],
    ) -> None:
        if isinstance(item, Join) and item.kind in (JoinType.INNER, JoinType.CROSS):
            self._flatten(query, item.left, texts, bounds, parts, conditions, above)
            self._flatten(query, item.right, texts, bounds, parts, conditions, above)
            conditions += [texts.flat(c) for c in conjuncts(item.quals)]
        else:
            parts.append(self._item(query, item, texts, bounds, above))

    def _item(self, query: Query, item: RangeRef | Join, texts: Texts, bounds: Bounds, above: list[Expr]) -> _Part:
        if isinstance(item, RangeRef):
            plan = self._scan(query, item.varno, texts, bounds)
            known = frozenset((item.varno,))
            plan.counted = (query, known)
            return _Part(plan, known, required_outer_of(query.rtable[item.varno - 1]))
        if item.kind in (JoinType.INNER, JoinType.CROSS):
            parts: list[_Part] = []
            conditions: list[Expr] = []
            self._flatten(query, item, texts, bounds, parts, conditions, [])
            return self._combine(query, parts, conditions, texts)
        above = above if item.kind is not JoinType.FULL else []
        outer, inner = (item.right, item.left) if item.kind is JoinType.RIGHT else (item.left, item.right)
        left = self._item(query, outer, texts, bounds, above)
        self._filter(left, take_early(above, left.relations), texts)
        right = self._item(query, inner, texts, bounds, [])
        kind = JoinType.LEFT if item.kind is JoinType.RIGHT else item.kind
        return self._join(query, kind, left, right, [texts.flat(c) for c in conjuncts(item.quals)], texts)

    def _combine(self, query: Query, parts: list[_Part], conditions: list[Expr], texts: Texts) -> _Part:
        waiting, remaining = list(conditions), list(parts)
        everything = frozenset[int]().union(*[p.relations for p in parts])
        outside = frozenset[int]().union(*[p.required_outer for p in parts]) - everything

        def take(known: frozenset[int]) -> list[Expr]:
            ready = [c for c in waiting if relations_of(c) <= known]
            waiting[:] = [c for c in waiting if c not in ready]
            return ready

        current = remaining.pop(0)
        self._filter(current, take(current.relations | outside), texts)
        while remaining:
            chosen = next_operand(current.relations | outside, remaining, waiting)
            remaining.remove(chosen)
            if not chosen.required_outer & current.relations:
                self._filter(chosen, take(chosen.relations), texts)
            tests = take(current.relations | chosen.relations | outside)
            current = self._join(query, JoinType.INNER, current, chosen, tests, texts)
        self._filter(current, waiting, texts)
        return _Part(current.plan, current.relations, outside)

    def _filter(self, part: _Part, conditions: list[Expr], texts: Texts) -> None:
        if conditions:
            before = part.plan.details.pop("Filter", None)
            text = self._all(conditions, texts)
            details = {"Filter": f"({before} AND {text})" if before else text}
            first = {k: v for k, v in part.plan.details.items() if k in ("Hash Cond", "Join Filter")}
            part.plan.details = {**first, **details, **part.plan.details}
            part.plan.asks |= any(isinstance(node, SubLink) for c in conditions for node in walk(c))

    def _join(self, query: Query, kind: JoinType, left: _Part, right: _Part, tests: list[Expr], texts: Texts) -> _Part:
        lateral = bool(right.required_outer & left.relations)
        equal = [c for c in tests if not lateral and equality(c, left.relations, right.relations) is not None]
        rest = [c for c in tests if c not in equal]
        word = "" if kind in (JoinType.INNER, JoinType.CROSS) else f" {kind.value.capitalize()}"
        both = [left.plan, right.plan]
        joined = word.strip() or "Inner"
        if equal:
            named = {"Node Type": "Hash Join", "Join Type": joined}
            plan = PlanNode(f"Hash{word} Join", {"Hash Cond": self._all(equal, texts)}, both, named=named)
        else:
            named = {"Node Type": "Nested Loop", "Join Type": joined}
            plan = PlanNode(f"Nested Loop{word and word + ' Join'}", {}, both, named=named)
        if rest:
            plan.details["Join Filter"] = self._all(rest, texts)
        known = left.relations | right.relations
        plan.counted = (query, known)
        return _Part(plan, known, (left.required_outer | right.required_outer) - left.relations)

    @staticmethod
    def _all(conditions: Iterable[Expr], texts: Texts) -> str:
        listed = [texts.text(c) for c in conditions]
        return listed[0] if len(listed) == 1 else f"({' AND '.join(listed)})"

    # --- scans --------------------------------------------------------------------------------------------------------

    def _scan(self, query: Query, varno: int, texts: Texts, bounds: Bounds) -> PlanNode:
        entry = query.rtable[varno - 1]
        name = texts.name(varno)
        alias = {"Alias": texts.alias(varno)}
        if is_user_table(entry):
            return self._table(query, entry, name, bounds.get(varno, ()), texts, varno)
        if entry.kind is RteKind.SUBQUERY:
            assert entry.subquery is not None
            below = [self.query(entry.subquery, texts)]
            return PlanNode(f"Subquery Scan on {name}", {}, below, named={"Node Type": "Subquery Scan", **alias})
        if entry.kind is RteKind.RELATION:
            title = f"Catalog Scan on {_called(texts.relation(entry.relid), name)}"
            return PlanNode(title, named={"Node Type": "Catalog Scan"} | self._target(entry.relid, texts.alias(varno)))
        if entry.kind is RteKind.FUNCTION:
            called = texts.functions(entry)
            function = {} if "," in called else {"Function Name": called}
            named = {"Node Type": "Function Scan", **function, **alias}
            return PlanNode(f"Function Scan on {_called(called, name)}", named=named)
        if entry.kind is RteKind.CTE:
            kind = "WorkTable Scan" if entry.self_reference else "CTE Scan"
            named = {"Node Type": kind, "CTE Name": entry.cte or "", **alias}
            return PlanNode(f"{kind} on {_called(entry.cte or '', name)}", named=named)
        named = {"Node Type": "Values Scan", **alias}
        return PlanNode(f"Values Scan on {name}", rows=len(entry.values), named=named)

    def _target(self, relid: int, alias: str) -> dict[str, str]:
        return _target(self.session, relid, alias, verbose=self.verbose)

    def _table(
        self, query: Query, entry: Rte, name: str, bounds: Iterable[Bound], texts: Texts, varno: int
    ) -> PlanNode:
        scanned = members(self.session, entry.relid, entry.inh)
        plans = [self._member(member, name, list(bounds), entry) for member in scanned]
        for member, plan in zip(scanned, plans, strict=True):
            alias = texts.alias(varno) if member.relation.oid == entry.relid else member.relation.name
            plan.named = {"Node Type": "Lake Scan"} | self._target(member.relation.oid, alias)
        if len(plans) == 1 and scanned[0].relation.oid == entry.relid:
            return plans[0]
        for member, plan in zip(scanned, plans, strict=True):
            plan.counted = (query, (varno, member.relation.oid))
        named = {"Node Type": "Append"} | self._target(entry.relid, texts.alias(varno))
        return PlanNode(f"Append on {_called(texts.relation(entry.relid), name)}", {}, plans, named=named)

    def _member(self, member: Member, name: str, bounds: list[Bound], entry: Rte) -> PlanNode:
        table = lake_table(self.session, member.relation.oid)
        below = member.bounds(bounds)
        scanned = skipping(self.session, table, below)
        own = member.relation.name
        title = f"Lake Scan on {_called(own, name if member.relation.oid == entry.relid else own)}"
        ends = None if self.ends is None else [member.numbers[n] for n in self.ends]
        known = [] if ends is None else answered(self.session, table, ends)
        left = Extent(
            scanned.extent.rows - sum(file.record_count for file in known),
            scanned.extent.bytes - sum(file.file_size_bytes for file in known),
        )
        plan = PlanNode(title, rows=left.rows + scanned.inlined)

        def said(name: str, read: int, whole: int, unit: str = "", other: str = "skipped") -> None:
            plan.details[name] = f"{read}{unit} read" + (f", {whole - read}{unit} {other}" if below or known else "")

        said("Files", scanned.files - len(known), scanned.all_files, other="by statistics" if known else "skipped")
        if scanned.groups is not None:
            said("Row Groups", scanned.groups, scanned.all_groups)
        if scanned.all_files:
            if below or known:
                said("Rows", left.rows, scanned.whole.rows)
            said("Size", kilobytes(left.bytes), kilobytes(scanned.whole.bytes), "kB")
        if scanned.inlined:
            plan.details["Inlined Rows"] = scanned.inlined
        if below:
            plan.details["Bounds"] = [_bound_text(self.session, member, bound) for bound in below]
        return plan

    # --- steps above --------------------------------------------------------------------------------------------------

    def _finished(self, query: Query, plan: PlanNode, texts: Texts) -> PlanNode:
        by_resno = {t.resno: t.expr for t in query.targets}
        if query.distinct is not None:
            keys = [texts.text(by_resno[g.resno]) for g in query.distinct]
            plan = PlanNode("Unique", {"Key": keys} if query.distinct_on else {}, [plan], counted=(query, "unique"))
        if query.sort:
            keys = [texts.sort_key(by_resno[g.resno], g) for g in query.sort]
            plan = PlanNode("Sort", {"Sort Key": keys}, [plan], counted=(query, "sort"))
        if _sets_wait(query):
            plan = PlanNode("ProjectSet", {}, [plan], counted=(query, "late targets"))
        if query.limit is not None or query.offset is not None:
            plan = PlanNode("Limit", {}, [plan], counted=(query, "limit"))
        return plan

    def _set_operation(self, query: Query, part: SetOperation | RangeRef, texts: Texts) -> PlanNode:
        if isinstance(part, RangeRef):
            nested = query.rtable[part.varno - 1].subquery
            assert nested is not None
            return self.query(nested, texts)
        sides = [self._set_operation(query, side, texts) for side in (part.left, part.right)]
        if part.op is SetOp.UNION:
            append = PlanNode("Append", {}, sides, counted=(query, part if part.all else (part,)))
            named = {"Node Type": "Aggregate", "Strategy": "Hashed"}
            return append if part.all else PlanNode("HashAggregate", {}, [append], counted=(query, part), named=named)
        command = f"{part.op.value.capitalize()}{' All' if part.all else ''}"
        named = {"Node Type": "SetOp", "Strategy": "Hashed", "Command": command}
        return PlanNode(f"HashSetOp {command}", {}, sides, counted=(query, part), named=named)

    def _recursive_union(self, query: Query, part: SetOperation, texts: Texts) -> PlanNode:
        sides = [self._set_operation(query, side, texts) for side in (part.left, part.right)]
        return PlanNode("Recursive Union", {}, sides, counted=(query, part))


@dataclass(eq=False)
class _Part:
    """A part of FROM; see JoinPlan in query/local/joins.py."""

    plan: PlanNode
    relations: frozenset[int]
    required_outer: frozenset[int]


def _sets_wait(query: Query) -> bool:
    """Whether sets are expanded after ORDER BY."""
    return any(returns_set(target.expr) for target in postponed(query))


def _called(name: str, alias: str) -> str:
    return name if name == alias else f"{name} {alias}"


def _bound_text(session: Session, member: Member, bound: Bound) -> str:
    attribute = member.relation.attributes[bound.attnum - 1]

    def text(value: Any) -> str:
        return write_text(value, attribute.type, session.text_style)

    if bound.is_null:
        return f"{attribute.name} IS NULL"
    if bound.values is not None:
        return f"{attribute.name} IN ({', '.join(map(text, bound.values))})"
    if bound.low is not None and bound.low == bound.high:
        return f"{attribute.name} = {text(bound.low)}"
    low = "" if bound.low is None else f"{attribute.name} >{'=' if bound.low_inclusive else ''} {text(bound.low)}"
    high = "" if bound.high is None else f"{attribute.name} <{'=' if bound.high_inclusive else ''} {text(bound.high)}"
    return " AND ".join(part for part in (low, high) if part) or f"{attribute.name} IS NOT NULL"
