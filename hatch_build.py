"""The parse tables are made from the grammar when the package is built, for wheels and editable installs alike."""

from __future__ import annotations

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ParseTables(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        try:
            from pgrepl.sql import make_tables
        finally:
            sys.path.remove(self.root)
        make_tables.main()
        for path in (make_tables.PATH, make_tables.PLPGSQL):
            build_data["artifacts"].append(str(path.relative_to(self.root)))
