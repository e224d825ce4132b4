"""Removal of metadata that nobody reads any more, and of what only it names.

A metadata.json that was followed by another one is still read for a while. Manifest lists and manifests say which
files of the folder they name.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.iceberg import tables
from pgrepl.iceberg.avro import facts_of
from pgrepl.iceberg.manifests import NAMED
from pgrepl.iceberg.place import SETTING, TableFolder, folder_names, place_of
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.iceberg.place import Place

HINT = "metadata/version-hint.text"
_LIST = re.compile(r'"manifest-list": "([^"]*)"')
_METADATA = ".metadata.json"
_EXPORTED = re.compile(r"/v\d+\.metadata\.json\Z")
_DIGEST = "[0-9a-f]{24}"
_OURS = re.compile(
    rf"metadata/((00000-{_DIGEST}|v\d+)\.metadata\.json|(data|deletes|snap-\d+)-{_DIGEST}\.avro|version-hint\.text)(\..*tmp)?"
    rf"|data/(rows|deletes)-{_DIGEST}\.(parquet|puffin)(\..*tmp)?"
)
_PARTS = 4  # of the time: so often it is looked for what can go
_MAKING = 60  # seconds that metadata may be in the making


swept: dict[str, float] = {}  # when this process has looked at a folder


def sweep(folder: TableFolder, current: str, grace: int) -> None:
    """Remove what no metadata.json names that was the current one within `grace` seconds. A process looks at a folder
    a few times in that time."""
    now = time.monotonic()
    if now < swept.get(folder.location, -grace) + grace / _PARTS:
        return
    swept[folder.location] = now
    ages = {name: age for name, age in folder.ages().items() if _OURS.fullmatch(name)}
    written = sorted((age, name) for name, age in ages.items() if name.endswith(_METADATA))
    dead = {name for is_of in (_EXPORTED.search, _is_own) for name in _followed(written, is_of, grace)} - {current}
    if not dead or max(ages[name] for name in dead) < grace + grace / _PARTS:
        return
    living = named_by(folder, [name for _, name in written if name not in dead])
    for name, age in ages.items():
        if name in dead or (name not in living and age > max(grace, _MAKING)):
            folder.remove(name)


def _is_own(name: str) -> bool:
    return not _EXPORTED.search(name)


def _followed(written: list[tuple[float, str]], is_of: Callable[[str], object], grace: int) -> list[str]:
    """Those that were followed by another one longer than `grace` ago."""
    return [name for age, name in written if age > grace and is_of(name)][1:]  # the first may have been followed lately


def named_by(folder: TableFolder, metadata: Sequence[str]) -> set[str]:
    """The files that are named by these, directly or not."""
    start = len(folder.location) + 1
    waiting = [path[start:] for name in metadata for path in _LIST.findall(folder.read(name) or "")]
    found = {*metadata, HINT}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name.endswith(".avro"):
                waiting += json.loads(facts_of(folder.bytes_of(name)).get(NAMED, "[]"))
    return found


def remove_dropped(session: Session) -> None:
    """Remove the metadata of tables that are no more, and of which nothing was asked for within the time."""
    try:
        _remove_dropped(session, place_of(session))
    except PgError as problem:  # there is no place, or it does not answer
        if session.settings.get(SETTING):
            session.notice("WARNING", f"metadata of dropped tables was not removed: {problem.message}")


def _remove_dropped(session: Session, place: Place) -> None:
    grace = int(session.settings.value("pgrepl.iceberg_grace"))
    there = {folder_names(namespace, name) for namespace, name in tables.of_everyone(session)}
    for folder in _folders(place, there):
        ages = folder.ages()
        if ages and all(age > grace for age in ages.values()):
            for name in ages:
                if _OURS.fullmatch(name):
                    folder.remove(name)


def _folders(place: Place, but: set[tuple[str, str]]) -> Iterator[TableFolder]:
    for namespace in storage.folders_in(f"{place.location}/"):
        for name in storage.folders_in(f"{place.location}/{namespace}/"):
            if (namespace, name) not in but:
                yield TableFolder(f"{place.location}/{namespace}/{name}")
