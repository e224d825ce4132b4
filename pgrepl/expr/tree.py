"""The typed tree that analysis makes of an expression or a query: PostgreSQL's primnodes as frozen dataclasses.

Every expression knows its type, type modifier and collation. Operators and functions are OIDs of PostgreSQL's own
catalog (`pgrepl.types.builtin`). Columns are (varno, attnum): varno counts the range table from 1, levelsup says how
many queries up. `location` is the 0-based character offset in the statement the tree came from; -1 once stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import (
    BoolOp,
    BoolTestType,
    CoercionForm,
    GroupingKind,
    JoinType,
    NullTestType,
    SetOp,
    SubLinkType,
)


@frozen
class Expr:
    """A typed expression. Subclasses have `type`, `typmod`, `collation` as fields or properties."""

    @property
    def type(self) -> int:
        raise NotImplementedError

    @property
    def typmod(self) -> int:
        return -1

    @property
    def collation(self) -> int:
        return 0


@frozen
class Typed(Expr):
    """Mix-in of the nodes that store their type."""

    type: int
    typmod: int = field(default=-1, kw_only=True)
    collation: int = field(default=0, kw_only=True)
    location: int = field(default=-1, kw_only=True, compare=False)


@frozen
class Const(Typed):
    """value is the Python form of pgrepl.types (None: NULL)."""

    value: Any = None


# attnum of the pseudo column with a row's place (lake.ctid.RowPlace), by which UPDATE and DELETE find it again
PLACE = -100
# attnum of merge_action() in the RETURNING list of a MERGE, as a column of the target
MERGE_ACTION = -101


@frozen
class Var(Typed):
    varno: int = 1
    attnum: int = 0  # 0: whole row; negative: system column
    levelsup: int = 0
    # The column as it was written, when that is a column of a join with an alias (varnosyn and varattnosyn).
    varno_written: int = field(default=0, compare=False)
    attnum_written: int = field(default=0, compare=False)


@frozen
class Param(Typed):
    """The n-th column of a SubLink's subquery, in its test."""

    number: int = 0


@frozen
class Variable(Typed):
    """A variable of a routine, by its number; a field of a record variable, by its name (`r.field`)."""

    number: int = 0
    field: str | None = None


@frozen
class FuncExpr(Typed):
    """volatile: pg_proc.provolatile of a user's function when the call was analysed; empty for a built-in one."""

    func: int = 0
    args: tuple[Expr, ...] = ()
    retset: bool = False
    variadic: bool = False
    form: CoercionForm = field(default=CoercionForm.EXPLICIT_CALL, compare=False)
    input_collation: int = 0
    volatile: str = field(default="", compare=False)


@frozen
class NamedArg(Typed):
    """`name => value` among the arguments of a FuncExpr; argnumber is the parameter's place, from 0."""

    arg: Expr | None = None
    name: str = ""
    argnumber: int = 0


@frozen
class OpExpr(Typed):
    """func: the function of a user's operator, 0 for PostgreSQL's own; volatile: its pg_proc.provolatile, empty for
    PostgreSQL's own operators. The same fields of other nodes mean the same."""

    op: int = 0
    args: tuple[Expr, ...] = ()
    retset: bool = False
    input_collation: int = 0
    func: int = 0
    volatile: str = field(default="", compare=False)


@frozen
class DistinctExpr(Typed):
    """a IS DISTINCT FROM b; op is the = operator."""

    op: int = 0
    args: tuple[Expr, ...] = ()
    input_collation: int = 0
    func: int = 0
    volatile: str = field(default="", compare=False)


@frozen
class NullIfExpr(Typed):
    op: int = 0
    args: tuple[Expr, ...] = ()
    input_collation: int = 0
    func: int = 0
    volatile: str = field(default="", compare=False)


@frozen
class ScalarArrayOpExpr(Typed):
    """scalar op ANY (array) with use_or, else ALL."""

    op: int = 0
    use_or: bool = True
    args: tuple[Expr, ...] = ()
    input_collation: int = 0
    func: int = 0
    volatile: str = field(default="", compare=False)


@frozen
class BoolExpr(Typed):
    op: BoolOp = BoolOp.AND
    args: tuple[Expr, ...] = ()


@frozen
class NullTest(Typed):
    arg: Expr | None = None
    kind: NullTestType = NullTestType.IS_NULL
    argisrow: bool = False


@frozen
class BooleanTest(Typed):
    arg: Expr | None = None
    kind: BoolTestType = BoolTestType.IS_TRUE


@frozen
class RelabelType(Typed):
    arg: Expr | None = None
    form: CoercionForm = field(default=CoercionForm.IMPLICIT_CAST, compare=False)


@frozen
class CoerceViaIO(Typed):
    arg: Expr | None = None
    form: CoercionForm = field(default=CoercionForm.IMPLICIT_CAST, compare=False)


@frozen
class ArrayCoerceExpr(Typed):
    """elem casts CaseTestExpr to the element type of the result."""

    arg: Expr | None = None
    elem: Expr | None = None
    form: CoercionForm = field(default=CoercionForm.IMPLICIT_CAST, compare=False)


@frozen
class ConvertRowtypeExpr(Typed):
    """A row of a child table seen as one of its parent."""

    arg: Expr | None = None
    form: CoercionForm = field(default=CoercionForm.IMPLICIT_CAST, compare=False)


@frozen
class CoerceToDomain(Typed):
    arg: Expr | None = None
    form: CoercionForm = field(default=CoercionForm.IMPLICIT_CAST, compare=False)


@frozen
class CoerceToDomainValue(Typed):
    """VALUE in a domain's CHECK constraint: the value that is tested."""


@frozen
class CaseTestExpr(Typed):
    """The tested value in CASE x WHEN …, or an array element in ArrayCoerceExpr."""


@frozen
class CollateExpr(Typed):
    arg: Expr | None = None


@frozen
class CaseExpr(Typed):
    arg: Expr | None = None
    whens: tuple[tuple[Expr, Expr], ...] = ()
    default: Expr | None = None


@frozen
class CoalesceExpr(Typed):
    args: tuple[Expr, ...] = ()


@frozen
class MinMaxExpr(Typed):
    greatest: bool = True
    args: tuple[Expr, ...] = ()
    input_collation: int = 0


@frozen
class SQLValueFunction(Typed):
    name: str = ""


@frozen
class ArrayExpr(Typed):
    element_type: int = 0
    elements: tuple[Expr, ...] = ()
    multidims: bool = False


@frozen
class SubscriptingRef(Typed):
    upper: tuple[Expr | None, ...] = ()
    lower: tuple[Expr | None, ...] = ()
    container: Expr | None = None
    is_slice: bool = False
    assign: Expr | None = None  # the value to assign; the result is the changed container


@frozen
class RowExpr(Typed):
    args: tuple[Expr, ...] = ()
    names: tuple[str, ...] = ()
    form: CoercionForm = field(default=CoercionForm.IMPLICIT_CAST, compare=False)


@frozen
class RowCompareExpr(Typed):
    """(a, b) < (c, d); kind is what the comparison means: < <= >= >."""

    kind: str = "<"
    ops: tuple[int, ...] = ()
    left: tuple[Expr, ...] = ()
    right: tuple[Expr, ...] = ()


@frozen
class FieldSelect(Typed):
    arg: Expr | None = None
    fieldnum: int = 0
    name: str = ""


@frozen
class FieldStore(Typed):
    """The row `arg` with new values in some fields."""

    arg: Expr | None = None
    values: tuple[Expr, ...] = ()
    fieldnums: tuple[int, ...] = ()


@frozen
class NextValueExpr(Typed):
    sequence: int = 0


@frozen
class SetToDefault(Typed):
    """DEFAULT in place of a value."""


@frozen
class SqlJson(Typed):
    """The base of SQL/JSON's expressions, whose modules are loaded when one is met."""


@frozen
class JsonValueExpr(SqlJson):
    """A value with a FORMAT clause: as written, and as what is computed. format is the clause's text."""

    raw: Expr | None = None
    formatted: Expr | None = None
    format: str = ""


@frozen
class JsonConstructorExpr(SqlJson):
    """JSON_OBJECT and its like. binary: what is made is jsonb; coercion casts it (a CaseTestExpr) to the type."""

    function: str = ""
    args: tuple[Expr, ...] = ()
    aggregate: Expr | None = None
    coercion: Expr | None = None
    binary: bool = False
    absent_on_null: bool = False
    unique: bool = False


@frozen
class JsonIsPredicate(SqlJson):
    """IS JSON; kind is "", ARRAY, OBJECT or SCALAR."""

    arg: Expr | None = None
    kind: str = ""
    unique: bool = False


@frozen
class JsonExpr(SqlJson):
    """JSON_EXISTS, JSON_QUERY, JSON_VALUE, or the row pattern of JSON_TABLE. on_empty and on_error are the words of
    the clauses; what they give is computed by …_value, which is cast to the type at runtime if …_coerced."""

    function: str = ""
    context: Expr | None = None
    path: Expr | None = None
    passing: tuple[Expr, ...] = ()
    names: tuple[str, ...] = ()
    binary: bool = False
    coercion: str = ""  # of what the path finds: "json" by json_populate_type, "io" by the type's input function
    wrapper: str = ""
    omit_quotes: bool = False
    on_empty: str = ""
    empty_value: Expr | None = None
    empty_coerced: bool = False
    on_error: str = ""
    error_value: Expr | None = None
    error_coerced: bool = False
    column: str = ""


@frozen
class SortGroup:
    """A sort or group key: the n-th target (resno), its < or > operator and = operator."""

    resno: int
    eqop: int
    sortop: int
    descending: bool = False
    nulls_first: bool = False


@frozen
class AggOrder:
    """One key of an aggregate's ORDER BY; sortop is its < or > operator."""

    expr: Expr
    eqop: int
    sortop: int
    descending: bool = False
    nulls_first: bool = False


@frozen
class Aggref(Typed):
    """An aggregate. args are its arguments; for an ordered-set aggregate, its sort keys."""

    func: int = 0
    args: tuple[Expr, ...] = ()
    order: tuple[AggOrder, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    star: bool = False
    variadic: bool = False
    direct_args: tuple[Expr, ...] = ()
    kind: str = "n"  # n, o (ordered set), h (hypothetical)
    levelsup: int = 0
    input_collation: int = 0


@frozen
class WindowFunc(Typed):
    func: int = 0
    args: tuple[Expr, ...] = ()
    filter: Expr | None = None
    star: bool = False
    window: int = 0  # index into Query.windows
    is_aggregate: bool = False
    input_collation: int = 0


@frozen
class GroupingFunc(Typed):
    """refs are the resnos of the grouping columns that args stand for."""

    args: tuple[Expr, ...] = ()
    refs: tuple[int, ...] = field(default=(), compare=False)
    levelsup: int = 0


@frozen
class SubLink(Typed):
    kind: SubLinkType = SubLinkType.EXPR
    test: Expr | None = None  # over Param nodes 1…n that stand for the subquery's columns
    operator: str = ""
    query: Query | None = None


class RteKind(Enum):
    RELATION = "relation"
    SUBQUERY = "subquery"
    JOIN = "join"
    FUNCTION = "function"
    VALUES = "values"
    CTE = "cte"


@frozen
class Column:
    """A column of a range table entry or of a result."""

    name: str
    type: int
    typmod: int = -1
    collation: int = 0
    dropped: bool = False
    expands: bool = True  # False: `*` leaves it out


@frozen
class JsonTableScan:
    """A path of JSON_TABLE: a row for each item that it finds. Its columns are first … last - 1; what nested paths
    find comes beside them, one path after the other."""

    path: str
    name: str
    first: int
    last: int
    nested: tuple[JsonTableScan, ...] = ()


@frozen
class JsonTableExpr(SqlJson):
    """JSON_TABLE: the document (a JsonExpr), and for each column a JsonExpr over the row's item (a CaseTestExpr); None
    is FOR ORDINALITY."""

    document: Expr | None = None
    exprs: tuple[Expr | None, ...] = ()
    columns: tuple[Column, ...] = ()
    scan: JsonTableScan | None = None


@frozen
class TableSample:
    """TABLESAMPLE method (args) REPEATABLE (repeatable); method is the OID of its function."""

    method: int
    args: tuple[Expr, ...]
    repeatable: Expr | None = None


@frozen
class Rte:
    """A range table entry. columns are by attnum (1-based: columns[attnum - 1])."""

    kind: RteKind
    name: str  # the alias, else the relation's name
    columns: tuple[Column, ...]
    alias: str | None = None
    alias_columns: tuple[str, ...] = ()
    relid: int = 0
    relkind: str = ""
    inh: bool = True
    subquery: Query | None = None
    functions: tuple[Expr, ...] = ()
    function_columns: tuple[int, ...] = ()  # the number of columns of each function
    function_coldefs: tuple[bool, ...] = ()  # whether each has a column definition list
    ordinality: bool = False
    values: tuple[tuple[Expr, ...], ...] = ()
    rows: Iterable[tuple[Any, ...]] | None = field(default=None, compare=False)  # VALUES that are computed apart
    cte: str | None = None
    cte_levelsup: int = 0
    self_reference: bool = False  # a recursive query's name inside itself
    lateral: bool = False
    join_using: tuple[str, ...] = ()
    join_using_alias: str | None = None
    join_vars: tuple[Expr | None, ...] = ()  # the expression of each join column
    join_left: tuple[int, ...] = ()  # its attnum in the left side; 0: none. A merged column has both
    join_right: tuple[int, ...] = ()
    sample: TableSample | None = None
    in_from: bool = True
    version: str = ""  # old or new: the target's row before and after, in RETURNING
    pinned: Sequence[PinnedRow] | None = field(default=None, compare=False)  # the only rows to scan
    release: int = 17  # of PostgreSQL, whose columns a system catalog had when the query was analysed


@frozen
class PinnedRow:
    """One row of a table, to evaluate a query over it alone (EvalPlanQual): its place, its table, and its columns by
    attnum."""

    place: Any
    table: int
    row: tuple[Any, ...]


@frozen
class RangeRef:
    varno: int


@frozen
class Join:
    kind: JoinType
    left: RangeRef | Join
    right: RangeRef | Join
    quals: Expr | None
    varno: int
    natural: bool = False
    using: tuple[str, ...] = ()


@frozen
class Target:
    expr: Expr
    name: str
    resno: int
    junk: bool = False
    origin: tuple[int, int] | None = None  # (relid, attnum) of a plain column


@frozen
class Window:
    name: str | None
    refname: str | None
    partition: tuple[SortGroup, ...]
    order: tuple[SortGroup, ...]
    frame_mode: str = "RANGE"
    frame_start: str = "UNBOUNDED PRECEDING"
    frame_end: str = "CURRENT ROW"
    frame_between: bool = False  # BETWEEN start AND end was written
    start_offset: Expr | None = None
    end_offset: Expr | None = None
    exclude: str | None = None
    explicit_frame: bool = False
    copied_order: bool = False  # the ORDER BY is that of refname


@frozen
class CteSearch:
    columns: tuple[str, ...]
    breadth_first: bool
    sequence: str


@frozen
class CteCycle:
    columns: tuple[str, ...]
    mark: str
    mark_type: int
    mark_value: Expr
    mark_default: Expr
    path: str


@frozen
class RowMark:
    """FOR UPDATE … of one range table entry."""

    varno: int
    strength: str  # UPDATE, NO KEY UPDATE, SHARE, KEY SHARE
    wait: str | None = None
    pushed_down: bool = False


@frozen
class Cte:
    name: str
    columns: tuple[str, ...]
    query: Query
    recursive: bool = False
    materialized: bool | None = None
    search: CteSearch | None = None
    cycle: CteCycle | None = None
    modify: Any = None  # of INSERT, UPDATE, DELETE: an expr.dml.plan.Modify; `query` only has RETURNING's columns


def has_modifying_cte(ctes: Iterable[Cte]) -> bool:
    """Whether a WITH list has statements that change rows."""
    return any(cte.modify is not None for cte in ctes)


@frozen
class SetOperation:
    op: SetOp
    all: bool
    left: SetOperation | RangeRef
    right: SetOperation | RangeRef
    columns: tuple[Column, ...]
    sortops: tuple[int, ...] = ()


@frozen
class GroupSet:
    """An item of GROUP BY when there are grouping sets: columns by resno (kind None), (), or ROLLUP, CUBE or SETS of
    items."""

    kind: GroupingKind | None
    content: tuple[Any, ...] = ()


@frozen
class GroupingSets:
    """The sets of resnos that the clause expands to, smallest first: ((), (1,), (1, 2)); and the clause as written."""

    sets: tuple[tuple[int, ...], ...]
    clause: tuple[GroupSet, ...] = ()


@frozen
class Query:
    """A query: its target list (targets) over its range table (rtable) and join tree (from_)."""

    targets: tuple[Target, ...]
    rtable: tuple[Rte, ...] = ()
    from_: tuple[RangeRef | Join, ...] = ()
    where: Expr | None = None
    group: tuple[SortGroup, ...] = ()
    grouping_sets: GroupingSets | None = None
    group_distinct: bool = False
    having: Expr | None = None
    windows: tuple[Window, ...] = ()
    distinct: tuple[SortGroup, ...] | None = None
    distinct_on: bool = False
    sort: tuple[SortGroup, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    with_ties: bool = False
    set_operation: SetOperation | None = None
    ctes: tuple[Cte, ...] = ()
    recursive: bool = False
    has_aggregates: bool = False
    has_sublinks: bool = False
    has_target_srfs: bool = False
    row_marks: tuple[RowMark, ...] = ()
    constraint_deps: tuple[int, ...] = ()  # primary keys that the check of GROUP BY relied on

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(t.name, t.expr.type, t.expr.typmod, t.expr.collation) for t in self.targets if not t.junk)
