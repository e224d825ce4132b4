"""What a power cut leaves of a folder: a record of all that was written and synced, and disks made from it.

A library that is preloaded into a process and its children (powercut.c) writes down each write, sync and change of a
name below a folder. Played up to some point, the record tells what is on the disk for certain: of a file what was
written before a sync that had ended, of a folder's names those that were made or removed before the folder was synced.
Of everything else a cut takes all, or it leaves some of it, in any order.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TOLD = ".told"  # a file below the folder: what the process has told its user, line by line, in JSON

_HEADER = struct.Struct("<BIIqQ")


@dataclass(frozen=True)
class Record:
    op: str
    path: str
    offset: int
    token: int
    data: bytes


def compiled(folder: Path) -> Path:
    """The library, where there is a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("there is no C compiler")
    library = folder / "powercut.so"
    source = Path(__file__).with_name("powercut.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl", "-lpthread"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("the C compiler cannot make a library")
    return library


def recorded(folder: Path, module: str, *arguments: str) -> list[Record]:
    """Run a module that works below folder/disk, and say what it wrote."""
    root, journal = folder / "disk", folder / "journal"
    root.mkdir()
    preloaded = {
        "LD_PRELOAD": str(compiled(folder)), "POWERCUT_ROOT": str(root), "POWERCUT_JOURNAL": str(journal),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", module, str(root), *arguments],
        env={**os.environ, **preloaded},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return list(_read(journal.read_bytes()))


def _read(whole: bytes) -> Iterator[Record]:
    at = 0
    while at < len(whole):
        op, path, data, offset, token = _HEADER.unpack_from(whole, at)
        at += _HEADER.size
        yield Record(chr(op), whole[at : at + path].decode(), offset, token, whole[at + path : at + path + data])
        at += path + data


def tell(root: Path, **what: object) -> None:
    """By the process that is recorded, of what its user may rely on."""
    with open(root / TOLD, "ab", buffering=0) as told:
        told.write(json.dumps(what).encode() + b"\n")


@dataclass
class _File:
    is_folder: bool = False
    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data); no data: the length


class Disk:
    """A disk as the record goes on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.told: list[dict[str, object]] = []
        self._names: dict[str, _File] = {str(root): _File(is_folder=True)}
        self._synced_names = dict(self._names)
        self._pending_names: list[tuple[str, _File | None]] = []
        self._syncs: dict[int, tuple[_File, int]] = {}

    def play(self, record: Record) -> None:
        path, other = record.path, record.data.decode() if record.op in "RL" else ""
        if path == str(self.root / TOLD):
            self.told += [json.loads(line) for line in record.data.splitlines()]
        elif record.op == "D":
            self._name(path, _File(is_folder=True))
        elif record.op in "CWS":
            file = self._names.get(path)
            if file is None:
                self._name(path, file := _File())
            if record.op != "C":
                file.pending.append((record.offset, record.data if record.op == "W" else None))
        elif record.op in "RL":
            file = self._names[path]
            self._name(other, file)
            if record.op == "R":
                self._name(path, None)
        elif record.op == "U":
            self._name(path, None)
        elif record.op == "F":
            file = self._names.get(path)
            if file is not None:
                self._syncs[record.token] = file, len(self._pending_names if file.is_folder else file.pending)
        elif record.op == "f" and record.token in self._syncs:
            self._sync(path, *self._syncs.pop(record.token))

    def _name(self, path: str, file: _File | None) -> None:
        if file is None:
            self._names.pop(path, None)
        else:
            self._names[path] = file
        self._pending_names.append((path, file))

    def _sync(self, path: str, file: _File, upto: int) -> None:
        if not file.is_folder:
            for write in file.pending[:upto]:
                _write(file.synced, write)
            del file.pending[:upto]
            return
        left = []
        for number, (name, named) in enumerate(self._pending_names):
            if number < upto and os.path.dirname(name) == path:
                _set(self._synced_names, name, named)
            else:
                left.append((name, named))
        self._pending_names = left

    def cut(self, chance: random.Random | None) -> None:
        """The folder as somebody finds it who comes back after a power cut here. Without chance all is gone that was
        not synced."""
        names = dict(self._synced_names)
        keeps = 0.0
        if chance is not None:
            for name, file in self._pending_names[: chance.choice((0, len(self._pending_names), self._some(chance)))]:
                _set(names, name, file)
            keeps = chance.choice((0.0, 0.0, 0.5, 1.0))
        shutil.rmtree(self.root)
        self.root.mkdir()
        for name in sorted(names):
            file = names[name]
            if file.is_folder:
                if os.path.isdir(os.path.dirname(name)):
                    os.makedirs(name, exist_ok=True)
            elif os.path.isdir(os.path.dirname(name)) and not name.endswith("-shm"):
                content = bytearray(file.synced)
                for write in file.pending:
                    if chance is not None and chance.random() < keeps:
                        _write(content, write)
                Path(name).write_bytes(content)
                os.chmod(name, 0o600)

    def _some(self, chance: random.Random) -> int:
        return chance.randint(0, len(self._pending_names))


def _set(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


def _write(content: bytearray, write: tuple[int, bytes | None]) -> None:
    offset, data = write
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
