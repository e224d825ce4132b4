"""A publisher with two subscribers in one instance: one is changed by whole columns, the other message by message."""

from __future__ import annotations

from pathlib import Path

from tests.harness.database import Database, Errors, by_columns, by_message
from tests.harness.pair import Pair
from tests.lake import duck


class Trio(Pair):
    """`sub` goes by columns and by Spark, `other` message by message."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.other = Database(folder, "other", new=True)
        by_columns(self.pub)
        by_columns(self.sub)
        by_message(self.other)
        self.path = folder / "catalog.db"

    def everywhere(self, text: str) -> None:
        for database in (self.pub, self.sub, self.other):
            database(text)

    def at_subscribers(self, text: str) -> None:
        for database in (self.sub, self.other):
            database(text)

    def subscribe(self, publications: str = "p", options: str = "") -> None:
        for name, database in (("s", self.sub), ("o", self.other)):
            database.subscribe(publications, "host=localhost dbname=pub", options, name)
        self.compare_ways("t")

    def other_catches_up(self) -> Errors:
        return self.other.catch_up()

    def compare_ways(self, *tables: str) -> Errors:
        """Let both catch up; their errors and tables are the same."""
        errors, others = self.catch_up(), self.other_catches_up()
        assert [_without_slot(e) for e in errors] == [_without_slot(e) for e in others]
        for table in tables:
            query = f"SELECT * FROM {table} x ORDER BY x"
            assert self.sub(query) == self.other(query)
        return errors

    def close(self) -> None:
        duck.close(self.path)
        super().close()
        self.other.close()


def _without_slot(error: tuple[str, str | None, str | None]) -> tuple[str, str | None]:
    return error[0].partition("\nCONTEXT")[0], error[1]
