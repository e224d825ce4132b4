"""One query in SQL: its clauses in the order of their execution.

    SELECT targets FROM … WHERE …                                          without groups
    SELECT targets FROM (SELECT keys, aggregates FROM … GROUP BY …) …      with groups; HAVING is its WHERE

DISTINCT, ORDER BY and LIMIT stand around that, over its columns c1 … cn, where those that only ORDER BY needs come
last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pgrepl.expr import exchange as expressions
from pgrepl.expr import tree
from pgrepl.expr.exchange import Sql
from pgrepl.expr.exchange.sql import form_type
from pgrepl.expr.tree import Query, SortGroup, Target
from pgrepl.expr.walk import query_exprs, returns_set, rewrite, subqueries, walk, walk_deep
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query.engine_choice import is_for_spark
from pgrepl.query.local.env import Env
from pgrepl.query.local.select import QueryEvaluator
from pgrepl.query.shape import aggregates, grouping_functions, names_outer_with, sees_outside, uses_groups
from pgrepl.query.spark.level import Job, Level, Text, WithQuery, is_place
from pgrepl.query.spark.setops import condition, played, recursive_query, set_operation, ship, sublink
from pgrepl.query.spark.sources import Sources, as_array
from pgrepl.sql.nodes import SubLinkType
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid, type_by_oid


def compile_query(query: Query, job: Job) -> Text:
    """A whole statement; its columns are in the lake forms of their types."""
    if any(_is_deep_array(node) for node, _ in walk_deep(query)):
        raise Declined("arrays of arrays")
    return QueryLevel(job, query, None).text(final=True)


class QueryLevel(Level):
    """A level that can write subqueries."""

    def text(self, *, final: bool = False) -> Text:
        listed = _with_list(self)
        body = set_operation(self) if self.query.set_operation is not None else _select(self, final)
        body = _finish(self, body)
        return Text(f"{listed}{body.text}", body.types)

    def sublink(self, link: tree.SubLink) -> Sql:
        return sublink(self, link)


def _is_deep_array(node: tree.Expr) -> bool:
    """Whether the node makes an array of arrays, which has no lake form."""
    if isinstance(node, tree.ArrayExpr):
        return node.multidims
    if isinstance(node, tree.Aggref):
        proc = proc_by_oid(node.func)
        return proc is not None and proc.name == "array_agg" and node.args[0].type == node.type
    if isinstance(node, tree.SubLink) and node.kind is SubLinkType.ARRAY and node.query is not None:
        return node.query.columns[0].type == node.type
    return False


# --- WITH -----------------------------------------------------------------------------------------------------------


def _with_list(level: Level) -> str:
    listed = []
    asked = _names_asked(level.query, 0)
    for cte in level.query.ctes:
        if cte.name not in asked:
            continue
        if cte.recursive:
            level.ctes[cte.name] = recursive_query(level, cte)
            continue
        name = level.job.name("w")
        if (
            not is_for_spark(cte.query, level.job.context)
            and not sees_outside(cte.query)
            and not _names_asked(cte.query, 1)
        ):
            numbers = range(1, len(cte.query.columns) + 1)
            frame = level.job.frame(ship(cte.query.columns, numbers, played(cte.query, level.job.context)))
            types = tuple(form_type(c.type, c.typmod) for c in cte.query.columns)
            level.ctes[cte.name] = WithQuery(frame, types)
            continue
        text = level.inside(cte.query).text()
        level.ctes[cte.name] = WithQuery(name, text.types)
        listed.append(f"{name} AS ({text.text})")
        level.job.listed.append(listed[-1])
    return f"WITH {', '.join(listed)} " if listed else ""


def _names_asked(query: Query, depth: int) -> set[str]:
    """The WITH queries of the level `depth` above this one that it, or a subquery, refers to; for a depth of 1 and more
    also those further up."""
    names = {
        entry.cte for entry in query.rtable
        if entry.cte is not None and (entry.cte_levelsup == depth if depth == 0 else entry.cte_levelsup >= depth)
    }  # fmt: skip
    for nested in subqueries(query):
        names |= _names_asked(nested, depth + 1)
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                names |= _names_asked(node.query, depth + 1)
    return {name for name in names if name is not None}


# --- SELECT … FROM … WHERE … GROUP BY … HAVING ------------------------------------------------------------------------


def _select(level: Level, final: bool) -> Text:
    query = level.query
    clauses = _from_where(level)
    sets = [t for t in query.targets if returns_set(t.expr)]
    if sets:
        _check_sets(query, sets)
    if uses_groups(query):
        clauses = _grouped(level, clauses)
    lateral = ""
    if sets:
        if query.windows:
            raise Declined("set-returning functions beside window functions")
        lateral = _series_in_targets(level, sets)
    columns = [_target(level, target, final) for target in query.targets]
    items = ", ".join(f"{column.text} AS c{n}" for n, column in enumerate(columns, 1)) or "1 AS c0"
    source, where = clauses.close()
    return Text(f"SELECT {items}{source}{lateral}{where}", tuple(column.type for column in columns))


def _check_sets(query: Query, sets: Sequence[Target]) -> None:
    """Decline set-returning functions that are expanded at another step than after the groups."""
    keys = {group.resno for group in query.group}
    if any(target.resno in keys for target in sets):
        raise Declined("set-returning functions in GROUP BY")
    if query.distinct_on:
        raise Declined("set-returning functions beside DISTINCT ON")


@frozen
class _Clauses:
    source: str  # FROM's content
    where: str
    grouping: _Groups | None = None

    def close(self) -> tuple[str, str]:
        """Once all expressions over groups are written, complete the groups' subquery."""
        source = self.source if self.grouping is None else self.grouping.text()
        return f" FROM {source}" if source else "", f" WHERE {self.where}" if self.where else ""


def _from_where(level: Level) -> _Clauses:
    source = Sources(level).text()
    where = condition(level, level.flat(level.query.where)) if level.query.where is not None else ""
    return _Clauses(source, where)


def _target(level: Level, target: Target, final: bool) -> Sql:
    expr = target.expr
    if is_place(expr, level.query):
        place = level.names(expr)
        assert isinstance(place, Sql)
        return place
    if final and _is_row(expr.type):
        raise Declined("a row as a value")
    value = level.value(expr)
    kind = form_type(expr.type, expr.typmod)
    if final or value.special is not None:
        return Sql(expressions.to_form(value, expr.type, expr.typmod), kind)
    return value


def _is_row(typoid: int) -> bool:
    """Whether values are composite, or arrays of composite values; row types of users are not among the built-in
    types."""
    kind = type_by_oid(typoid)
    return kind is None or typoid in (oids.RECORD, oids.RECORD_ARRAY) or kind.typtype == "c"


def _series_in_targets(level: Level, targets: list[Target]) -> str:
    """Set-returning functions side by side: arrays zipped, and one row for each place in them."""
    calls: list[tree.Expr] = []
    for target in targets:
        rewrite(level.flat(target.expr), lambda node: _note_call(node, calls))
    arrays = [as_array(level, call) for call in calls]
    alias = level.job.name("s")
    if len(arrays) == 1:
        ((array, kind),) = arrays
        level.series[calls[0]] = Sql(f"{alias}.v1", kind)
        return f" LATERAL VIEW explode({array}) {alias} AS v1"
    parts = ", ".join(f"coalesce({array}, CAST(array() AS ARRAY<{kind}>))" for array, kind in arrays)
    for number, (call, (_, kind)) in enumerate(zip(calls, arrays, strict=True)):
        level.series[call] = Sql(f"{alias}.z.`{number}`", kind)
    return f" LATERAL VIEW explode(arrays_zip({parts})) {alias} AS z"


def _note_call(node: tree.Expr, calls: list[tree.Expr]) -> tree.Expr | None:
    if isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset:
        if node not in calls:
            calls.append(node)
        return node
    return None


# --- groups -----------------------------------------------------------------------------------------------------------


@frozen
class _Groups:
    level: Level
    source: str
    where: str
    items: tuple[str, ...]
    group_by: str
    alias: str
    of_nothing: tuple[str, ...]  # the items of the grouping set () if there are no rows
    empty_sets: int

    def text(self) -> str:
        source = f" FROM {self.source}" if self.source else ""
        where = f" WHERE {self.where}" if self.where else ""
        groups = f"SELECT {self._listed(self.items)}{source}{where}{self.group_by}"
        if self.empty_sets:  # Spark gives no group at all
            nothing = f"SELECT {self._listed(self.of_nothing)}{source} WHERE false"
            nothing = f" UNION ALL SELECT * FROM ({nothing}) WHERE NOT EXISTS (SELECT 1{source}{where})"
            groups += nothing * self.empty_sets
        return f"({groups}) AS {self.alias}"

    def _listed(self, items: tuple[str, ...]) -> str:
        return ", ".join((*items, *self.level.group_items)) or "count(1) AS a0"


def _grouped(level: Level, clauses: _Clauses) -> _Clauses:
    query, alias = level.query, level.job.name("g")
    by_resno = {t.resno: level.flat(t.expr) for t in query.targets}
    known: dict[tree.Expr, Sql] = {}
    items: list[str] = []
    of_nothing: list[str] = []
    keys: dict[int, str] = {}
    for number, group in enumerate(query.group, 1):
        expr = by_resno[group.resno]
        value, key = level.value(expr), level.key(expr)
        if key == value.text and value.special is None:
            if not any(letter.isalpha() for letter in key):  # a number would be taken for the place of a column
                key = f"CAST({key} AS {value.type})"
            items.append(f"{key} AS k{number}")
            kind = value.type
        else:
            kind = form_type(expr.type, expr.typmod)
            first = f"any_value({expressions.to_form(value, expr.type, expr.typmod)})"
            if query.grouping_sets is not None:
                first = f"CASE WHEN grouping({key}) = 0 THEN {first} END"
            items.append(f"{first} AS k{number}")
        of_nothing.append(f"CAST(NULL AS {kind}) AS k{number}")
        keys[group.resno] = key
        known[expr] = Sql(f"{alias}.k{number}", kind)
    for number, aggregate in enumerate(aggregates(query), 1):
        inner = level.flat(aggregate)
        value = expressions.aggregate(inner, level.compiler)
        text = value.text if value.special is None else expressions.to_form(value, aggregate.type, aggregate.typmod)
        items.append(f"{text} AS a{number}")
        of_nothing.append(items[-1])
        kind = value.type if value.special is None else form_type(aggregate.type, aggregate.typmod)
        known[inner] = known[aggregate] = Sql(f"{alias}.a{number}", kind)
    for number, function in enumerate(grouping_functions(query), 1):
        bits = " + ".join(
            f"CAST(grouping({keys[resno]}) AS INT) * {1 << place}"
            for place, resno in enumerate(reversed(function.refs))
        )
        items.append(f"CAST({bits} AS INT) AS b{number}")
        of_nothing.append(f"{(1 << len(function.refs)) - 1} AS b{number}")
        known[level.flat(function)] = Sql(f"{alias}.b{number}", "INT")
    group_by = _group_by(query, keys)
    level.known, level.group_alias = known, alias
    empty_sets = _empty_sets(query) if keys else 0
    if empty_sets and sees_outside(query):
        raise Declined("a grouping set without columns in a query that depends on a row")
    if empty_sets and not any(isinstance(known_as, tree.Aggref) for known_as in known):
        items.append("count(1) AS a0")  # an aggregate makes the group
        of_nothing.append(items[-1])
    groups = _Groups(level, clauses.source, clauses.where, tuple(items), group_by, alias, tuple(of_nothing), empty_sets)
    having = condition(level, level.flat(query.having)) if query.having is not None else ""
    return _Clauses("", having, groups)


def _empty_sets(query: Query) -> int:
    return sum(not members for members in query.grouping_sets.sets) if query.grouping_sets is not None else 0


def _group_by(query: Query, keys: dict[int, str]) -> str:
    if query.grouping_sets is not None:
        sets = [f"({', '.join(keys[resno] for resno in members)})" for members in query.grouping_sets.sets]
        if not keys:
            if len(sets) > 1:
                raise Declined("several empty grouping sets")
            return ""
        return f" GROUP BY GROUPING SETS ({', '.join(sets)})"
    return f" GROUP BY {', '.join(keys.values())}" if keys else ""


# --- DISTINCT, ORDER BY, LIMIT ----------------------------------------------------------------------------------------


class _Finished:
    """The columns of a finished body, for keys of DISTINCT and ORDER BY."""

    def __init__(self, level: Level, body: Text, alias: str) -> None:
        self.level = level
        self.alias = alias
        self.columns = body.columns(alias)
        self.compiler = expressions.over_columns(self.columns, level.job.statement)
        self.place = {t.resno: n for n, t in enumerate(level.query.targets, 1)}
        self.exprs = {t.resno: t.expr for t in level.query.targets}

    def stand_in(self, resno: int) -> tree.Var:
        expr = self.exprs[resno]
        return tree.Var(expr.type, typmod=expr.typmod, collation=expr.collation, attnum=self.place[resno])

    def key(self, group: SortGroup) -> str:
        return expressions.equal_key(self.stand_in(group.resno), self.compiler)

    def is_plain(self, group: SortGroup) -> bool:
        """Whether Spark's equality of the values is PostgreSQL's."""
        return self.key(group) == self.columns[self.place[group.resno]].text

    def sort_items(self, groups: Iterable[SortGroup]) -> Iterator[str]:
        for group in groups:
            yield expressions.sort_item(self.stand_in(group.resno), group, self.compiler)


def _finish(level: Level, body: Text) -> Text:
    query = level.query
    limit, offset = _constant(level, query.limit), _constant(level, query.offset)
    if offset is not None and offset < 0:
        raise PgError("2201X", "OFFSET must not be negative")
    if limit is not None and limit < 0:
        raise PgError("2201W", "LIMIT must not be negative")
    if query.distinct is not None:
        body = _distinct(level, body)
    keep = [n for n, target in enumerate(query.targets, 1) if not target.junk]
    types = tuple(body.types[n - 1] for n in keep)
    if not query.sort and limit is None and not offset and len(keep) == len(query.targets):
        return body
    finished = _Finished(level, body, level.job.name("o"))
    items = list(finished.sort_items(query.sort))
    if query.with_ties and limit is not None:
        return Text(_with_ties(finished, body, keep, items, limit, offset or 0), types)
    columns = ", ".join(f"{finished.alias}.c{n} AS c{m}" for m, n in enumerate(keep, 1)) or "1 AS c0"
    text = f"SELECT {columns} FROM ({body.text}) AS {finished.alias}"
    if items:
        text += f" ORDER BY {', '.join(items)}"
    if limit is not None:
        text += f" LIMIT {_whole(limit)}"
    if offset:
        text += f" OFFSET {_whole(offset)}"
    return Text(text, types)


def _whole(number: int) -> int:
    """A LIMIT or OFFSET as an integer: Spark counts rows in 31 bits here."""
    if number >= 2**31 - 1:
        raise Declined("a LIMIT or OFFSET of more than 2 billion rows")
    return number


def _with_ties(finished: _Finished, body: Text, keep: list[int], items: list[str], limit: int, offset: int) -> str:
    """Rows whose rank is within the limit: those equal to the last one too."""
    order = ", ".join(items) or "1"
    columns = ", ".join(f"r.c{n} AS c{m}" for m, n in enumerate(keep, 1)) or "1 AS c0"
    ranked = (
        f"SELECT *, row_number() OVER (ORDER BY {order}) AS n, rank() OVER (ORDER BY {order}) AS r"
        f" FROM ({body.text}) AS {finished.alias}"
    )
    if limit == 0:
        return f"SELECT {columns} FROM ({ranked}) AS r WHERE false"
    return f"SELECT {columns} FROM ({ranked}) AS r WHERE r.n > {offset} AND r.r <= {offset + limit} ORDER BY r.n"


def _distinct(level: Level, body: Text) -> Text:
    query = level.query
    assert query.distinct is not None
    finished = _Finished(level, body, level.job.name("u"))
    keys = [finished.key(group) for group in query.distinct]
    columns = [f"c{n}" for n in range(1, len(query.targets) + 1)]
    listed = ", ".join(f"{finished.alias}.{column}" for column in columns)
    if query.distinct_on:
        sort = list(finished.sort_items(query.sort or query.distinct))
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        order = f"ORDER BY {', '.join(sort) or '1'}"
        numbered = (
            f"SELECT {listed}, row_number() OVER ({partition}{order}) AS n FROM ({body.text}) AS {finished.alias}"
        )
        chosen = ", ".join(f"d.{column}" for column in columns)
        return Text(f"SELECT {chosen} FROM ({numbered}) AS d WHERE d.n = 1", body.types)
    if all(finished.is_plain(group) for group in query.distinct):
        return Text(f"SELECT DISTINCT {listed} FROM ({body.text}) AS {finished.alias}", body.types)
    first = ", ".join(f"any_value({finished.alias}.{column}) AS {column}" for column in columns)
    return Text(f"SELECT {first} FROM ({body.text}) AS {finished.alias} GROUP BY {', '.join(keys)}", body.types)


def _constant(level: Level, expr: tree.Expr | None) -> int | None:
    """The value of LIMIT or OFFSET, which depends on no column."""
    if expr is None:
        return None
    for node, up in walk_deep(expr):
        if isinstance(node, tree.Var) and node.levelsup > up:
            raise Declined("a LIMIT that depends on the row")
    if any(
        isinstance(node, tree.SubLink) and node.query and names_outer_with(node.query) for node, _ in walk_deep(expr)
    ):
        raise Declined("a LIMIT that asks a WITH query")
    value: int | None = QueryEvaluator(level.job.context, level.query).compile(expr)(Env([], None))
    return value
