"""The fixtures that pytest finds where pgrepl is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.harness.programs import environment

ROOT = Path(__file__).resolve().parents[2]
TEST = """
import pytest

def test_pair(pgrepl_pair):
    pair = pgrepl_pair
    for con in (pair.publisher, pair.subscriber):
        con.execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric)")
    pair.publisher.execute("CREATE PUBLICATION p FOR TABLE orders WHERE (id > 1)")
    pair.publisher.execute("INSERT INTO orders VALUES (1, 1), (2, 2)")
    pair.subscribe("p")
    assert pair.subscriber.execute("SELECT id FROM orders").fetchall() == [(2,)]
    pair.publisher.execute("INSERT INTO orders VALUES (3, 3)")
    (done,) = pair.catch_up()
    assert (done.subscription, done.changes) == ("subscription", 1)
    pair.subscriber.execute("INSERT INTO orders VALUES (4, 4)")
    pair.publisher.execute("INSERT INTO orders VALUES (4, 4)")
    with pytest.raises(Exception, match="duplicate key"):
        pair.catch_up()

def test_pgrepl_is_not_rewritten():
    import pgrepl.ground.errors
    assert "pytest" not in type(pgrepl.ground.errors.__loader__).__module__

def test_catalog(pgrepl_catalog):
    assert pgrepl_catalog.connect().execute("SELECT 1").fetchall() == [(1,)]
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
    return subprocess.run(program, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_fixtures_in_a_project_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "test_pipeline.py").write_text(TEST)
    done = run(tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_costs_nothing_to_who_does_not_use_it(tmp_path: Path) -> None:
    probe = (
        "import pytest, sys; import pgrepl.api.pytest_plugin; print(sorted(m for m in sys.modules if 'pgrepl' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environment(), capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "['pgrepl', 'pgrepl.api', 'pgrepl.api.pytest_plugin']"


def test_pyproject_names_the_plugin_and_the_dialect() -> None:
    tomllib = pytest.importorskip("tomllib")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    plugin = EntryPoint("pgrepl", points["pytest11"]["pgrepl"], "pytest11").load()
    assert plugin.pgrepl_pair
    dialect = EntryPoint("pgrepl", points["sqlalchemy.dialects"]["pgrepl"], "sqlalchemy.dialects").load()
    assert dialect.driver == "pgrepl"
