"""SQL/JSON: constructors, query functions, IS JSON and JSON_TABLE, before analysis."""

from __future__ import annotations

from dataclasses import field

from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes.expr import Alias, Expr, Node, SortBy, SqlJsonExpr, TypeName, WindowDef


@frozen
class JsonFormat(Node):
    """FORMAT JSON [ENCODING …]; encoding is in capitals."""

    encoding: str | None = None
    location: int = -1


@frozen
class JsonValue(Node):
    """An expression, and the format it is in."""

    raw: Expr
    format: JsonFormat | None = None


@frozen
class JsonOutput(Node):
    """RETURNING type [FORMAT JSON …]"""

    type_name: TypeName
    format: JsonFormat | None = None


@frozen
class JsonPair(Node):
    key: Expr
    value: JsonValue


@frozen
class JsonObjectExpr(SqlJsonExpr):
    """JSON_OBJECT(…)"""

    pairs: tuple[JsonPair, ...] = ()
    absent_on_null: bool = False
    unique: bool = False
    output: JsonOutput | None = None
    location: int = -1


@frozen
class JsonArrayExpr(SqlJsonExpr):
    """JSON_ARRAY(…)"""

    values: tuple[JsonValue, ...] = ()
    absent_on_null: bool = True
    output: JsonOutput | None = None
    location: int = -1


@frozen
class JsonArrayQuery(SqlJsonExpr):
    """JSON_ARRAY(query)"""

    query: Node
    format: JsonFormat | None = None
    output: JsonOutput | None = None
    location: int = -1


@frozen
class JsonAggregate(SqlJsonExpr):
    """JSON_OBJECTAGG, whose key is there, or JSON_ARRAYAGG."""

    value: JsonValue
    key: Expr | None = None
    order: tuple[SortBy, ...] = ()
    absent_on_null: bool = False
    unique: bool = False
    output: JsonOutput | None = None
    agg_filter: Expr | None = None
    over: WindowDef | None = None
    location: int = -1


@frozen
class JsonParseExpr(SqlJsonExpr):
    """JSON(…)"""

    value: JsonValue
    unique: bool = False
    location: int = -1


@frozen
class JsonScalarExpr(SqlJsonExpr):
    arg: Expr
    location: int = -1


@frozen
class JsonSerializeExpr(SqlJsonExpr):
    value: JsonValue
    output: JsonOutput | None = None
    location: int = -1


@frozen
class JsonIsPredicate(SqlJsonExpr):
    """IS JSON; kind is "", ARRAY, OBJECT or SCALAR."""

    arg: Expr
    kind: str = ""
    unique: bool = False
    location: int = -1


@frozen
class JsonBehavior(Node):
    """The behaviour ON EMPTY or ON ERROR: ERROR, NULL, TRUE, FALSE, UNKNOWN, EMPTY ARRAY, EMPTY OBJECT or DEFAULT."""

    kind: str
    default: Expr | None = None
    location: int = -1


@frozen
class JsonArgument(Node):
    """value AS name, behind PASSING."""

    value: JsonValue
    name: str


@frozen
class JsonFuncExpr(SqlJsonExpr):
    """JSON_EXISTS, JSON_QUERY and JSON_VALUE; of JSON_TABLE its row pattern and its columns."""

    function: str
    context: JsonValue
    path: Expr
    passing: tuple[JsonArgument, ...] = ()
    output: JsonOutput | None = None
    wrapper: str = ""  # NONE, CONDITIONAL, UNCONDITIONAL
    quotes: str = ""  # KEEP, OMIT
    on_empty: JsonBehavior | None = None
    on_error: JsonBehavior | None = None
    column: str | None = None
    location: int = -1


@frozen
class JsonTablePath(Node):
    """A path of JSON_TABLE, as a string, and the name it has."""

    text: str
    name: str | None = None
    location: int = -1
    name_location: int = field(default=-1, compare=False)


@frozen
class JsonTableColumn(Node):
    """kind is ordinality, regular, formatted, exists or nested."""

    kind: str
    name: str = ""
    type_name: TypeName | None = None
    format: JsonFormat | None = None
    path: JsonTablePath | None = None
    wrapper: str = ""
    quotes: str = ""
    on_empty: JsonBehavior | None = None
    on_error: JsonBehavior | None = None
    columns: tuple[JsonTableColumn, ...] = ()
    location: int = -1


@frozen
class JsonTable(Node):
    """JSON_TABLE in FROM."""

    context: JsonValue
    path: JsonTablePath
    passing: tuple[JsonArgument, ...] = ()
    columns: tuple[JsonTableColumn, ...] = ()
    on_error: JsonBehavior | None = None
    alias: Alias | None = None
    lateral: bool = False
    location: int = -1
