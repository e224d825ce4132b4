"""The wheel is whole: built from a clean tree, installed into a fresh environment, it answers and runs a script."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.harness.programs import NAMED

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """\
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE PUBLICATION p FOR TABLE t (a, b) WHERE (a > 5);
\\dRp+ p
"""

PRINTED = """\
CREATE TABLE
CREATE PUBLICATION
                               Publication p
  Owner   | All tables | Inserts | Updates | Deletes | Truncates | Via root 
----------+------------+---------+---------+---------+-----------+----------
 postgres | f          | t       | t       | t       | t         | f
Tables:
    "public.t" (a, b) WHERE (a > 5)

"""  # noqa: W291


@pytest.fixture(scope="module", params=["beside", pytest.param("fresh", marks=pytest.mark.slow)])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beside the libraries that are here already, or with its own in a fresh environment."""
    work = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(work / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    fresh = request.param == "fresh"
    venv.create(work / "venv", with_pip=fresh)
    python = work / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip"] if fresh else [sys.executable, "-m", "pip", "--python", str(python)]
    options = [] if fresh else ["--no-deps", "--no-index"]
    wanted = ["--find-links", str(work / "dist"), "pgrepl[postgres]"]  # as README says
    subprocess.run([*pip, "install", "--quiet", *options, *wanted], check=True, capture_output=True)
    if not fresh:
        libraries = [path for path in sys.path if Path(path).name == "site-packages"]
        (Path(_purelib(python)) / "libraries.pth").write_text("\n".join(libraries) + "\n")
    return work / "venv" / "bin" / "pgrepl"


def _purelib(python: Path) -> str:
    """Where packages of that environment are."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_the_installed_wheel_says_its_version(installed: Path) -> None:
    from pgrepl import __version__

    done = subprocess.run([str(installed), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pgrepl {__version__} (PostgreSQL 17.10)\n"


def test_the_installed_wheel_runs_a_script(installed: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | NAMED
    done = subprocess.run(
        [str(installed), "-X"], input=SCRIPT, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    assert (done.stderr, done.stdout, done.returncode) == ("", PRINTED, 0)


def test_the_installed_wheel_is_typed_and_names_its_plugins(installed: Path) -> None:
    """A type checker, Spark, SQLAlchemy and pytest find what is theirs."""
    code = (
        "import importlib.resources, importlib.util, importlib.metadata as m; "
        "print(importlib.resources.files('pgrepl').joinpath('py.typed').is_file(), "
        "importlib.util.find_spec('pyspark_pgrepl') is not None, "
        "sorted(e.group for e in m.distribution('pgrepl').entry_points))"
    )
    done = subprocess.run(
        [str(installed.with_name("python")), "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=installed.parent,
    )
    assert done.stdout.strip() == "True True ['console_scripts', 'pytest11', 'sqlalchemy.dialects']"
