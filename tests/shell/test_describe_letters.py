"""Letters of \\d commands that mean nothing are passed over where psql passes over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.forked import pgrepl

KNOWN = {
    "dtfoo": "dt", "dix": "di", "dsz": "ds", "dtxv+": "dtv+", "dnz": "dn", "dpz": "dp", "dCz": "dC", "dOz": "dO",
    "dRpz": "dRp", "dRsq+": "dRs+", "dPtz": "dPt", "dyz": "dy", "dLz": "dL", "dgz": "dg", "drdsz": "drds",
    "drgz": "drg", "ddpz": "ddp", "dconfigz": "dconfig", "dbz": "db",
}  # fmt: skip


def test_letters_that_mean_nothing(tmp_path: Path) -> None:
    def shown(names: list[str]) -> tuple[str, str]:
        done = pgrepl("-X", "-A", *[part for name in names for part in ("-c", f"\\{name}")], cwd=tmp_path)
        return done.stdout, done.stderr

    pgrepl("-X", "-c", "CREATE TABLE t (a int); CREATE VIEW v AS SELECT 1; CREATE PUBLICATION p", cwd=tmp_path)
    assert shown(list(KNOWN)) == shown(list(KNOWN.values()))


@pytest.mark.parametrize("name", ["drz", "dRz", "dFz", "dAz", "dfz", "dez", "dq", "lz", "dPz"])
def test_letters_that_make_another_command(tmp_path: Path, name: str) -> None:
    done = pgrepl("-X", "-c", f"\\{name}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"invalid command \\{name}\n")
