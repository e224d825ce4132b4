"""Functions and operators with a jsonpath."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.jsonpath.run import Variable
from pgrepl.expr.jsonpath.search import exists, items, json_tree, variables_of
from pgrepl.types.json import Jsonb, jsonb_tree, to_jsonb

implements = Family()

Found = Callable[..., list[Any]]


def _variables(given: Jsonb | None) -> Mapping[str, Variable] | None:
    return None if given is None else variables_of(jsonb_tree(given))


def _items(call: Call, value: Jsonb, path: str, given: Jsonb | None, silent: bool, use_tz: bool) -> list[Any]:
    return items(call, jsonb_tree(value), path, _variables(given), silent=silent, use_tz=use_tz)


def _match(call: Call, value: Jsonb, path: str, given: Jsonb | None, silent: bool, use_tz: bool) -> bool | None:
    found = _items(call, value, path, given, silent, use_tz)
    if len(found) == 1 and (found[0] is None or isinstance(found[0], bool)):
        return found[0]
    if silent:
        return None
    raise PgError("22038", "single boolean result is expected")


def _register(suffix: str, use_tz: bool) -> None:
    @implements(f"jsonb_path_exists{suffix}", context=True)
    def jsonb_path_exists(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> bool | None:
        return exists(call, jsonb_tree(value), path, _variables(given), silent=silent, use_tz=use_tz)

    @implements(f"jsonb_path_match{suffix}", context=True)
    def jsonb_path_match(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> bool | None:
        return _match(call, value, path, given, silent, use_tz)

    @implements(f"jsonb_path_query{suffix}", context=True)
    def jsonb_path_query(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> Iterator[Jsonb]:
        return iter([to_jsonb(json_tree(item)) for item in _items(call, value, path, given, silent, use_tz)])

    @implements(f"jsonb_path_query_array{suffix}", context=True)
    def jsonb_path_query_array(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> Jsonb:
        return to_jsonb(json_tree(_items(call, value, path, given, silent, use_tz)))

    @implements(f"jsonb_path_query_first{suffix}", context=True)
    def jsonb_path_query_first(call: Call, value: Jsonb, path: str, given: Jsonb, silent: bool) -> Jsonb | None:
        found = _items(call, value, path, given, silent, use_tz)
        return to_jsonb(json_tree(found[0])) if found else None


_register("", False)
_register("_tz", True)


@implements("jsonb_path_exists_opr", context=True)
def jsonb_path_exists_opr(call: Call, value: Jsonb, path: str) -> bool | None:
    return exists(call, jsonb_tree(value), path, silent=True)


@implements("jsonb_path_match_opr", context=True)
def jsonb_path_match_opr(call: Call, value: Jsonb, path: str) -> bool | None:
    return _match(call, value, path, None, True, False)
