"""What a new maintainer reads is true: the modules that the documents name are there, the pictures show every floor,
and each journey of docs/architecture.md enters the modules that it names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.programs import environment
from tests.house.test_floors import FLOORS
from tests.house.trees import nodes_of, tree_of
from tests.postgres.replicas import replicating_server

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
GUIDES = ["docs/architecture.md", "docs/glossary.md", "docs/behaviour.md", "CONTRIBUTING.md", "CHANGELOG.md"]


@pytest.mark.parametrize("name", GUIDES)
def test_every_module_that_is_named_is_there(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    named = re.findall(r"`((?:[\w.]+/)*[\w.]+\.(?:py|json|tsv)|(?:[\w.]+/)+)`", text)
    there = [
        f"/{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}"
        for path in (*ROOT.glob("pgrepl/**/*"), *ROOT.glob("tests/**/*"), *ROOT.glob("grammar/**/*"))
    ]
    there += [f"/{path.name}/" for path in ROOT.iterdir()]
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in there)} - {
        "x.py",
        "x_spark.py",
    } == set()


@pytest.mark.parametrize("name", GUIDES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\(([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_every_floor_is_drawn_and_told() -> None:
    drawing = (ROOT / "docs" / "house.svg").read_text("utf-8")
    rooms = {name for name in FLOORS if (ROOT / "pgrepl" / name).is_dir()}
    assert {room for room in rooms if f">{room}/<" not in drawing} == set()
    assert {room for room in rooms if f"| `{room}/` |" not in ARCHITECTURE} == set()


def _journeys(text: str) -> dict[str, list[str]]:
    """Names and modules: each line has a room and what is entered there."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("### "):
            modules = found[line.removeprefix("### ")] = []
        elif found and re.fullmatch(r"[\w/]+( \w+)+", line.strip()):
            room, *names = line.split()
            modules += [f"{room}/{name}".removeprefix("cli/") for name in names]
    return found


def test_the_journeys_are_as_told(tmp_path: Path) -> None:
    server = replicating_server()
    try:
        uri = f"host={server.host} port={server.port} user=postgres dbname=postgres"
        played = subprocess.run(
            [sys.executable, "-m", "tests.docs.journeys", str(tmp_path), uri],
            cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    finally:
        server.stop()
    assert played.returncode == 0, played.stderr
    told, entered = _journeys(ARCHITECTURE), _journeys(played.stdout)
    assert list(told) == list(entered)
    for name, modules in entered.items():
        assert set(told[name]) - set(modules) == set(), name


def test_tests_cite_what_postgresql_does_by_number() -> None:
    """Each point of docs/behaviour.md has a test that names it; none names a point that is not there."""
    behaviour = (ROOT / "docs" / "behaviour.md").read_text("utf-8")
    points = set(re.findall(r"^\*\*([AB]\d+)\.", behaviour, flags=re.M)) | {"D"}
    lists = behaviour[behaviour.index("## C.") : behaviour.index("## D.")]
    points |= {f"C{number}" for number in re.findall(r"^(\d+)\. ", lists, flags=re.M)}
    cited: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = tree_of(path)
        for node in nodes_of(tree):
            if isinstance(node, (ast.FunctionDef, ast.Module)) and (told := ast.get_docstring(node)):
                cited |= set(re.findall(r"(?:^|\(|, )([ABC]\d+|D)(?=[.,:)])", told))
    assert (points - cited, cited - points) == (set(), set())
