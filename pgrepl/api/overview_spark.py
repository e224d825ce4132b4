"""What a server's Spark does, in a small file beside the catalog, for `pgrepl status --html`: only the server can ask
its JVM. Nothing depends on the file; one that is older than two minutes says nothing any more."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from pgrepl.api.overview_history import MINUTE
from pgrepl.engine.spark_errors import SparkFacts

_OLD = 2 * MINUTE


def facts_path(catalog: object) -> Path | None:
    """The file beside a catalog; None: it is in memory, or on a database server."""
    return None if catalog is None or "://" in str(catalog) else Path(f"{catalog}.spark")


def keep(path: Path | None, facts: SparkFacts | None) -> None:
    """Write the file, or remove it where nothing is known."""
    if path is None:
        return
    with suppress(OSError):  # a full disk: then the page alone has it
        if facts is None:
            path.unlink(missing_ok=True)
            return
        beside = path.with_name(path.name + ".new")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(facts.text())
        beside.replace(path)


def kept(path: Path | None) -> SparkFacts | None:
    """What a server has written lately."""
    if path is None:
        return None
    with suppress(OSError, ValueError, TypeError, KeyError):
        if time.time() - path.stat().st_mtime < _OLD:
            return SparkFacts.read(path.read_text("utf-8"))
    return None
