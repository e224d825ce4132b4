"""How long the shortest commands take cold, beside a Python that only imports what pgrepl stands on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import paired, process

LIMIT = 0.6
COMMANDS = (r"\dRp+", "SELECT 1")


def measure() -> Iterator[tuple[str, str, str, str, bool]]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        script = "CREATE TABLE t (a int PRIMARY KEY);\nCREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 5);\n"
        process(["-m", "pgrepl", "-X", "-q"], folder, script)

        def imports() -> float:
            return process(["-c", "import sqlalchemy, click, lark"], folder)

        for command in COMMANDS:
            arguments = ["-m", "pgrepl", "-X", "-c", command]
            ours, floor = paired(lambda arguments=arguments: process(arguments, folder), imports, 11)  # type: ignore[misc]
            yield (
                f"pgrepl -c '{command}', cold",
                f"{ours / floor:.2f} ({ours * 1000:.0f} ms)",
                f"import sqlalchemy, click, lark: {floor * 1000:.0f} ms",
                f"{LIMIT}",
                ours <= LIMIT * floor,
            )


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
