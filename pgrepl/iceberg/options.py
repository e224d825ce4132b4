"""The options of a table as an Iceberg table: `ALTER TABLE … SET (iceberg.version = 3, iceberg.time = 'omit')`.

They stand in pg_class.reloptions; statements/table/storage.py reads and checks them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.frozen import frozen


@frozen
class Options:
    version: int | None = None  # of Iceberg's format; None: 2, or 3 where a file needs it
    omits_time: bool = False  # columns of type time are left out: Spark refuses tables with one


def options_of(texts: Sequence[str] | None) -> Options:
    given = dict(text.partition("=")[::2] for text in texts or ())
    version = given.get("iceberg.version", "auto").lower()
    return Options(None if version == "auto" else int(version), given.get("iceberg.time", "keep").lower() == "omit")
