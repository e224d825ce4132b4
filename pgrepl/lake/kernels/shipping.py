"""pgrepl's own package for Spark's executors, as an archive that Python imports from.

A local session's workers have this process's path. Elsewhere the package travels with the session: pyarrow and numpy
must be there, pgrepl need not.
"""

from __future__ import annotations

import os
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from pgrepl.lake import spark, spill_folders
from pgrepl.lake.spark_options import is_elsewhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNCHECKED = (1).to_bytes(4, "little")  # flags of a .pyc: hash-based, the source is not checked (PEP 552)
_KINDS = (".py", ".tsv", ".json", ".bin", ".sql", ".txt")
_shipped: WeakSet[SparkSession] = WeakSet()


def ship(session: SparkSession) -> None:
    """Give the package to the session's executors, once for each session."""
    if session in _shipped:
        return
    if spark.is_remote():
        session.addArtifacts(archive(), pyfile=True)
    elif is_elsewhere(session.sparkContext.master or ""):
        session.sparkContext.addPyFile(spark.archive() or archive())
    _shipped.add(session)


@cache
def archive() -> str:
    """The path of a zip of this installation's package."""
    folder = spill_folders.make_for_process(spill_folders.PACKAGE)
    package = Path(__file__).resolve().parents[2]
    path = os.path.join(folder, "pgrepl.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for file in sorted(package.rglob("*")):
            if file.suffix in _KINDS and "__pycache__" not in file.parts:
                name = f"pgrepl/{file.relative_to(package)}"
                made.write(file, name)
                compiled = _compiled(file) if file.suffix == ".py" else None
                if compiled is not None:
                    made.writestr(name + "c", compiled)
    return path


def _compiled(file: Path) -> bytes | None:
    """The compiled module from __pycache__, marked to be used without a check of its source. Another version of Python
    ignores it. None: there is none, or it is older than the source."""
    try:
        code = (file.parent / "__pycache__" / f"{file.stem}.{sys.implementation.cache_tag}.pyc").read_bytes()
        status = file.stat()
    except OSError:
        return None
    of = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    if code[4:8] != bytes(4) or code[8:16] != of:
        return None
    return code[:4] + _UNCHECKED + bytes(8) + code[16:]
