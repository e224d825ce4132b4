"""The options of CREATE and ALTER FUNCTION (compute_function_attributes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError, unsupported
from pgrepl.sql.nodes import DefElem, FloatText, VariableSetKind, VariableSetStmt
from pgrepl.statements.role_settings import checked_name, may_reset, with_item
from pgrepl.statements.settings import setting_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_NOT_OF_PROCEDURES = ("volatility", "strict", "leakproof", "cost", "rows", "support", "parallel", "window")
_PARALLEL = {"safe": "s", "restricted": "r", "unsafe": "u"}


@dataclass(slots=True)
class RoutineOptions:
    """The options that were given; None: not given."""

    language: str | None = None
    source: tuple[str, ...] | None = None
    volatility: str | None = None
    strict: bool | None = None
    security_definer: bool | None = None
    leakproof: bool | None = None
    cost: float | None = None
    rows: float | None = None
    parallel: str | None = None
    settings: tuple[VariableSetStmt, ...] = ()


def read_options(options: Sequence[DefElem], *, is_procedure: bool) -> RoutineOptions:
    found = RoutineOptions()
    given: set[str] = set()
    for option in options:
        name, value = option.name, option.value
        if name == "set":
            assert isinstance(value, VariableSetStmt)
            found.settings = (*found.settings, value)
            continue
        if name in given:
            raise PgError("42601", "conflicting or redundant options", location=option.location)
        given.add(name)
        if is_procedure and name in _NOT_OF_PROCEDURES:
            raise PgError("42P13", "invalid attribute in procedure definition", location=option.location)
        _read(found, name, value)
    return found


def _read(found: RoutineOptions, name: str, value: Any) -> None:
    if name == "language":
        found.language = value
    elif name == "as":
        found.source = value
    elif name == "volatility":
        found.volatility = value
    elif name == "strict":
        found.strict = value
    elif name == "security":
        found.security_definer = value
    elif name == "leakproof":
        found.leakproof = value
    elif name == "cost":
        found.cost = _positive(value, "COST")
    elif name == "rows":
        found.rows = _positive(value, "ROWS")
    elif name == "parallel":
        found.parallel = _PARALLEL.get(value)
        if found.parallel is None:
            raise PgError("42601", 'parameter "parallel" must be SAFE, RESTRICTED, or UNSAFE')
    else:
        raise unsupported(f"{name.upper()} of a function")


def _positive(value: int | FloatText, what: str) -> float:
    number = float(value.text if isinstance(value, FloatText) else value)
    if number <= 0:
        raise PgError("22023", f"{what} must be positive")
    return number


def with_settings(
    session: Session, config: Sequence[str] | None, settings: Sequence[VariableSetStmt]
) -> list[str] | None:
    """proconfig after SET and RESET clauses (update_proconfig_value)."""
    items = list(config or ())
    for setting in settings:
        if setting.kind is VariableSetKind.RESET_ALL:
            items = [item for item in items if not may_reset(session, item.partition("=")[0])]
            continue
        assert setting.name is not None
        text = setting_text(session, setting)
        items = with_item(items, checked_name(session, setting.name, text), text)
    return items or None
