"""SQL/JSON's expressions, compiled, and the rows of JSON_TABLE (execExprInterp.c, jsonpath_exec.c)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import singledispatch
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.evaluate.compiler import Compiled, Compiler, Special
from pgrepl.expr.functions.casts import float4_numeric, float8_numeric
from pgrepl.expr.functions.documents import jsonpath_steps
from pgrepl.expr.functions.documents.json import kind_of
from pgrepl.expr.functions.documents.json_making import object_key, to_json_text, to_jsonb_tree
from pgrepl.expr.functions.documents.json_populate import populate_type
from pgrepl.expr.functions.documents.jsonpath_run import Moment, PathError, Variable
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import base_type
from pgrepl.types.json import JsonNode, escape_json, jsonb_tree, parse_json, parse_tree, sorted_object, to_jsonb
from pgrepl.types.names import format_type
from pgrepl.types.numeric import write_numeric
from pgrepl.types.text import reader, write_text


@singledispatch
def compile_json(node: tree.SqlJson, compiler: Compiler) -> Compiled:
    assert isinstance(node, tree.JsonValueExpr) and node.formatted is not None
    return compiler.compile(node.formatted)


# --- constructors -------------------------------------------------------------------------------------------------


@compile_json.register
def _(node: tree.JsonConstructorExpr, compiler: Compiler) -> Compiled:
    if node.aggregate is not None:
        constructed = compiler.compile(node.aggregate)
    elif node.function == "JSON_SERIALIZE" or (node.function == "JSON" and not node.unique):
        constructed = compiler.compile(node.args[0])
    else:
        args = compiler.all(node.args)
        call = Call(compiler.context, tuple(arg.type for arg in node.args), node.type)
        construct = _CONSTRUCTORS[node.function]
        constructed = lambda env: construct(node, call, [arg(env) for arg in args])  # noqa: E731
    if node.coercion is None:
        return constructed
    outer, compiler.tested = compiler.tested, [None]
    cell, coercion = compiler.tested, compiler.compile(node.coercion)
    compiler.tested = outer

    def coerced(env: Any) -> Any:
        cell[0] = constructed(env)
        return coercion(env)

    return coerced


def _scalar(node: tree.JsonConstructorExpr, call: Call, values: list[Any]) -> Any:
    if values[0] is None:
        return None
    if node.binary:
        return to_jsonb(to_jsonb_tree(call, values[0], call.argtypes[0]))
    return to_json_text(call, values[0], call.argtypes[0])


def _array(node: tree.JsonConstructorExpr, call: Call, values: list[Any]) -> Any:
    kept = [
        (value, typoid)
        for value, typoid in zip(values, call.argtypes, strict=True)
        if value is not None or not node.absent_on_null
    ]
    if node.binary:
        return to_jsonb([to_jsonb_tree(call, value, typoid) for value, typoid in kept])
    return "[" + ", ".join(to_json_text(call, value, typoid) for value, typoid in kept) + "]"


def _object(node: tree.JsonConstructorExpr, call: Call, values: list[Any]) -> Any:
    members: list[tuple[str, Any, int]] = []
    seen: set[str] = set()
    for number in range(0, len(values), 2):
        key, value = values[number : number + 2]
        if key is None:
            if node.binary:
                raise PgError("22023", f"argument {number + 1}: key must not be null")
            raise PgError("22004", "null value not allowed for object key")
        name = object_key(call, key, call.argtypes[number])
        if node.unique and name in seen:
            shown = "" if node.binary else f": {escape_json(name)}"
            raise PgError("22030", f"duplicate JSON object key value{shown}")
        seen.add(name)
        if value is not None or not node.absent_on_null:
            members.append((name, value, call.argtypes[number + 1]))
    if node.binary:
        trees = [(name, to_jsonb_tree(call, value, typoid)) for name, value, typoid in members]
        members_by_name = {name: tree for name, tree in trees if tree is not None or not node.absent_on_null}
        return to_jsonb(sorted_object(members_by_name))
    parts = [f"{escape_json(name)} : {to_json_text(call, value, typoid)}" for name, value, typoid in members]
    return "{" + ", ".join(parts) + "}"


def _parse_unique(node: tree.JsonConstructorExpr, call: Call, values: list[Any]) -> Any:
    (text,) = values
    if text is not None and not _has_unique_keys(parse_json(text, decode=True)):
        raise PgError("22030", "duplicate JSON object key value")
    return text


_CONSTRUCTORS: dict[str, Callable[[tree.JsonConstructorExpr, Call, list[Any]], Any]] = {
    "JSON_OBJECT": _object,
    "JSON_ARRAY": _array,
    "JSON_SCALAR": _scalar,
    "JSON": _parse_unique,
}


# --- IS JSON ------------------------------------------------------------------------------------------------------


@compile_json.register
def _(node: tree.JsonIsPredicate, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    test = _is_jsonb if node.arg.type == oids.JSONB else _is_json
    return lambda env: None if (value := arg(env)) is None else test(value, node.kind, node.unique)


def _kind(name: str) -> str:
    return name.upper() if name in ("object", "array") else "SCALAR"


def _is_jsonb(value: str, kind: str, unique: bool) -> bool:
    return not kind or _kind(kind_of(jsonb_tree(value))) == kind


def _is_json(text: str, kind: str, unique: bool) -> bool:
    try:
        node = parse_json(text, decode=unique)
    except PgError:
        return False
    return (not kind or _kind(node.kind) == kind) and (not unique or _has_unique_keys(node))


def _has_unique_keys(node: JsonNode) -> bool:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.kind == "array":
            waiting += node.value
        elif node.kind == "object":
            if len({key for key, _ in node.value}) < len(node.value):
                return False
            waiting += [value for _, value in node.value]
    return True


# --- query functions ----------------------------------------------------------------------------------------------


class _Empty(Exception):
    """The path finds nothing."""


@compile_json.register
def _(node: tree.JsonExpr, compiler: Compiler) -> Compiled:
    """JSON_EXISTS, JSON_QUERY and JSON_VALUE with their ON EMPTY and ON ERROR (ExecEvalJsonExprPath)."""
    assert node.context is not None and node.path is not None
    context, path = compiler.compile(node.context), compiler.compile(node.path)
    variables = passed_variables(node, compiler)
    call = Call(compiler.context, (), node.type)
    find = _FUNCTIONS[node.function]
    on_empty = _behavior(node, compiler, "ON EMPTY", node.on_empty, node.empty_value, node.empty_coerced)
    on_error = _behavior(node, compiler, "ON ERROR", node.on_error, node.error_value, node.error_coerced)
    raises = node.on_error == "ERROR"

    def evaluate(env: Any) -> Any:
        value, text = context(env), path(env)
        if value is None or text is None:
            return None
        known = variables(env)
        try:
            result = find(node, call, jsonb_tree(value), text, known)
        except _Empty:
            if node.on_empty == "ERROR":
                of = f' of column "{node.column}"' if node.column else ""
                raise PgError("22035", f"no SQL/JSON item found for specified path{of}") from None
            return on_empty(env)
        except PathError:
            if raises:
                raise
            return on_error(env)
        try:
            return _converted(node, call, result)
        except PgError as error:
            if raises or not error.is_soft:
                raise
            return on_error(env)

    return evaluate


def passed_variables(node: tree.JsonExpr, compiler: Compiler) -> Callable[[Any], dict[str, Variable]]:
    """The values behind PASSING, by name."""
    passing = list(zip(node.names, compiler.all(node.passing), [arg.type for arg in node.passing], strict=True))

    def variables(env: Any) -> dict[str, Variable]:
        known: dict[str, Variable] = {}
        for number, (name, arg, typoid) in enumerate(passing, 1):
            item = path_item(arg(env), typoid)
            known.setdefault(name, Variable(item, item if isinstance(item, (dict, list)) else None, number))
        return known

    return variables


def _behavior(
    node: tree.JsonExpr, compiler: Compiler, clause: str, kind: str, value: tree.Expr | None, coerced: bool
) -> Compiled:
    if value is None:
        return lambda env: None
    compute = compiler.compile(value)
    if not coerced:
        return compute
    style_of = compiler.context

    def convert(env: Any) -> Any:
        document = compute(env)
        try:
            if document is None:
                return None
            return populate_type(
                jsonb_tree(document), node.type, node.typmod, style_of.style, omit_quotes=node.omit_quotes
            )
        except PgError as error:
            if not error.is_soft:
                raise
            message = f"could not coerce {clause} expression ({kind}) to the RETURNING type"
            raise PgError("42804", message, detail=error.message) from None

    return convert


def _exists(node: tree.JsonExpr, call: Call, value: Any, path: str, variables: dict[str, Variable]) -> Any:
    return jsonpath_steps.exists(call, value, path, variables, use_tz=True)


def _query(node: tree.JsonExpr, call: Call, value: Any, path: str, variables: dict[str, Variable]) -> Any:
    """What a path finds, as one json value, wrapped if asked (JsonPathQuery)."""
    items = jsonpath_steps.items(call, value, path, variables, use_tz=True)
    if not items:
        raise _Empty
    if node.wrapper == "UNCONDITIONAL" or (node.wrapper == "CONDITIONAL" and len(items) > 1):
        return items
    if len(items) > 1:
        where = f'for column "{node.column}"' if node.column else "in JSON_QUERY"
        raise PathError(
            "22034",
            f"JSON path expression {where} must return single item when no wrapper is requested",
            hint="Use the WITH WRAPPER clause to wrap SQL/JSON items into an array.",
        )
    return items[0]


def _value(node: tree.JsonExpr, call: Call, value: Any, path: str, variables: dict[str, Variable]) -> Any:
    """What a path finds, as one scalar (JsonPathValue)."""
    items = jsonpath_steps.items(call, value, path, variables, use_tz=True)
    if not items:
        raise _Empty
    if len(items) > 1 or isinstance(items[0], (dict, list)):
        where = f'for column "{node.column}"' if node.column else "in JSON_VALUE"
        code = "22034" if len(items) > 1 else "2203F"
        raise PathError(code, f"JSON path expression {where} must return single scalar item")
    return items[0]


_FUNCTIONS = {"JSON_EXISTS": _exists, "JSON_QUERY": _query, "JSON_VALUE": _value}


def _converted(node: tree.JsonExpr, call: Call, result: Any) -> Any:
    """The items that were found, as a value of the returned type."""
    if node.function == "JSON_EXISTS" and (not node.coercion or base_type(node.type) == oids.INT4):
        return result if not node.coercion else int(result)
    if node.function == "JSON_VALUE" and node.coercion != "json":
        if result is None:
            return None
        is_json = node.type in (oids.JSON, oids.JSONB)
        text = str(to_jsonb(jsonpath_steps.json_tree(result))) if is_json else item_text(result, call)
        return reader(node.type)(text, node.typmod, call.style)
    tree_ = jsonpath_steps.json_tree(result)
    if not node.coercion:
        return to_jsonb(tree_)
    return populate_type(tree_, node.type, node.typmod, call.style, omit_quotes=node.omit_quotes)


def item_text(item: Any, call: Call) -> str:
    """The text of an item that JSON_VALUE returns (ExecGetJsonValueItemString)."""
    if isinstance(item, str):
        return item
    if isinstance(item, bool):
        return "t" if item else "f"
    if isinstance(item, Decimal):
        return write_numeric(item)
    assert isinstance(item, Moment)
    return write_text(item.value, item.type, call.style)


_NUMBERS: dict[int, Callable[[Any], Any]] = {
    oids.NUMERIC: lambda value: value,
    oids.INT2: Decimal,
    oids.INT4: Decimal,
    oids.INT8: Decimal,
    oids.FLOAT4: float4_numeric,
    oids.FLOAT8: float8_numeric,
}
_MOMENTS = (oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ)


def path_item(value: Any, typoid: int) -> Any:
    """A value behind PASSING as an item of a path (JsonItemFromDatum)."""
    if value is None:
        return None
    if typoid == oids.BOOL:
        return value
    if typoid in _NUMBERS:
        return _NUMBERS[typoid](value)
    if typoid in (oids.TEXT, oids.VARCHAR):
        return value
    if typoid in _MOMENTS:
        return Moment(value, typoid)
    if typoid == oids.JSONB:
        return jsonb_tree(value)
    if typoid == oids.JSON:
        return parse_tree(value)
    raise PgError("0A000", f"could not convert value of type {format_type(typoid)} to jsonpath")


# --- compile json table -----------------------------------------------------------------------------------------------


Row = tuple[Any, ...]


def compile_json_table(
    node: tree.JsonTableExpr, context: Context, special: Special | None
) -> Callable[[Any], Iterator[Row]]:
    document, scan = node.document, node.scan
    assert isinstance(document, tree.JsonExpr) and document.context is not None and scan is not None
    compiler = Compiler(context, special)
    value = compiler.compile(document.context)
    variables = passed_variables(document, compiler)
    compiler.tested = cell = [None]
    columns = [None if expr is None else compiler.compile(expr) for expr in node.exprs]
    call = Call(context, (), node.type)
    raises = document.on_error == "ERROR"

    def rows(env: Any) -> Iterator[Row]:
        document = value(env)
        if document is None:
            return
        yield from _Rows(call, columns, cell, variables(env), raises, env).of(scan, jsonb_tree(document))

    return rows


class _Rows:
    def __init__(
        self,
        call: Call,
        columns: list[Compiled | None],
        cell: list[Any],
        variables: dict[str, Variable],
        raises: bool,
        env: Any,
    ) -> None:
        self.call = call
        self.columns = columns
        self.cell = cell
        self.variables = variables
        self.raises = raises
        self.env = env

    def of(self, scan: tree.JsonTableScan, document: Any) -> Iterator[Row]:
        """The rows of a path over a document; one without rows of nested paths has NULL in their columns."""
        for number, item in enumerate(self._items(scan.path, document), 1):
            own = {at: self._column(at, item, number) for at in range(scan.first, scan.last)}
            tree_ = jsonpath_steps.json_tree(item)
            joined = False
            for nested in scan.nested:
                for row in self.of(nested, tree_):
                    joined = True
                    yield tuple([own.get(at, value) for at, value in enumerate(row)])
            if not joined:
                yield tuple([own.get(at) for at in range(len(self.columns))])

    def _items(self, path: str, document: Any) -> list[Any]:
        try:
            return jsonpath_steps.items(self.call, document, path, self.variables, use_tz=True)
        except PathError:
            if self.raises:
                raise
            return []

    def _column(self, at: int, item: Any, number: int) -> Any:
        column = self.columns[at]
        if column is None:
            return number
        self.cell[0] = to_jsonb(jsonpath_steps.json_tree(item))
        return column(self.env)
