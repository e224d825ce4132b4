"""What the commands about any kind of object (DROP, RENAME, OWNER, SET SCHEMA) and deletions do with relations:
loading this
module registers it all."""

from __future__ import annotations

from pgrepl.statements.table import drop, owner, remove, rename

__all__ = ["drop", "owner", "remove", "rename"]
