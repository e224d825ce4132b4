"""Records what PostgreSQL 17 and psql 17 print for each script: `python -m tests.postgres.record --server BIN --psql
PATH`.

Needs real 17 binaries, which no wheel carries; so it is run by hand when a script changes, and its results are kept
beside the scripts: NAME.out is the truth pgrepl is held to, NAME.diff16 what PostgreSQL 16 prints otherwise. The
tests play the script on a real 16 and demand exactly that difference, so that no recorded line is anybody's
invention.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.postgres.conftest import start_pair
from tests.postgres.play import Pair, difference
from tests.postgres.server import Server
from tests.postgres.test_scripts import SCRIPTS


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--server", type=Path, required=True, help="folder of initdb, pg_ctl and postgres 17")
    options.add_argument("--psql", type=Path, required=True, help="psql 17")
    options.add_argument("--libraries", type=Path, help="where the server's shared libraries are")
    options.add_argument("names", nargs="*", help="scripts (default: all)")
    given = options.parse_args()
    publisher = Server(given.server, libraries=given.libraries).start()
    subscriber = Server(given.server, libraries=given.libraries, default_port=publisher.port).start()
    pair17, pair16 = Pair(publisher, subscriber, given.psql), start_pair(16)
    try:
        for script in SCRIPTS:
            if given.names and script.stem not in given.names:
                continue
            truth, older = pair17.play(script.read_text("utf-8")), pair16.play(script.read_text("utf-8"))
            script.with_suffix(".out").write_text(truth, "utf-8")
            differs = difference(truth, older)
            diff16 = script.with_suffix(".diff16")
            if differs:
                diff16.write_text(differs, "utf-8")
            else:
                diff16.unlink(missing_ok=True)
            print(f"{script.stem}: {len(truth.splitlines())} lines, {len(differs.splitlines())} of difference to 16")
    finally:
        for server in (publisher, subscriber, pair16.publisher, pair16.subscriber):
            server.stop()


if __name__ == "__main__":
    main()
