"""Makes a release of the last commit in dist/ and checks it: `make release`.

The sdist, the wheel that is built from it, the image's file and the formula, a bill of materials, SHA256SUMS. Sdist and
wheel are built twice, in two folders, and must be the same to the byte. In a fresh environment the wheel is installed
with what it asks a package index for, plays the demo, and leaves nothing when it is uninstalled.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
DEPLOYMENT = "examples/deployment"
DEMO = "examples/demo.sql"


class Failed(Exception):
    pass


def run(command: Sequence[object], cwd: Path, **more: str) -> str:
    """What a command prints; an error with all of it if it fails."""
    words = [str(word) for word in command]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "PYTHON"))}
    done = subprocess.run(words, cwd=cwd, env=kept | more, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def build(work: Path, epoch: str) -> list[Path]:
    """The sdist and the wheel of the last commit, built in a folder where nothing else is."""
    source, target = work / "pgrepl", work / "dist"
    with tarfile.open(fileobj=BytesIO(git("archive", "HEAD"))) as archive:
        archive.extractall(source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source]
    run(command, work, SOURCE_DATE_EPOCH=epoch)
    return sorted(target.iterdir())


def same(one: Sequence[Path], other: Sequence[Path]) -> None:
    for a, b in zip(one, other, strict=True):
        if a.name != b.name or a.read_bytes() != b.read_bytes():
            raise Failed(f"two builds of {a.name} differ: {a} and {b}")
        say(f"{a.name}: built twice, the same")


def check_changes(version: str) -> None:
    """The first release that CHANGELOG.md tells of is this one."""
    released = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    if released[:1] != [version]:
        raise Failed(f"CHANGELOG.md has no section {version} as its first release")


def fill_formula(sdist: Path, version: str) -> None:
    values = {"SDIST": sdist.name, "SHA256": sum_of(sdist), "VERSION": version, "LICENSE": "MIT"}
    text = (ROOT / DEPLOYMENT / "pgrepl.rb.in").read_text("utf-8")
    (DIST / "pgrepl.rb").write_text(re.sub(r"@([A-Z0-9]+)@", lambda found: values[found[1]], text), "utf-8")


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(wheel: Path, version: str, work: Path, epoch: str) -> str:
    """Install, demo, uninstall. Returns the bill of materials."""
    fresh, home, folder = work / "fresh", work / "home", work / "work"
    venv.create(fresh, with_pip=True)
    home.mkdir()
    folder.mkdir()
    python, pgrepl = fresh / "bin" / "python", fresh / "bin" / "pgrepl"
    run([python, "-m", "pip", "install", "--quiet", wheel], folder)
    said = run([pgrepl, "--version"], folder, HOME=str(home))
    if not said.startswith(f"pgrepl {version} "):
        raise Failed(f"the wheel says {said!r}")
    bill = run([python, "-I", ROOT / "release" / "sbom.py"], folder, SOURCE_DATE_EPOCH=epoch)
    run([pgrepl, "-X", "-q", "-c", "CREATE DATABASE shop", "-c", "CREATE DATABASE reports"], folder, HOME=str(home))
    played = run(["sh", "-c", f'"{pgrepl}" -X -a -d shop 2>&1 < "{ROOT / DEMO}"'], folder, HOME=str(home))
    shown = (ROOT / DEMO).with_suffix(".out").read_text("utf-8")
    if not played.strip() or not shown.startswith(played.rstrip("\n")):
        raise Failed(f"the demo printed\n{played}\nand not\n{shown}")
    say(f"{wheel.name}: installed in a fresh environment; the demo prints what it should")
    run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "pgrepl"], folder)
    left = [str(path) for path in fresh.rglob("*") if "pgrepl" in path.name.lower()]
    left += [str(path) for path in home.rglob("*")]
    if left:
        raise Failed("uninstalled, it has left\n" + "\n".join(left))
    say("uninstalled: nothing is left")
    return bill


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct").decode().strip()
    if git("status", "--porcelain"):
        say("what is not committed is not in it")
    with tempfile.TemporaryDirectory(prefix="pgrepl-release-") as folder:
        first, second, third = (Path(folder, name) for name in ("first", "second", "check"))
        for each in (first, second, third):
            each.mkdir()
        built = build(first, epoch)
        same(built, build(second, epoch))
        (wheel,) = (path for path in built if path.suffix == ".whl")
        (sdist,) = (path for path in built if path.name.endswith(".tar.gz"))
        version = sdist.name.removeprefix("pgrepl-").removesuffix(".tar.gz")
        check_changes(version)
        bill = check(wheel, version, third, epoch)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for path in built:
            shutil.copy(path, DIST)
    (DIST / f"pgrepl-{version}.cdx.json").write_text(bill, "utf-8")
    shutil.copy(ROOT / DEPLOYMENT / "Containerfile", DIST)
    fill_formula(DIST / sdist.name, version)
    sums = "".join(f"{sum_of(path)}  {path.name}\n" for path in sorted(DIST.iterdir()))
    (DIST / "SHA256SUMS").write_text(sums, "utf-8")
    say(f"dist/ has pgrepl {version}; tag it with: git tag v{version}")


if __name__ == "__main__":
    try:
        main()
    except Failed as problem:
        sys.exit(f"make release: {problem}")
