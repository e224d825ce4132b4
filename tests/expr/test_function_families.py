"""Functions are registered by modules that are loaded when one is wanted, by any thread."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgrepl.expr import functions
from pgrepl.expr.functions import registry
from pgrepl.types.builtin import procs_by_name

FAMILY = """
import time
from pgrepl.expr.functions.registry import implements

time.sleep(0.3)


@implements("known_late")
def known_late():
    return 1
"""


def test_a_module_that_another_thread_is_loading_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_family.py").write_text(FAMILY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(functions, "_FAMILIES", ("late_family",))
    monkeypatch.setattr(registry, "_IMPLEMENTATIONS", {})
    proc = procs_by_name("now")[0]._replace(src="known_late")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(functions.find, [proc, proc]))
    assert None not in found
    functions._loaded.discard("late_family")
    del sys.modules["late_family"]


IN_ORDER = """
import subprocess
import sys
from importlib import import_module
from pgrepl.expr import functions
from pgrepl.expr.functions import registry

families = [*functions._FAMILIES, *functions._CATALOG_FAMILIES]
for family in families if sys.argv[1] == "forwards" else reversed(families):
    import_module(family)
for source, found in sorted(registry._IMPLEMENTATIONS.items()):
    print(source, found.function.__module__, found.function.__qualname__, found.wants_call)
"""


def test_what_a_function_means_does_not_depend_on_the_order_of_loading() -> None:
    forwards, backwards = (
        subprocess.run([sys.executable, "-c", IN_ORDER, order], capture_output=True, text=True, check=True).stdout
        for order in ("forwards", "backwards")
    )
    assert "int4pl" in forwards
    assert forwards == backwards
