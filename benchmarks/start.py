r"""How long `pgrepl -c '\dRp+'` takes cold, beside a Python that only imports what pgrepl stands on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import fastest, process

LIMIT = 0.8


def measure() -> Iterator[tuple[str, str, str, str, bool]]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        script = "CREATE TABLE t (a int PRIMARY KEY);\nCREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 5);\n"
        process(["-m", "pgrepl", "-X", "-q"], folder, script)
        floor = fastest(lambda: process(["-c", "import sqlalchemy, click, lark"], folder), 7)
        ours = fastest(lambda: process(["-m", "pgrepl", "-X", "-c", r"\dRp+"], folder), 7)
    ratio = ours / floor
    yield (
        r"pgrepl -c '\dRp+', cold",
        f"{ratio:.2f} ({ours * 1000:.0f} ms)",
        f"import sqlalchemy, click, lark: {floor * 1000:.0f} ms",
        f"{LIMIT}",
        ratio <= LIMIT,
    )
