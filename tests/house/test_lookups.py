"""The shell shows what the catalog's lookups give; it reads no system table itself."""

from __future__ import annotations

import pytest

from tests.house.test_circles import FILES, imports_of

SHELL = [module for module in FILES if module.startswith("pgrepl.shell")]
BEHIND = {"pgrepl.catalog.store.tables", "pgrepl.catalog.store.store", "pgrepl.catalog.store.ducklake"}


@pytest.mark.parametrize("module", SHELL)
def test_the_shell_reads_no_system_table(module: str) -> None:
    assert imports_of(module).isdisjoint(BEHIND)
