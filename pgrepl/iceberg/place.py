"""Where metadata and the small files beside it are: a folder or bucket of its own, never the lake's data folder."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING
from urllib.parse import quote

from pgrepl.catalog.store.files import BESIDE, sync, sync_folder
from pgrepl.ground.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.iceberg.tables import Described, Namespace

SETTING = "pgrepl.iceberg_path"
_END = 4  # bytes, which are zeros or missing where a power cut came first


class Place:
    """A folder, or a URI of an object store."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")

    def of(self, table: Described) -> TableFolder:
        return TableFolder("/".join((self.location, *folder_names(table.namespace, table.name))))


def digest(*of: object) -> str:
    """For names: what is the same has the same name, whoever makes it and when."""
    return hashlib.blake2b(repr(of).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def folder_names(namespace: Namespace, name: str) -> tuple[str, str]:
    """The folders of a namespace, `shop` or `shop.sales`, and of a table in it."""
    return ".".join([_folder_name(word).replace(".", "%2E") for word in namespace]), _folder_name(name)


def _folder_name(word: str) -> str:
    """A name as that of a folder."""
    name = quote(word, safe=" ()+,;=@~!$&'*")
    return name.replace(".", "%2E") if set(name) == {"."} else name


def place_of(session: Session, to: str | None = None) -> Place:
    """The folder of `to`, else of the setting, else beside the data folder."""
    given = to or session.settings.get(SETTING)
    data = session.catalog.data_path
    if given:
        location = given if "://" in given else os.path.abspath(given)
        if f"{location.rstrip('/')}/".startswith(data):
            raise PgError("22023", f'"{given}" is in the data folder', hint="VACUUM removes files there: name another.")
        return Place(location)
    beside = data.removesuffix(BESIDE) if data.endswith(BESIDE) else data.rstrip("/")
    if not beside.partition("://")[2].strip("/").count("/") and storage.local_path(data) is None:
        raise PgError(
            "22023",
            f'"{data}" is a whole bucket: there is no place for Iceberg metadata beside it',
            hint=f"Name one with {SETTING}, or with --to.",
        )
    return Place(f"{beside}.iceberg")


class TableFolder:
    """The folder of one table, with `metadata` and `data` in it. Files have names that tell their contents: they are
    written once, as a whole, and never changed.

    Nobody waits for the disk: what a power cut leaves unfinished is seen by its end, and made again."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._is_local = storage.local_path(location) is not None
        self._listed: dict[str, int] | None = None  # of an object store
        self._made: set[str] = set()

    def path(self, name: str) -> str:
        return f"{self.location}/{name}"

    def size(self, name: str) -> int | None:
        """The bytes of a file; None: it is not there as a whole."""
        if self._is_local:
            return self._whole_size(name)
        if self._listed is None:
            start = len(self.location) + 1
            self._listed = {path[start:]: 0 for path, _ in storage.listed(f"{self.location}/")}
        if name in self._listed and not self._listed[name]:
            self._listed[name] = storage.size_of(self.path(name)) or 0
        return self._listed.get(name)

    def write(self, name: str, content: bytes) -> int:
        """Write a file; it is there as a whole or not at all."""
        self._make_folder(name)
        if self._is_local:
            draft, local = self._drafted(name, content)
            with storage.writing(draft):
                os.replace(draft, local)
        else:
            storage.write(self.path(name), content)
            if self._listed is not None:
                self._listed[name] = len(content)
        return len(content)

    def write_first(self, name: str, content: bytes) -> bool:
        """Write a file unless others have written it: then False. Object stores do not tell whether they have."""
        if not self._is_local:
            self.write(name, content)
            return True
        self._make_folder(name)
        draft, local = self._drafted(name, content)
        with storage.writing(draft):
            try:
                os.link(draft, local)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                if os.path.exists(local):
                    return False
                os.rename(draft, local)
            finally:
                storage.remove(draft)
        return True

    def _make_folder(self, name: str) -> None:
        folder = self.path(name).rpartition("/")[0]
        if folder not in self._made:
            storage.make_folder(folder)
            self._made.add(folder)

    def _drafted(self, name: str, content: bytes) -> tuple[str, str]:
        """The local paths of a draft with the content, and of the file that it is to be."""
        local = str(storage.local_path(self.path(name)))
        draft = f"{local}.{os.getpid()}-{get_ident()}.tmp"
        storage.write(draft, content)
        return draft, local

    def _whole_size(self, name: str) -> int | None:
        """A file's bytes; None: it is not there, or a power cut came before its content was on the disk."""
        path = str(storage.local_path(self.path(name)))
        try:
            with open(path, "rb", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - _END, 0))
                return size if any(file.read(_END)) else None
        except OSError:
            return None

    def make_durable(self, names: Iterable[str]) -> None:
        """Have the disk keep these files, and that they are there."""
        if not self._is_local:
            return
        folders = set()
        for name in names:
            path = str(storage.local_path(self.path(name)))
            sync(path)
            folders.add(os.path.dirname(path))
        for folder in folders:
            sync_folder(folder)

    def bytes_of(self, name: str) -> bytes:
        path = self.path(name)
        with storage.reading(path):
            if self._is_local:
                with open(str(storage.local_path(path)), "rb") as file:
                    return file.read()
            with storage.open_input(path) as file:
                return bytes(file.read())

    def read(self, name: str) -> str | None:
        """The text of a file; None: it is not there."""
        try:
            return self.bytes_of(name).decode(errors="replace")
        except PgError as problem:
            if problem.sqlstate != "58P01":
                raise
            return None

    def ages(self) -> dict[str, float]:
        """The names of all files, each with the seconds since it was written."""
        if not self._is_local:
            start = len(self.location) + 1
            return {path[start:]: age.total_seconds() for path, age in storage.listed(f"{self.location}/")}
        now, ages = time.time(), {}
        for part in ("metadata", "data"):
            with suppress(FileNotFoundError), os.scandir(str(storage.local_path(self.path(part)))) as files:
                for file in files:
                    with suppress(FileNotFoundError):  # another process removes it
                        ages[f"{part}/{file.name}"] = now - file.stat().st_mtime
        return ages

    def remove(self, name: str) -> None:
        storage.remove(self.path(name))
