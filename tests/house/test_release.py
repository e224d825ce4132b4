"""A release: its version and its changes, its bill of materials, and all of `make release`."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys

import pytest

import pgrepl
from tests.harness.programs import ROOT, environment


def test_the_changes_are_those_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.M)[:2] == ["Unreleased", pgrepl.__version__]
    entries = text.split(f"\n## {pgrepl.__version__}\n")[1]
    assert [line for line in entries.splitlines() if line and not line.startswith(("#", "* ", "| "))] == []


def test_the_bill_of_materials() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "release" / "sbom.py")], capture_output=True, text=True, check=True,
        env=environment(SOURCE_DATE_EPOCH="1700000000"),
    )  # fmt: skip
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["timestamp"]) == (
        "CycloneDX", "1.5", "2023-11-14T22:13:20Z",
    )  # fmt: skip
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    parts = {each["name"]: each for each in bill["components"]}
    assert {"pyspark", "py4j", "pyarrow", "sqlalchemy", "click"} <= set(parts)
    assert not {"pgrepl", "pytest", "psycopg"} & set(parts)  # of extras nothing
    references = {each["bom-ref"] for each in [*parts.values(), bill["metadata"]["component"]]}
    assert {each["ref"] for each in bill["dependencies"]} == references
    assert all(each["purl"] == f"pkg:pypi/{name}@{each['version']}" for name, each in parts.items())
    assert all(set(each["dependsOn"]) <= references for each in bill["dependencies"])


@pytest.mark.slow
def test_make_release() -> None:
    """Of the last commit; needs a package index."""
    done = subprocess.run(
        [sys.executable, "release/make.py"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("built twice, the same") == 2 and "uninstalled: nothing is left" in done.stdout
    dist, version = ROOT / "dist", pgrepl.__version__
    sums = dict(reversed(line.split()) for line in (dist / "SHA256SUMS").read_text("utf-8").splitlines())
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir() if path.name != "SHA256SUMS"
    }
    wheel, sdist = f"pgrepl-{version}-py3-none-any.whl", f"pgrepl-{version}.tar.gz"
    assert set(sums) == {wheel, sdist, "Containerfile", "pgrepl.rb", f"pgrepl-{version}.cdx.json"}
    assert sums[sdist] in (dist / "pgrepl.rb").read_text("utf-8")
