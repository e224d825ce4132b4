"""Removal of metadata that nobody reads any more, and of what only it names.

A metadata.json that was followed by another one is still read for a while. Manifest lists and manifests say which
files of the folder they name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.iceberg.avro import facts_of
from pgrepl.iceberg.manifests import NAMED

if TYPE_CHECKING:
    from pgrepl.iceberg.place import TableFolder

_LIST = re.compile(r'"manifest-list": "([^"]*)"')
_METADATA = ".metadata.json"
_EXPORTED = re.compile(r"/v\d+\.metadata\.json\Z")
_PARTS = 4  # of the time: so often it is looked for what can go
_MAKING = 60  # seconds that metadata may be in the making


def sweep(folder: TableFolder, current: str, grace: int) -> None:
    """Remove what no metadata.json names that was the current one within `grace` seconds."""
    ages = folder.ages()
    written = sorted((age, name) for name, age in ages.items() if name.endswith(_METADATA))
    dead = {name for is_of in (_EXPORTED.search, _is_own) for name in _followed(written, is_of, grace)} - {current}
    if not dead or max(ages[name] for name in dead) < grace + grace / _PARTS:
        return
    living = _named(folder, [name for _, name in written if name not in dead])
    for name, age in ages.items():
        if name in dead or (name not in living and age > max(grace, _MAKING)):
            folder.remove(name)


def _is_own(name: str) -> bool:
    return not _EXPORTED.search(name)


def _followed(written: list[tuple[float, str]], is_of: Callable[[str], object], grace: int) -> list[str]:
    """Those that were followed by another one longer than `grace` ago."""
    return [name for age, name in written if age > grace and is_of(name)][1:]  # the first may have been followed lately


def _named(folder: TableFolder, metadata: list[str]) -> set[str]:
    """The files that are named by these, directly or not."""
    start = len(folder.location) + 1
    lists = {path[start:] for name in metadata for path in _LIST.findall(folder.read(name) or "")}
    found = {*metadata, "metadata/version-hint.text"}
    waiting = list(lists)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name.endswith(".avro"):
                waiting += json.loads(facts_of(folder.bytes_of(name)).get(NAMED, "[]"))
    return found


def forget(folder: TableFolder, grace: int) -> bool:
    """Remove the whole folder of a table that is no more, unless something in it was written within the time."""
    ages = folder.ages()
    if any(age <= grace for age in ages.values()):
        return False
    for name in ages:
        folder.remove(name)
    return True
