"""The parse tables and the empty catalog are made when the package is built, for wheels and editable installs alike."""

from __future__ import annotations

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MadeFiles(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        try:
            from pgrepl.catalog.store import ddl, declarative
            from pgrepl.sql import make_tables
        finally:
            sys.path.remove(self.root)
        make_tables.main()
        ddl.main()
        for path in (make_tables.PATH, make_tables.PLPGSQL, declarative.EMPTY_FILE):
            build_data["artifacts"].append(str(path.relative_to(self.root)))
