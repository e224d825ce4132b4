"""The items that a path finds in a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.jsonpath import accessors, arithmetic, methods, predicates
from pgrepl.expr.jsonpath.moments import moment_text
from pgrepl.expr.jsonpath.run import Moment, PathError, Run, Variable
from pgrepl.types.depth import stack_depth_exceeded
from pgrepl.types.jsonpath.parser import parse_path

HANDLERS = (accessors, arithmetic, methods, predicates)  # importing them registers their items

_NOTHING: Mapping[str, Variable] = {}


def variables_of(tree: Any) -> dict[str, Variable]:
    """The members of the argument `vars`."""
    if not isinstance(tree, dict):
        detail = 'Jsonpath parameters should be encoded as key-value pairs of "vars" object.'
        raise PgError("22023", '"vars" argument is not an object', detail=detail)
    return {name: Variable(value, tree, 1) for name, value in tree.items()}


def items(
    call: Call,
    tree: Any,
    path: str,
    variables: Mapping[str, Variable] | None = None,
    *,
    silent: bool = False,
    use_tz: bool = False,
) -> list[Any]:
    """All items; with silent those before an error."""
    found: list[Any] = []
    parsed = parse_path(path)
    try:
        _run(call, tree, path, variables, use_tz).execute(parsed.first, tree, found)
    except PathError:
        if not silent:
            raise
    except RecursionError:
        raise stack_depth_exceeded() from None
    return found


def exists(
    call: Call,
    tree: Any,
    path: str,
    variables: Mapping[str, Variable] | None = None,
    *,
    silent: bool = False,
    use_tz: bool = False,
) -> bool | None:
    """Whether there is an item; None after an error that silent suppresses."""
    parsed = parse_path(path)
    run = _run(call, tree, path, variables, use_tz)
    found: list[Any] | None = None if parsed.lax else []  # in strict mode all items are computed, to find errors
    try:
        result = run.execute(parsed.first, tree, found)
    except PathError:
        if not silent:
            raise
        return None
    except RecursionError:
        raise stack_depth_exceeded() from None
    return result if found is None else bool(found)


def _run(call: Call, tree: Any, path: str, variables: Mapping[str, Variable] | None, use_tz: bool) -> Run:
    known = _NOTHING if variables is None else variables
    numbers = max((variable.number for variable in known.values()), default=0 if variables is None else 1)
    return Run(call, tree, parse_path(path).lax, known, numbers, use_tz)


def json_tree(value: Any) -> Any:
    """An item as plain JSON: dates and times as their text."""
    if isinstance(value, Moment):
        return moment_text(value)
    if isinstance(value, dict):
        if any(isinstance(member, (Moment, dict, list)) for member in value.values()):
            return {key: json_tree(member) for key, member in value.items()}
    elif isinstance(value, list) and any(isinstance(member, (Moment, dict, list)) for member in value):
        return [json_tree(member) for member in value]
    return value
