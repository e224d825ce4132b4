"""Raw expressions, names and types, before analysis; and enumerations that the typed tree has, too."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from pgrepl.ground.frozen import frozen


class BoolOp(Enum):
    AND = "and"
    OR = "or"
    NOT = "not"


class BoolTestType(Enum):
    IS_TRUE = "IS TRUE"
    IS_NOT_TRUE = "IS NOT TRUE"
    IS_FALSE = "IS FALSE"
    IS_NOT_FALSE = "IS NOT FALSE"
    IS_UNKNOWN = "IS UNKNOWN"
    IS_NOT_UNKNOWN = "IS NOT UNKNOWN"


class CoercionForm(Enum):
    EXPLICIT_CALL = "call"
    EXPLICIT_CAST = "explicit"
    IMPLICIT_CAST = "implicit"
    SQL_SYNTAX = "sql"  # EXTRACT(… FROM …), OVERLAY, TRIM …: print as it was written


class NullTestType(Enum):
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"


class SubLinkType(Enum):
    EXISTS = "exists"
    ALL = "all"
    ANY = "any"
    EXPR = "expr"
    ARRAY = "array"
    ROWCOMPARE = "rowcompare"  # (a, b) < (SELECT …); never in the text, analysis finds it


class GroupingKind(Enum):
    EMPTY = "empty"
    ROLLUP = "rollup"
    CUBE = "cube"
    SETS = "sets"


class JoinType(Enum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    RIGHT = "right"
    CROSS = "cross"


class SetOp(Enum):
    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@frozen
class Node:
    """The base class of all nodes."""


@frozen
class Statement(Node):
    """A whole statement."""


@frozen
class RawStmt(Node):
    """One statement of a query string: where it starts, and its length (0: up to the end of the string)."""

    stmt: Statement
    location: int
    length: int


@frozen
class Expr(Node):
    """The base class of raw expressions."""


@frozen
class RangeVar(Node):
    """A relation by name: `[ONLY] [catalog.][schema.]name [*] [alias]`."""

    name: str
    schema: str | None = None
    catalog: str | None = None
    inh: bool = True  # False: ONLY
    alias: Alias | None = None
    location: int = -1
    persistence: str = "p"  # t: TEMP, u: UNLOGGED


@frozen
class Alias(Node):
    name: str
    columns: tuple[str, ...] = ()


@frozen
class TypeName(Node):
    """`pg_catalog.varchar(40)[]`. names: ("pg_catalog", "int4") for `int`, ("foo",) for `foo`."""

    names: tuple[str, ...]
    typmods: tuple[Expr, ...] = ()
    array_bounds: tuple[int, ...] = ()  # -1 for []
    setof: bool = False
    pct_type: bool = False  # name%TYPE
    location: int = -1


class AConstKind(Enum):
    INTEGER = "integer"
    FLOAT = "float"  # value is the text, without underscores
    STRING = "string"
    BITSTRING = "bitstring"  # value starts with b or x
    BOOLEAN = "boolean"
    NULL = "null"


@frozen
class AConst(Expr):
    kind: AConstKind
    value: int | str | bool | None
    location: int = -1


@frozen
class AStar(Expr):
    """The `*` at the end of a ColumnRef, or of a[*]."""


@frozen
class ColumnRef(Expr):
    fields: tuple[str | AStar, ...]  # ("t", "a") or ("t", AStar())
    location: int = -1


@frozen
class ParamRef(Expr):
    number: int
    location: int = -1


class AExprKind(Enum):
    OP = "op"
    OP_ANY = "op_any"  # scalar op ANY (array)
    OP_ALL = "op_all"
    DISTINCT = "distinct"  # IS DISTINCT FROM, name "="
    NOT_DISTINCT = "not_distinct"
    NULLIF = "nullif"
    IN = "in"  # name is "=" or "<>", rexpr a tuple of expressions
    LIKE = "like"  # name "~~" / "!~~"
    ILIKE = "ilike"  # "~~*" / "!~~*"
    SIMILAR = "similar"  # "~" / "!~"
    BETWEEN = (
        "between"  # name "BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC", "NOT BETWEEN SYMMETRIC"; rexpr (low, high)
    )
    NOT_BETWEEN = "not_between"
    BETWEEN_SYM = "between_sym"
    NOT_BETWEEN_SYM = "not_between_sym"


@frozen
class AExpr(Expr):
    kind: AExprKind
    name: tuple[str, ...]  # possibly qualified operator name
    lexpr: Expr | None
    rexpr: Expr | tuple[Expr, ...] | None
    location: int = -1


@frozen
class BoolExpr(Expr):
    """AND and OR lists are flattened as makeAndExpr and makeOrExpr do."""

    op: BoolOp
    args: tuple[Expr, ...]
    location: int = -1


@frozen
class TypeCast(Expr):
    arg: Expr
    type_name: TypeName
    location: int = -1


@frozen
class CollateClause(Expr):
    arg: Expr
    collation: tuple[str, ...]
    location: int = -1


@frozen
class NullTest(Expr):
    arg: Expr
    kind: NullTestType
    location: int = -1


@frozen
class BooleanTest(Expr):
    arg: Expr
    kind: BoolTestType
    location: int = -1


@frozen
class IsDocument(Expr):
    arg: Expr
    location: int = -1


@frozen
class NamedArg(Expr):
    """`name => value` in a call."""

    name: str
    arg: Expr
    location: int = -1


class SortDir(Enum):
    DEFAULT = "default"
    ASC = "asc"
    DESC = "desc"
    USING = "using"


class NullsOrder(Enum):
    DEFAULT = "default"
    FIRST = "first"
    LAST = "last"


@frozen
class SortBy(Node):
    node: Expr
    dir: SortDir = SortDir.DEFAULT
    nulls: NullsOrder = NullsOrder.DEFAULT
    using: tuple[str, ...] = ()
    location: int = -1


@frozen
class WindowDef(Node):
    name: str | None  # the window's own name in the WINDOW clause
    refname: str | None  # the window it copies, or OVER name (then all else empty and over_name True)
    partition: tuple[Expr, ...] = ()
    order: tuple[SortBy, ...] = ()
    frame: WindowFrame | None = None
    over_name: bool = False
    location: int = -1


@frozen
class WindowFrame(Node):
    mode: str  # RANGE, ROWS, GROUPS
    start: str  # UNBOUNDED PRECEDING, CURRENT ROW, PRECEDING, FOLLOWING, UNBOUNDED FOLLOWING
    end: str | None
    start_offset: Expr | None = None
    end_offset: Expr | None = None
    exclude: str | None = None  # CURRENT ROW, GROUP, TIES


@frozen
class FuncCall(Expr):
    name: tuple[str, ...]
    args: tuple[Expr, ...] = ()
    agg_order: tuple[SortBy, ...] = ()
    agg_filter: Expr | None = None
    over: WindowDef | None = None
    within_group: bool = False
    star: bool = False
    distinct: bool = False
    variadic: bool = False
    form: CoercionForm = CoercionForm.EXPLICIT_CALL
    location: int = -1


@frozen
class SQLValueFunction(Expr):
    """CURRENT_DATE, CURRENT_USER, LOCALTIMESTAMP(2) …; name in lower case."""

    name: str
    typmod: int = -1
    location: int = -1


@frozen
class CaseWhen(Node):
    condition: Expr
    result: Expr
    location: int = -1


@frozen
class CaseExpr(Expr):
    arg: Expr | None
    whens: tuple[CaseWhen, ...]
    default: Expr | None
    location: int = -1


@frozen
class CoalesceExpr(Expr):
    args: tuple[Expr, ...]
    location: int = -1


@frozen
class MinMaxExpr(Expr):
    greatest: bool
    args: tuple[Expr, ...]
    location: int = -1


@frozen
class RowExpr(Expr):
    args: tuple[Expr, ...]
    explicit: bool = True  # False: (a, b) without the word ROW
    location: int = -1


@frozen
class AArrayExpr(Expr):
    elements: tuple[Expr, ...]
    location: int = -1


@frozen
class AIndices(Expr):
    is_slice: bool
    lower: Expr | None
    upper: Expr | None


@frozen
class AIndirection(Expr):
    arg: Expr
    indirection: tuple[str | AStar | AIndices, ...]


@frozen
class GroupingFunc(Expr):
    args: tuple[Expr, ...]
    location: int = -1


@frozen
class MergeSupportFunc(Expr):
    """merge_action()."""

    location: int = -1


@frozen
class SetToDefault(Expr):
    """DEFAULT in VALUES or SET."""

    location: int = -1


@frozen
class CurrentOf(Expr):
    cursor: str


@frozen
class SqlJsonExpr(Expr):
    """The base of SQL/JSON's expressions (nodes/json.py)."""


@frozen
class UnsupportedExpr(Expr):
    """Syntax that PostgreSQL has and pgrepl parses but cannot evaluate (XMLPARSE, JSON_TABLE …)."""

    what: str
    args: tuple[Node, ...] = field(default=())
    location: int = -1
