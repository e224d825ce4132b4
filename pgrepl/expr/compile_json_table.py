"""The rows of JSON_TABLE (the part of jsonpath_exec.c that table functions call)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.compile_json import passed_variables
from pgrepl.expr.compiler import Compiled, Compiler, Special
from pgrepl.expr.context import Call, Context
from pgrepl.expr.jsonpath import search
from pgrepl.expr.jsonpath.run import PathError, Variable
from pgrepl.types.json import jsonb_tree, to_jsonb

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
        found = value(env)
        if found is None:
            return
        yield from _Rows(call, columns, cell, variables(env), raises, env).of(scan, jsonb_tree(found))

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
            tree_ = search.json_tree(item)
            joined = False
            for nested in scan.nested:
                for row in self.of(nested, tree_):
                    joined = True
                    yield tuple([own.get(at, value) for at, value in enumerate(row)])
            if not joined:
                yield tuple([own.get(at) for at in range(len(self.columns))])

    def _items(self, path: str, document: Any) -> list[Any]:
        try:
            return search.items(self.call, document, path, self.variables, use_tz=True)
        except PathError:
            if self.raises:
                raise
            return []

    def _column(self, at: int, item: Any, number: int) -> Any:
        column = self.columns[at]
        if column is None:
            return number
        self.cell[0] = to_jsonb(search.json_tree(item))
        return column(self.env)
