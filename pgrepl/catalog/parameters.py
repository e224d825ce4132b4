"""The configuration parameters: names, types, units, ranges, defaults as PostgreSQL 17 has them (guc_tables.c).

`data/settings.json` holds one parameter a line: those that change something here, with a description, and without one
those that are accepted, so that scripts made for PostgreSQL run. PostgreSQL's other parameters, which control what only
its server has, are unknown. Values are bool, int, float or str in the base unit.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

Value: TypeAlias = bool | int | float | str

LIST_INPUT = frozenset(
    {
        "datestyle", "temp_tablespaces", "createrole_self_grant", "session_preload_libraries",
        "local_preload_libraries", "search_path", "log_destination", "wal_consistency_checking",
        "restrict_nonsystem_relation_kind", "synchronized_standby_slots", "synchronous_standby_names",
    }
)  # fmt: skip
LIST_QUOTE = frozenset({"temp_tablespaces", "session_preload_libraries", "local_preload_libraries", "search_path"})
NO_SHOW_ALL = frozenset(
    {"is_superuser", "role", "session_authorization", "seed", "default_with_oids", "ssl_renegotiation_limit"}
)
NO_RESET = frozenset({"transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed"})
NO_RESET_ALL = NO_RESET | {"is_superuser", "role", "session_authorization"}
SUPERUSER_ONLY = frozenset(
    {"primary_conninfo", "session_preload_libraries", "data_directory", "config_file", "hba_file", "ident_file"}
)
NO_EFFECT = "Accepted for scripts made for PostgreSQL; changes nothing here."

MEMORY = {"B": 1.0, "kB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4}
TIME = {"us": 0.001, "ms": 1.0, "s": 1000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
BASE = {"B": 1.0, "kB": 1024.0, "8kB": 8192.0, "MB": 1024.0**2, **TIME}


@frozen
class Parameter:
    """One parameter; the fields are pg_settings' columns."""

    name: str
    default: Value
    unit: str | None
    category: str
    short_desc: str
    context: str  # internal postmaster sighup superuser-backend backend superuser user
    vartype: str  # bool integer real string enum
    minimum: Value | None
    maximum: Value | None
    options: tuple[str, ...] | None
    boot: str | None

    @property
    def key(self) -> str:
        return self.name.lower()


@cache
def _lines() -> dict[str, list[Any]]:
    text = Path(__file__).with_name("data").joinpath("settings.json").read_text(encoding="utf-8")
    return {line[0].lower(): line for line in json.loads(text)}


@cache
def find(name: str) -> Parameter | None:
    """The parameter of that name, in upper or lower case, or None."""
    line = _lines().get(ascii_lower(name))
    if line is None:
        return None
    shown_name, default, unit, category, description, context, vartype, low, high, options, boot = line
    number = int if vartype == "integer" else float
    value: Value = default
    if vartype == "bool":
        value = default == "on"
    elif vartype in ("integer", "real"):
        value = number(default)
    low, high = (None if bound is None else number(bound) for bound in (low, high))
    options = None if options is None else tuple(options)
    text = NO_EFFECT if description is None else description
    return Parameter(shown_name, value, unit, category, text, context, vartype, low, high, options, boot)


def all_parameters() -> list[Parameter]:
    """The parameters that SHOW ALL shows, in its order."""
    found = [find(key) for key in sorted(_lines()) if key not in NO_SHOW_ALL]
    return [parameter for parameter in found if parameter is not None]


def ascii_lower(name: str) -> str:
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


def unrecognized(name: str) -> PgError:
    return PgError("42704", f'unrecognized configuration parameter "{name}"')


# --- value to text ------------------------------------------------------------------------------------------------


def show(parameter: Parameter, value: Value) -> str:
    """The value as SHOW prints it, in the largest unit that divides it (ShowGUCOption)."""
    if parameter.vartype in ("integer", "real") and parameter.unit is not None and isinstance(value, (int, float)):
        if value > 0:
            return _with_unit(value, parameter.unit)
    return raw(parameter, value)


def raw(parameter: Parameter, value: Value) -> str:
    """The value as pg_settings.setting has it, without unit."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return value


def is_memory(unit: str) -> bool:
    return unit.endswith("B")


def _with_unit(value: float, base: str) -> str:
    scale = MEMORY if is_memory(base) else TIME
    for unit, size in sorted(scale.items(), key=lambda item: -item[1]):
        multiplier = size / BASE[base]
        quotient = value / multiplier
        if isinstance(value, int):
            if multiplier <= 1.0 or value % int(multiplier) == 0:
                return f"{round(quotient)}{unit}"
        elif abs(quotient - round(quotient)) <= 1e-8 * max(abs(quotient), 1.0) and quotient >= 1:
            return f"{quotient:g}{unit}"
    smallest = min(scale, key=scale.__getitem__)
    return f"{value / (scale[smallest] / BASE[base]):g}{smallest}"
