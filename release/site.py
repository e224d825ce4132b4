"""Builds the documentation as a site in build/site: `make docs`.

The pages are README.md, CONTRIBUTING.md, CHANGELOG.md and docs/ as they are; mkdocs.yml says in which order. A link
that leads nowhere, also to a heading, ends it with an error. The site needs no network: it can be opened from the disk,
search too. The environment is made once; then the build needs no network either.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PAGES, SITE, ENVIRONMENT = BUILD / "pages", BUILD / "site", BUILD / "environment"
COPIED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs", "examples")


def environment() -> Path:
    """The Python with what pyproject.toml's extra `docs` names."""
    (extra,) = re.findall(r"^docs = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.M | re.S)
    wanted = re.findall(r'^ *"([^"]+)"', extra, re.M)
    python, note = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "wanted"
    if not note.exists() or note.read_text("utf-8") != repr(wanted):
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        note.write_text(repr(wanted), "utf-8")
    return python


def main() -> int:
    python = environment()
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, PAGES / name)
        else:
            shutil.copy(ROOT / name, PAGES)
    built = [python, "-m", "mkdocs", "build", "--strict", "--clean", "--quiet", "--config-file", ROOT / "mkdocs.yml"]
    code = subprocess.run(built, cwd=ROOT, check=False).returncode
    if code == 0:
        print(f"{len(list(SITE.rglob('*.html')))} pages: {SITE / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
