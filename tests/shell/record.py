r"""Writes scripts/*.out anew: what the real psql 17 prints for scripts/*.sql.

usage: python -m tests.shell.record PSQL [CONNECTION OPTION]…     (psql 17; database shelltest is made anew)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.sql"))


def main(psql: str, *options: str) -> None:
    for script in SCRIPTS:
        for statement in ("DROP DATABASE IF EXISTS shelltest", "CREATE DATABASE shelltest"):
            subprocess.run([psql, "-X", "-q", *options, "-d", "postgres", "-c", statement], check=True)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [psql, "-X", "-a", *options, "-d", "shelltest"],
                input=script.read_bytes(),
                cwd=folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC", "EDITOR": "true"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                start_new_session=True,
            )
        script.with_suffix(".out").write_bytes(done.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
