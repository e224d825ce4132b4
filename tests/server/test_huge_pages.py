"""The postmaster's memory, of huge pages where the system has them, is what it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import mmap, os, zlib
from pgrepl.server import settings as huge_pages
full = bytearray(os.urandom(32 << 20))
empty = mmap.mmap(-1, 256 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
texts = [f"text {n}" for n in range(500_000)]
before = zlib.crc32(full), hash(tuple(texts))
begun = {begin for begin, _ in huge_pages._own_memory()}
huge_pages.use()
assert (zlib.crc32(full), hash(tuple(texts))) == before
pid = os.fork()
if not pid:
    full[0:4] = b"mine"
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0 and zlib.crc32(full) == before[0]
resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
print(bool(begun), resident < 250 << 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_what_it_was_and_what_is_empty_takes_none() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
