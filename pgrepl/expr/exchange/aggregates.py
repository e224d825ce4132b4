"""Aggregates in Spark SQL: Spark's own where results are equal, else PostgreSQL's accumulator over the group's rows;
and the keys by which Spark groups and sorts as PostgreSQL does.

    numeric kept as text   equal: '1.5' of 1.50; order: '60000001' + '15', the digits of negative numbers are inverted
    character(n)           the text without trailing blanks
    interval, jsonb, inet, arrays, ranges …   bytes that sort like the values, made in Python
"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.expr import tree
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, Compiler, fall_back, finished, gathered, over_columns
from pgrepl.expr.exchange.sql import (
    Sql,
    cast,
    decimal_size,
    decimal_type,
    form_type,
    let,
    numeric_text,
    order_bytes,
    raised,
)
from pgrepl.expr.functions.arithmetic import float_overflow
from pgrepl.types import oids
from pgrepl.types.builtin import array_type, base_type, element_type, operator, proc_by_oid

# types whose lake form Spark orders, and finds equal, as PostgreSQL does
NATURAL = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.XID, oids.CID, oids.REGPROC, oids.REGPROCEDURE,
        oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE, oids.REGNAMESPACE,
        oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.FLOAT4, oids.FLOAT8, oids.TEXT, oids.VARCHAR,
        oids.NAME, oids.CHAR, oids.UNKNOWN, oids.BYTEA, oids.UUID, oids.DATE, oids.TIME, oids.TIMESTAMP,
        oids.TIMESTAMPTZ, oids.BIT, oids.VARBIT, oids.MACADDR, oids.MACADDR8,
    }
)  # fmt: skip
# types whose equal values have equal texts
_ONE_TEXT = NATURAL | {oids.TIMETZ, oids.INET, oids.CIDR, oids.PG_LSN, oids.XID8, oids.TID, oids.JSON}


def equal_key(expr: tree.Expr, compiler: Compiler) -> str:
    if isinstance(expr, tree.RowExpr) and expr.args:
        return f"struct({', '.join(equal_key(arg, compiler) for arg in expr.args)})"
    typoid = base_type(expr.type)
    if typoid == oids.NUMERIC:
        value = compiler.value(expr)
        if decimal_size(value.type) is not None:
            return value.text
        return numeric_equal_key(numeric_text(value))
    if typoid == oids.BPCHAR:
        return f"rtrim({compiler.text(expr)})"
    element = element_type(typoid)
    if typoid in _ONE_TEXT or (element and base_type(element) in _ONE_TEXT):
        return compiler.text(expr)
    return _made(expr, compiler)


def sort_key_of(expr: tree.Expr, compiler: Compiler) -> str:
    typoid = base_type(expr.type)
    if typoid == oids.NUMERIC:
        value = compiler.value(expr)
        if decimal_size(value.type) is not None:
            return value.text
        return numeric_order_key(Sql(numeric_text(value), "STRING"))
    if typoid == oids.BPCHAR:
        return f"rtrim({compiler.text(expr)})"
    if typoid in NATURAL:
        return compiler.text(expr)
    return _made(expr, compiler)


def sort_item(expr: tree.Expr, key: tree.SortGroup, compiler: Compiler) -> str:
    text = sort_key_of(expr, compiler)
    return f"{text} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _made(expr: tree.Expr, compiler: Compiler) -> str:
    value = compiler.constant(expr)
    if value is None:
        return cast("NULL", "BINARY")
    if value is not NOT_CONSTANT:
        return compiler.statement.bind(order_bytes(value, expr.type))

    return fall_back(expr, compiler, key=True).text


def numeric_equal_key(text: str) -> str:
    """The text of a numeric without trailing zeros."""
    return let(
        [Sql(text, "STRING")], lambda n: f"CASE WHEN contains({n}, '.') THEN rtrim('.', rtrim('0', {n})) ELSE {n} END"
    )


USUAL_DECIMAL = "DECIMAL(28,10)"


def scale_of(text: str) -> str:
    """The scale of a numeric stored as text."""
    return f"CASE WHEN instr({text}, '.') = 0 THEN 0 ELSE char_length({text}) - instr({text}, '.') END"


def usual_numeric(text: str) -> str:
    """Whether a numeric stored as text fits USUAL_DECIMAL exactly: no NaN or infinity, not too many digits on either
    side."""
    return f"octet_length({text}) <= 18 AND right({text}, 1) <= '9' AND {scale_of(text)} <= 10"


def numeric_order_key(value: Sql) -> str:
    """A text that sorts as the numbers do: sign, number of digits before the decimal point, digits."""

    def body(n: str) -> str:
        whole = f"ltrim('0', ltrim('-', substring_index({n}, '.', 1)))"
        digits = f"rtrim('0', concat({whole}, split_part({n}, '.', 2)))"
        size = f"concat(lpad(CAST(char_length({whole}) AS STRING), 6, '0'), {digits})"
        return (
            f"CASE WHEN {n} IN ('NaN', 'Infinity', '-Infinity') THEN decode({n}, 'NaN', '9', 'Infinity', '8', '0')"
            f" WHEN rtrim('0', ltrim('0', replace({n}, '.', ''))) = '' THEN '5'"
            f" WHEN startswith({n}, '-') THEN concat('4', translate({size}, '0123456789', '9876543210'), '~')"
            f" ELSE concat('6', {size}) END"
        )

    return let([value], body)


# --- aggregates -------------------------------------------------------------------------------------------------------


Node = tree.Aggref | tree.WindowFunc


def aggregate(node: Node, compiler: Compiler, over: str = "") -> Sql:
    """The SQL of an aggregate; `over`: as a window function."""
    proc = proc_by_oid(node.func)
    assert proc is not None
    call = SparkAggregateCall(node, compiler, over)
    make = _NATIVE.get(proc.name)
    ordered = isinstance(node, tree.Aggref) and (node.kind != "n" or (node.order and proc.name not in _UNORDERED))
    sql = None if make is None or ordered else make(call)
    return gathered(node, compiler, over) if sql is None else sql


class SparkAggregateCall:
    """One aggregate call and the SQL of its arguments."""

    def __init__(self, node: Node, compiler: Compiler, over: str) -> None:
        self.node = node
        self.compiler = compiler
        self.over = over
        self.distinct = isinstance(node, tree.Aggref) and node.distinct
        self.types = tuple(base_type(arg.type) for arg in node.args)

    def value(self, position: int = 0) -> Sql:
        return self.compiler.value(self.node.args[position])

    def filtered(self, text: str) -> str:
        """The argument for rows that pass FILTER, NULL for others: most aggregates leave it out then."""
        if self.node.filter is None:
            return text
        return f"CASE WHEN {self.compiler.text(self.node.filter)} THEN {text} END"

    def spark(self, function: str, *arguments: str, distinct: bool | None = None) -> str:
        word = "DISTINCT " if (self.distinct if distinct is None else distinct) else ""
        return f"{function}({word}{', '.join(arguments)}){self.over}"

    def of(self, function: str, result: str, position: int = 0) -> Sql:
        """A Spark aggregate of one argument."""
        return Sql(self.spark(function, self.filtered(self.value(position).text)), result)


def _count(call: SparkAggregateCall) -> Sql | None:
    if isinstance(call.node, (tree.Aggref, tree.WindowFunc)) and (call.node.star or not call.node.args):
        return Sql(call.spark("count", call.filtered("1"), distinct=False), "BIGINT")
    (arg,) = call.node.args
    if call.distinct:
        return Sql(call.spark("count", call.filtered(equal_key(arg, call.compiler))), "BIGINT")
    return Sql(call.spark("count", call.filtered(call.compiler.value(arg).text)), "BIGINT")


def _sum(call: SparkAggregateCall) -> Sql | None:
    typoid = call.types[0]
    if typoid in (oids.INT2, oids.INT4):
        return call.of("sum", "BIGINT")
    if typoid == oids.INT8:
        return _bigint_sum(call)
    if typoid == oids.NUMERIC:
        return _numeric_sum(call)
    if typoid == oids.FLOAT8:
        return _float_sum(call, call.filtered(call.value().text), "DOUBLE")
    if typoid == oids.FLOAT4:
        return _float_sum(call, call.filtered(cast(call.value().text, "DOUBLE")), "FLOAT")
    return None


_WIDE = "DECIMAL(38,0)"


def _bigint_sum(call: SparkAggregateCall) -> Sql:
    """The sum of integers of any size, from the sums of their upper and lower halves, as Spark adds longs far
    faster."""
    x = call.filtered(call.value().text)
    if call.distinct:
        return Sql(cast(call.spark("sum", cast(x, "DECIMAL(19,0)")), _WIDE), _WIDE)
    upper = call.spark("sum", f"shiftright({x}, 32)")
    lower = call.spark("sum", f"({x}) & 4294967295L")
    return Sql(f"CAST(CAST({upper} AS DECIMAL(20,0)) * 4294967296BD + {lower} AS {_WIDE})", _WIDE)


def _numeric_sum(call: SparkAggregateCall) -> Sql | None:
    total = _decimal_sum(call)
    if total is not None:
        return total
    if call.distinct:
        return None
    return finished("sum", call.compiler, _parts(call))


def _decimal_sum(call: SparkAggregateCall) -> Sql | None:
    """The sum of decimals whose precision leaves room for ten billion values."""
    value = call.value()
    size = decimal_size(value.type)
    if size is None or size[0] > 28:
        return None
    result = decimal_type(size[0] + 10, size[1])
    return Sql(call.spark("sum", call.filtered(value.text)), result)


def _parts(call: SparkAggregateCall) -> list[tuple[int, Sql]]:
    """The sum of the usual numbers, their largest scale, and the array of the unusual numbers."""
    text = numeric_text(call.value())
    usual = usual_numeric(text)
    total = call.spark("sum", call.filtered(f"CASE WHEN {usual} THEN CAST({text} AS {USUAL_DECIMAL}) END"))
    scale = call.spark("max", call.filtered(f"CASE WHEN {usual} THEN {scale_of(text)} END"))
    others = call.spark("collect_list", call.filtered(f"CASE WHEN NOT ({usual}) THEN {text} END"))
    return [
        (oids.NUMERIC, Sql(total, "DECIMAL(38,10)")),
        (oids.INT4, Sql(scale, "INT")),
        (array_type(oids.NUMERIC), Sql(others, "ARRAY<STRING>")),
    ]


def _float_sum(call: SparkAggregateCall, text: str, result: str) -> Sql:
    """The sum of floats; an infinite sum of finite numbers is an error."""
    total = call.spark("sum", text)
    wanted = total if result == "DOUBLE" else cast(total, result)
    nothing = call.spark("sum", f"({text} * 0D)", distinct=False)  # NaN when one of the numbers is not finite
    failed = f"abs({wanted}) = double('Infinity') AND {nothing} = 0D"
    return Sql(f"CASE WHEN {failed} THEN {raised(float_overflow())} ELSE {wanted} END", result)


def _average(call: SparkAggregateCall) -> Sql | None:
    """The average: sum and count by Spark, the division by PostgreSQL's rules in Python (once for each group)."""
    typoid = call.types[0]
    if typoid in (oids.FLOAT4, oids.FLOAT8):
        x = call.filtered(cast(call.value().text, "DOUBLE"))
        return Sql(f"({_float_sum(call, x, 'DOUBLE').text} / nullif({call.spark('count', x)}, 0))", "DOUBLE")
    if typoid in (oids.INT2, oids.INT4):
        whole = call.spark("sum", call.filtered(cast(call.value().text, "BIGINT")))
        total = Sql(cast(whole, "DECIMAL(19,0)"), "DECIMAL(19,0)")
    elif typoid == oids.INT8:
        total = _bigint_sum(call)
    elif typoid == oids.NUMERIC:
        decimals = _decimal_sum(call)
        if decimals is None:
            return None if call.distinct else finished("avg", call.compiler, [*_parts(call), _count_of(call)])
        total = decimals
    else:
        return None
    count = call.spark("count", call.filtered(call.value().text))
    return _finish(call, _divided(), total, Sql(f"CAST(nullif({count}, 0) AS DECIMAL(19,0))", "DECIMAL(19,0)"))


def _count_of(call: SparkAggregateCall) -> tuple[int, Sql]:
    return oids.INT8, Sql(call.spark("count", call.filtered(call.value().text)), "BIGINT")


def _divided() -> tree.Expr:
    divide = operator("/", oids.NUMERIC, oids.NUMERIC)
    assert divide is not None
    args = (tree.Var(oids.NUMERIC, attnum=1), tree.Var(oids.NUMERIC, attnum=2))
    return tree.OpExpr(oids.NUMERIC, op=divide.oid, args=args)


def _finish(call: SparkAggregateCall, expr: tree.Expr, *values: Sql) -> Sql:
    """An expression over what Spark has aggregated, its `Var`s being the values."""

    return over_columns(dict(enumerate(values, 1)), call.compiler.statement).value(expr)


def _extreme(function: str) -> Callable[[SparkAggregateCall], Sql | None]:
    def make(call: SparkAggregateCall) -> Sql | None:
        (arg,) = call.node.args
        typoid = call.types[0]
        value = call.value()
        natural = typoid in NATURAL or (typoid == oids.NUMERIC and value.type != "STRING")
        if natural:
            return Sql(call.spark(function, call.filtered(value.text), distinct=False), value.type)
        result = form_type(arg.type, arg.typmod)
        key = call.filtered(sort_key_of(arg, call.compiler))
        return Sql(call.spark(f"{function}_by", call.compiler.text(arg), key, distinct=False), result)

    return make


def _boolean(function: str) -> Callable[[SparkAggregateCall], Sql | None]:
    return lambda call: Sql(call.spark(function, call.filtered(call.value().text), distinct=False), "BOOLEAN")


def _bits(function: str) -> Callable[[SparkAggregateCall], Sql | None]:
    def make(call: SparkAggregateCall) -> Sql | None:
        if call.types[0] not in oids.INTEGERS:
            return None
        return call.of(function, form_type(call.types[0]))

    return make


def _any_value(call: SparkAggregateCall) -> Sql | None:
    value = call.value()
    return Sql(f"first({call.filtered(value.text)}, true){call.over}", value.type)


def _moments(function: str) -> Callable[[SparkAggregateCall], Sql | None]:
    """Variance and its like: floats by Spark, whose last digits depend on the partitioning; numeric by exact sums."""

    def make(call: SparkAggregateCall) -> Sql | None:
        typoid, value = call.types[0], call.value()
        if call.distinct:
            return None
        if typoid in (oids.FLOAT4, oids.FLOAT8):
            return Sql(call.spark(function, call.filtered(cast(value.text, "DOUBLE"))), "DOUBLE")
        if typoid in (oids.INT2, oids.INT4):
            number, scale = cast(value.text, "DECIMAL(10,0)"), 0
        else:
            size = decimal_size(value.type)
            if size is None or size[0] > _SQUARED:
                return None
            number, scale = value.text, size[1]
        total = Sql(call.spark("sum", call.filtered(cast(number, decimal_type(28, scale)))), decimal_type(38, scale))
        square = cast(f"{number} * {number}", decimal_type(28, 2 * scale))
        squares = Sql(call.spark("sum", call.filtered(square)), decimal_type(38, 2 * scale))
        sums = [_count_of(call), (oids.NUMERIC, total), (oids.NUMERIC, squares)]
        return finished(function, call.compiler, sums)

    return make


_SQUARED = 13  # digits of decimals whose squares can be summed up


def _array_agg(call: SparkAggregateCall) -> Sql | None:
    result = form_type(call.node.type, call.node.typmod)
    arg = call.node.args[0]
    if call.distinct or element_type(call.types[0]):
        return None
    row = call.filtered(f"named_struct('v', {call.compiler.text(arg)})")
    listed = call.spark("collect_list", row)
    return Sql(cast(f"CASE WHEN size({listed}) > 0 THEN {listed}.v END", result), result)


def _string_agg(call: SparkAggregateCall) -> Sql | None:
    delimiter = call.compiler.constant(call.node.args[1])
    if call.distinct or call.types[0] != oids.TEXT or not isinstance(delimiter, str):
        return None
    text = call.filtered(call.value().text)
    listed = call.spark("collect_list", text)
    bound = call.compiler.statement.bind(delimiter)
    return Sql(f"CASE WHEN size({listed}) > 0 THEN array_join({listed}, {bound}) END", "STRING")


# aggregates whose result does not depend on the order of the rows
_UNORDERED = {"count", "sum", "min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor", "avg"}

_NATIVE: dict[str, Callable[[SparkAggregateCall], Sql | None]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "bool_and": _boolean("bool_and"),
    "every": _boolean("bool_and"),
    "bool_or": _boolean("bool_or"),
    "bit_and": _bits("bit_and"),
    "bit_or": _bits("bit_or"),
    "bit_xor": _bits("bit_xor"),
    "any_value": _any_value,
    "array_agg": _array_agg,
    "string_agg": _string_agg,
    "stddev": _moments("stddev_samp"),
    "stddev_samp": _moments("stddev_samp"),
    "stddev_pop": _moments("stddev_pop"),
    "variance": _moments("var_samp"),
    "var_samp": _moments("var_samp"),
    "var_pop": _moments("var_pop"),
}
