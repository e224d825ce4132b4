"""A language for trigger functions, in Python: each trigger calls the function that a test has named after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pgrepl.catalog.session.session import Session
from pgrepl.rows.triggers import TriggerData
from pgrepl.sql.parser import parse
from pgrepl.statements.run import execute_nested

Row = tuple[Any, ...]
Function = Callable[[TriggerData], "Row | None"]
EXECUTE = "EXECUTE FUNCTION suppress_redundant_updates_trigger()"


class Called:
    """The calls of triggers, and what they do beside."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.calls: list[str] = []
        self.functions: dict[str, Function] = {}
        session.hooks = replace(session.hooks, call_trigger=self._call)

    def _call(self, session: Session, function: int, data: Any) -> Row | None:
        assert isinstance(data, TriggerData)
        said = f"{data.name} {data.when.value} {data.event.value} {data.level.value} {data.relation.name}"
        said += "".join(f" {word}={row}" for word, row in (("old", data.old), ("new", data.new)) if row is not None)
        tables = [table for table in (data.old_table, data.new_table) if table is not None]
        self.calls.append(said + "".join(f" {table.name}:{list(table.rows)}" for table in tables))
        own = self.functions.get(data.name)
        return own(data) if own is not None else data.new if data.new is not None else data.old

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement as a trigger's function does."""
        (raw,) = parse(text)
        return list(execute_nested(self.session, raw.stmt).values or ())

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls
