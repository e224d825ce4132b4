"""The documentation holds together: each link leads somewhere, and each page has its place in the site's navigation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.programs import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)


def headings(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub and mkdocs make them."""
    found = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(re.sub(r"`[^`]*`", "", prose(page))):
        if not re.match(r"[a-z]+:", link):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not heading or heading in headings(target), link


def test_each_page_has_one_place_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    named = re.findall(r"([\w/]+\.md)$", text, re.M)
    assert sorted(named) == sorted(page.relative_to(ROOT).as_posix() for page in PAGES)


@pytest.mark.slow
def test_the_site_is_built() -> None:
    done = subprocess.run(
        [sys.executable, "release/site.py"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    index = (ROOT / "build" / "site" / "search" / "search_index.js").read_text("utf-8")
    assert "row filters" in index
    for page in (ROOT / "build" / "site").rglob("*.html"):
        text = page.read_text("utf-8")
        asked = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', text)
        assert asked == [], page
