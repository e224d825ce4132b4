"""A publisher and a subscriber: two databases of one instance, or of two."""

from __future__ import annotations

from pathlib import Path

from tests.harness.database import Database, Errors, HeardLog


class Pair:
    """The databases `pub` and `sub` of one catalog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pub, self.sub = Database(folder, "pub", new=True), Database(folder, "sub", new=True)

    @property
    def log(self) -> HeardLog:
        """Of the subscriber's workers."""
        return self.sub.log

    def both(self, text: str) -> None:
        self.pub(text)
        self.sub(text)

    def subscribe(self, publications: str = "p", options: str = "") -> None:
        """Subscribe, and copy what there is."""
        self.sub.subscribe(publications, "host=localhost dbname=pub", options)
        self.catch_up()

    def catch_up(self) -> Errors:
        return self.sub.catch_up()

    def close(self) -> None:
        for database in (self.pub, self.sub):
            database.close()
