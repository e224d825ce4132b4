"""Who has written an output of `pgrepl changes`: a slot of a catalog.

A file of lines cannot tell: its lines are those of the format. So a small file stands beside it, `.NAME.slot`, which
readers of folders leave out. It says which slot has written all lines from an offset on, and of which file, since files
are renamed, copied and made anew. It is written, and safe, before the first line is. Without it nothing is cut.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgrepl.catalog import disk
from pgrepl.errors import PgError
from pgrepl.frozen import frozen


@frozen
class SinkOwner:
    slot: str
    catalog: str  # its file, or which database of which server: a copied catalog has the same slots

    @property
    def facts(self) -> dict[str, Any]:
        return {"slot": self.slot, "catalog": self.catalog}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> SinkOwner:
        return cls(str(facts["slot"]), str(facts["catalog"]))

    @property
    def text(self) -> bytes:
        return json.dumps(self.facts).encode()

    @classmethod
    def read(cls, text: bytes) -> SinkOwner | None:
        with suppress(ValueError, KeyError, TypeError):
            return cls.of(json.loads(text))
        return None

    def told(self) -> str:
        return f'with replication slot "{self.slot}" of catalog "{self.catalog}"'


@frozen
class Mark:
    owner: SinkOwner
    inode: int
    begin: int  # the offset from which on the lines are the owner's


def mark_path(output: str) -> Path:
    place = Path(os.path.realpath(output))
    return place.with_name(f".{place.name}.slot")


def read_mark(output: str, handle: int) -> Mark | None:
    """The mark of this file; none if it is that of another one, which had its name."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads(mark_path(output).read_bytes())
        mark = Mark(SinkOwner.of(said), int(said["inode"]), int(said["begin"]))
        if mark.inode == os.fstat(handle).st_ino:
            return mark
    return None


def write_mark(output: str, mark: Mark) -> None:
    place = mark_path(output)
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    said = {**mark.owner.facts, "inode": mark.inode, "begin": mark.begin}
    try:
        draft.write_text(json.dumps(said) + "\n")
        disk.sync(draft)
        os.replace(draft, place)
        disk.sync_folder(place.parent)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise PgError("58030", f'could not write file "{place}": {problem.strerror}') from None


def locked(handle: int, name: str) -> None:
    """Keep the output for this process, as long as the handle is open. Where files cannot be locked, nothing does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PgError("55006", f'another process writes changes to "{name}"') from None
    except OSError:
        return
