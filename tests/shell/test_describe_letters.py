"""Letters of \\d commands that mean nothing are passed over where psql passes over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.forked import pgrepl

KNOWN = {
    "dtfoo": "dt", "dix": "di", "dsz": "ds", "dtxv+": "dtv+", "dnz": "dn", "dpz": "dp", "dCz": "dC", "dOz": "dO",
    "dRpz": "dRp", "dRsq+": "dRs+", "dPtz": "dPt", "dyz": "dy", "dLz": "dL", "dgz": "dg", "drdsz": "drds",
    "drgz": "drg", "ddpz": "ddp", "dconfigz": "dconfig", "dbz": "db", "dSt": "dS", "d+RpS": "d+S", "dPtS": "dPt",
}  # fmt: skip


def test_letters_that_mean_nothing(tmp_path: Path) -> None:
    def shown(names: list[str]) -> tuple[str, str]:
        done = pgrepl("-X", "-A", *[part for name in names for part in ("-c", f"\\{name}")], cwd=tmp_path)
        return done.stdout, done.stderr

    pgrepl("-X", "-c", "CREATE TABLE t (a int); CREATE VIEW v AS SELECT 1; CREATE PUBLICATION p", cwd=tmp_path)
    assert shown(list(KNOWN)) == shown(list(KNOWN.values()))


@pytest.mark.parametrize(
    "name", ["drz", "dRz", "dFz", "dAz", "dfz", "dez", "dq", "lz", "dPz", "dPS", "dRSp", "drS", "lS", "z+"]
)
def test_letters_that_make_another_command(tmp_path: Path, name: str) -> None:
    done = pgrepl("-X", "-c", f"\\{name}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"invalid command \\{name}\n")


def test_functions_are_of_some_kinds(tmp_path: Path) -> None:
    done = pgrepl("-X", "-c", "\\dfaz", "-c", "\\echo on", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "\\df only takes [anptwS+] as options\n")


def test_dots_in_names_that_have_no_schema(tmp_path: Path) -> None:
    """A parameter's name may have one; a language is looked for in a database."""
    done = pgrepl("-XAt", "-c", r"\dconfig pgrepl.local_r*", "-c", r"\dconfig pgrepl.*.x", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("pgrepl.local_rows|")
    done = pgrepl("-X", "-E", "-c", r"\dconfig a.b.c", cwd=tmp_path)
    assert "^(a.b.c)$" in done.stdout
    done = pgrepl("-X", "-c", r"\dL a.b", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "cross-database references are not implemented: a.b\n")
    done = pgrepl("-X", "-c", r"\dL a.b.c", cwd=tmp_path)
    assert done.stderr == "improper qualified name (too many dotted names): a.b.c\n"


@pytest.mark.parametrize("command", ["dy", "dRs", "dew", "drds", "dX", "dP", "dl", "dp nosuch."])
def test_a_bad_pattern_is_an_error_where_nothing_could_match(tmp_path: Path, command: str) -> None:
    done = pgrepl("-X", "-c", f"\\{command} (".replace(". (", ".("), cwd=tmp_path)
    if command == "dl":  # which has no pattern
        assert done.returncode == 0
    else:
        assert done.returncode == 1
        assert done.stderr == "ERROR:  invalid regular expression: parentheses () not balanced\n"
