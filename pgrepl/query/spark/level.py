"""One query level on its way to SQL: the names of its columns in expressions, and the statement's frames and
parameters.

At first its columns are those of FROM; once grouped, they are the keys and aggregates of a subquery. Subqueries ask
for its columns in its present phase.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.engine import spark
from pgrepl.expr import exchange as expressions
from pgrepl.expr import tree
from pgrepl.expr.exchange import Sql
from pgrepl.expr.tree import PLACE, Expr, Query, RteKind
from pgrepl.expr.walk import rewrite
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.query.shape import at_home
from pgrepl.sql.nodes import JoinType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.functions.registry import Context

PlayApart = Callable[["Session", "Query"], Iterable[tuple[Any, ...]]]


@frozen
class Text:
    """A query in SQL, and the Spark types of its columns c1 … cn."""

    text: str
    types: tuple[str, ...]

    def columns(self, alias: str) -> dict[int, Sql]:
        return {number: Sql(f"{alias}.c{number}", kind) for number, kind in enumerate(self.types, 1)}


class Job:
    """One statement for Spark. `apart` executes a subquery whose rows are needed for the text, by the engine chosen for
    it; None: only the text is wanted, and nothing is executed for it."""

    def __init__(self, session: Session, context: Context, apart: PlayApart | None) -> None:
        self.session = session
        self.context = context
        self.apart = apart
        self.statement = expressions.Statement(context)
        self.frames: dict[str, Callable[[], DataFrame]] = {}  # by the name that stands in braces in the text
        self.listed: list[str] = []  # the WITH queries so far
        self._names = 0

    def name(self, letter: str) -> str:
        """A name that is unique in the statement."""
        self._names += 1
        return f"{letter}{self._names}"

    def frame(self, make: Callable[[], DataFrame]) -> str:
        """The name of a frame in FROM."""
        name = self.name("f")
        self.frames[name] = make
        return f"{{{name}}}"

    def replace_frame(self, named: str, make: Callable[[], DataFrame]) -> None:
        self.frames[named[1:-1]] = make

    def with_list(self) -> str:
        """The WITH list, for a separate statement that uses WITH queries of this one."""
        return f"WITH {', '.join(self.listed)} " if self.listed else ""

    def run(self, text: str) -> DataFrame:
        session = spark.session()
        used = {name: make() for name, make in self.frames.items() if f"{{{name}}}" in text}
        return self.statement.run(session, text, used)


# --- level ------------------------------------------------------------------------------------------------------------


@frozen
class WithQuery:
    """A WITH query: its name in the statement and its columns' types."""

    name: str
    types: tuple[str, ...]


class Level(ABC):
    """Methods that need a whole subquery are abstract here: `select` fills them in."""

    def __init__(self, job: Job, query: Query, parent: Level | None) -> None:
        self.job = job
        self.query = query
        self.parent = parent
        self.compiler = expressions.Compiler(self.names, job.statement)
        self.ctes: dict[str, WithQuery] = {}
        self.columns: dict[int, dict[int, Sql]] = {}  # by number in the range table, by attnum
        self.known: dict[Expr, Sql] | None = None  # of a grouped level: the SQL of keys and aggregates
        self.series: dict[Expr, Sql] = {}  # set-returning functions of the target list
        self.group_items: list[str] = []
        self.group_alias = ""
        self.nullable: set[int] = set()  # relations on the nullable side of an outer join

    @abstractmethod
    def text(self, *, final: bool = False) -> Text:
        """The query as SQL. `final`: its columns are in the lake forms of their types; inside a statement numerics may
        still be decimals."""

    @abstractmethod
    def sublink(self, link: tree.SubLink) -> Sql:
        """A subquery as a value."""

    def inside(self, query: Query) -> Level:
        return type(self)(self.job, query, self)

    def up(self, levels: int) -> Level:
        level = self
        for _ in range(levels):
            if level.parent is None:
                raise Declined("a column of no query around")
            level = level.parent
        return level

    # --- expressions ------------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Sql:
        return self.compiler.value(self.flat(expr))

    def form(self, expr: Expr) -> str:
        """The expression in the lake form of its type."""
        return self.compiler.text(self.flat(expr))

    def key(self, expr: Expr) -> str:
        """The SQL to group and compare by."""
        return expressions.equal_key(self.flat(expr), self.compiler)

    def names(self, node: Expr) -> str | Sql | None:
        """The SQL for a node of an expression of this level."""
        if self.series and node in self.series:
            return self.series[node]
        if self.known is not None and node in self.known:
            return self.known[node]
        if isinstance(node, tree.Var):
            if node.levelsup:
                return self.up(node.levelsup).value(replace(node, levelsup=0))
            return self._column(node)
        if isinstance(node, tree.SubLink):
            return self.sublink(node)
        if isinstance(node, tree.Aggref):
            return self.up(node.levelsup).value(at_home(node, node.levelsup)) if node.levelsup else None
        if isinstance(node, tree.WindowFunc):
            return self._window(node)
        return None

    def _column(self, var: tree.Var) -> Sql:
        if self.known is not None:
            return self._of_group(var)
        columns = self.columns.get(var.varno)
        if columns is None or var.attnum not in columns:
            raise Declined(f"column {var.attnum} of {self.query.rtable[var.varno - 1].name}")
        return columns[var.attnum]

    def _of_group(self, var: tree.Var) -> Sql:
        """A column that the group's key determines."""
        assert self.known is not None
        known, self.known = self.known, None
        try:
            value = self.value(var)
        finally:
            self.known = known
        name = f"d{len(self.group_items)}"
        self.group_items.append(f"any_value({value.text}) AS {name}")
        column = self.known[var] = Sql(f"{self.group_alias}.{name}", value.type)
        return column

    def _window(self, node: tree.WindowFunc) -> Sql:
        targets = [replace(target, expr=self.flat(target.expr)) for target in self.query.targets]
        window, ranked = self.query.windows[node.window], expressions.is_ranked(node)
        over = expressions.over(window, targets, self.compiler, ranked=ranked)
        return expressions.window_function(node, over, self.compiler)

    def flat(self, expr: Any) -> Any:
        """The expression with columns of joins replaced by those of relations, and whole rows by rows of columns."""

        def stands_for(node: Expr) -> Expr | None:
            if not isinstance(node, tree.Var) or node.levelsup:
                return None
            entry = self.query.rtable[node.varno - 1]
            if entry.kind is RteKind.JOIN and node.attnum > 0:
                meant = entry.join_vars[node.attnum - 1]
                if meant is None:
                    raise Declined("a dropped column of a join")
                return rewrite(meant, stands_for)
            return self._whole_row(node) if node.attnum == 0 else None

        return rewrite(expr, stands_for)

    def _whole_row(self, node: tree.Var) -> Expr:
        entry = self.query.rtable[node.varno - 1]
        if node.varno in self.nullable or entry.kind is RteKind.JOIN:
            raise Declined("a whole row that may be missing")
        live = [(number, c) for number, c in enumerate(entry.columns, 1) if not c.dropped]
        args: Sequence[Expr] = [
            tree.Var(c.type, typmod=c.typmod, collation=c.collation, varno=node.varno, attnum=number)
            for number, c in live
        ]
        return tree.RowExpr(node.type, args=tuple(args), names=tuple(c.name for _, c in live))

    def note_outer_joins(self) -> None:
        """Note the relations on the nullable side of an outer join."""

        def visit(item: tree.RangeRef | tree.Join, missing: bool) -> None:
            if isinstance(item, tree.RangeRef):
                if missing:
                    self.nullable.add(item.varno)
                return
            visit(item.left, missing or item.kind in (JoinType.RIGHT, JoinType.FULL))
            visit(item.right, missing or item.kind in (JoinType.LEFT, JoinType.FULL))

        for item in self.query.from_:
            visit(item, False)


def is_place(expr: Expr, query: tree.Query) -> bool:
    """Whether the node is the place of a row: of a table in FROM, or of one in a subquery there that returns it."""
    if not isinstance(expr, tree.Var) or expr.levelsup or not expr.varno:
        return False
    if expr.attnum == PLACE:
        return True
    below = query.rtable[expr.varno - 1].subquery
    return (
        below is not None
        and 0 < expr.attnum <= len(below.targets)
        and is_place(below.targets[expr.attnum - 1].expr, below)
    )
