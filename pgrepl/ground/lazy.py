"""numpy, pyarrow and Spark's functions: each takes a while to load, and is loaded when something of it is first used.

Modules import them here, at their head; small commands load none of them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
    import pyarrow.types as kinds
    from pyarrow import fs
    from pyspark.sql import functions as F

__all__ = ["F", "fs", "kinds", "load", "np", "pa", "pacsv", "pc", "pq"]


class _Lazy(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # found at once the next time
        return value

    def __reduce__(self) -> tuple[Any, ...]:  # functions that Spark's workers get as text name their modules
        return import_module, (self.__name__,)


if not TYPE_CHECKING:
    np = _Lazy("numpy")
    pa = _Lazy("pyarrow")
    pc = _Lazy("pyarrow.compute")
    pq = _Lazy("pyarrow.parquet")
    fs = _Lazy("pyarrow.fs")
    kinds = _Lazy("pyarrow.types")
    pacsv = _Lazy("pyarrow.csv")
    F = _Lazy("pyspark.sql.functions")


def load() -> None:
    """Load what processes that are forked from this one would load each for itself: numpy and pyarrow."""
    for module in (np, pa, pc, pq, fs):
        import_module(module.__name__)
