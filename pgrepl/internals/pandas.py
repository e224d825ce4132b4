"""pandas, which pyarrow would import at its first array, and which takes longer than all other modules together."""

from __future__ import annotations

import sys


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
