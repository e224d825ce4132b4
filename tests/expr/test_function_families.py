"""Functions are registered by modules that are loaded when one is wanted, by any thread."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgrepl.expr import functions
from pgrepl.types.builtin import procs_by_name

FAMILY = """
import time
from pgrepl.expr.functions import implements

time.sleep(0.3)


@implements("known_late")
def known_late():
    return 1
"""


def test_a_module_that_another_thread_is_loading_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_family.py").write_text(FAMILY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(functions, "_FAMILIES", ("late_family",))
    monkeypatch.setattr(functions, "_IMPLEMENTATIONS", {})
    proc = procs_by_name("now")[0]._replace(src="known_late")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(functions.find, [proc, proc]))
    assert None not in found
    functions._loaded.discard("late_family")
    del sys.modules["late_family"]
