"""The SQL/JSON expressions that are not immutable (contain_mutable_functions_walker)."""

from __future__ import annotations

from pgrepl.expr import tree
from pgrepl.types import builtin, oids
from pgrepl.types.jsonpath.parser import parse_path
from pgrepl.types.jsonpath.scanner import COMPARISONS, Item, parts, steps

_IMMUTABLE = frozenset({oids.BOOL, oids.JSON, oids.JSONB})
_ISO = frozenset({oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})  # their text in JSON depends on the time zone or style
_CASTS = frozenset({"date", "time", "time_tz", "timestamp", "timestamp_tz"})


def is_mutable(node: tree.SqlJson) -> bool:
    if isinstance(node, tree.JsonConstructorExpr):
        return any(not _to_json_is_immutable(arg.type) for arg in node.args)
    if not isinstance(node, tree.JsonExpr):
        return False
    if not isinstance(node.path, tree.Const):
        return True
    return node.path.value is not None and _path_is_mutable(node.path.value)


def _to_json_is_immutable(typoid: int) -> bool:
    """Whether values of a type become JSON without the session's settings (to_json_is_immutable)."""
    typoid = builtin.base_type(typoid)
    if typoid in _IMMUTABLE:
        return True
    known = builtin.type_by_oid(typoid)
    if typoid in _ISO or known is None or builtin.element_type(typoid) or known.typtype == "c":
        return False
    procs = builtin.procs_by_name(known.output)
    return bool(procs) and procs[0].volatile == "i"


def _path_is_mutable(path: str) -> bool:
    """Whether dates and times in a path may be converted by the time zone (jspIsMutable)."""
    items = list(_all_items(parse_path(path).first))
    methods = {item.value for item in items if item.kind == "method"}
    return bool(methods & _CASTS) or any(item.kind in COMPARISONS and _compares_moments(item) for item in items)


def _compares_moments(comparison: Item) -> bool:
    return all(
        any(item.kind == "method" and item.value == "datetime" for item in _all_items(side))
        for side in parts(comparison)
    )


def _all_items(first: Item) -> list[Item]:
    items: list[Item] = []
    waiting = [first]
    while waiting:
        for item in steps(waiting.pop()):
            items.append(item)
            waiting += parts(item)
    return items
