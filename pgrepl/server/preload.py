"""Modules that nearly every session needs, loaded before the first backend is forked: it shares their memory, and
starts in milliseconds."""

from __future__ import annotations

import importlib
import pkgutil

_ROOMS = (
    "catalog",
    "errors",
    "expr",
    "lake",
    "query",
    "rows",
    "sql",
    "statements",
    "types",
    "writing",
    "replication",
    "server",
)
# what Spark needs comes with the first large statement; what other readers of DuckLake need, with them
_LATER = ("spark", "decoding.", "backup", "formats.", "make_", "standby")


def load() -> None:
    import pgrepl

    for module in pkgutil.walk_packages(pgrepl.__path__, "pgrepl."):
        room = module.name.split(".")[1]
        if room in _ROOMS and not any(word in module.name for word in _LATER):
            importlib.import_module(module.name)
