"""What is used of pyarrow beyond its documentation: a module that it reads its options' documentation with, and pandas,
which it would import at its first array.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

_READER = "pyarrow.vendored.docscrape"


class _NotRead:
    """Stands for the documentation of some options, of which pyarrow wants the parameters."""

    def __init__(self, _documentation: str) -> None:
        return

    def __getitem__(self, _section: str) -> list[Any]:
        return [SimpleNamespace(name="options", type="", desc=[])]


def leave_documentation_out() -> None:
    """Spare a command the texts of `help()` that pyarrow.compute puts together for each of its functions when it is
    imported: two thirds of the import, 25 to 60 ms."""
    if _READER not in sys.modules:
        module = ModuleType(_READER)
        vars(module)["NumpyDocString"] = _NotRead
        sys.modules[_READER] = module


# --- pandas -----------------------------------------------------------------------------------------------------------


class _Hidden:
    """An import hook."""

    def __init__(self, askers: tuple[str, ...]) -> None:
        self._askers = askers

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas" and (not self._askers or _asker().partition(".")[0] in self._askers):
            raise ModuleNotFoundError("pandas is left out", name=name)


def _asker() -> str:
    """The name of the module that imports something."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def hide(*askers: str) -> None:
    """Hide pandas from modules of these packages, from all if none is named. pyarrow, which is compiled, asks in the
    name of the module that calls it."""
    sys.meta_path.insert(0, _Hidden(askers))
