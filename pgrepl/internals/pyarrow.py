"""What is used of pyarrow beyond its documentation: a module of its own, which reads the documentation of options."""

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
