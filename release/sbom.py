"""Prints a bill of materials of this environment as CycloneDX: pgrepl, and all that is installed because of it.

It reads what `pip` has written about each package (importlib.metadata), and needs nothing but Python: the environment
that it describes has only what pgrepl itself asks for.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from importlib.metadata import Distribution, distributions
from typing import Any

ROOT = "pgrepl"


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(package: Distribution) -> set[str]:
    """What it needs without an extra; which of them this platform needs is told by what is installed."""
    wanted = (each.partition(";") for each in package.requires or [])
    return {plain(re.split(r"[^\w.-]", name)[0]) for name, _, marker in wanted if "extra ==" not in marker}


def reference(package: Distribution) -> str:
    return f"pkg:pypi/{plain(package.name)}@{package.version}"


def licenses(package: Distribution) -> list[dict[str, Any]]:
    """The SPDX expression, or else what its classifiers say."""
    expression = package.metadata.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    told = [
        each.split(" :: ")[-1] for each in package.metadata.get_all("Classifier") or [] if each.startswith("License")
    ]
    return [{"license": {"name": name}} for name in sorted(told)]


def component(package: Distribution, kind: str) -> dict[str, Any]:
    found = {
        "type": kind,
        "bom-ref": reference(package),
        "name": plain(package.name),
        "version": package.version,
        "description": package.metadata.get("Summary") or "",
        "licenses": licenses(package),
        "purl": reference(package),
    }
    return {name: value for name, value in found.items() if value}


def bill() -> dict[str, Any]:
    here = {plain(package.name): package for package in distributions()}
    found, left = {ROOT}, [ROOT]
    while left:
        new = {name for name in needs(here[left.pop()]) if name in here} - found
        found |= new
        left += new
    names = sorted(found)
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()))
    told = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment),
            "component": component(here[ROOT], "application"),
        },
        "components": [component(here[name], "library") for name in names if name != ROOT],
        "dependencies": [
            {
                "ref": reference(here[name]),
                "dependsOn": sorted(reference(here[one]) for one in needs(here[name]) & found),
            }
            for name in names
        ],
    }
    told["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(told, sort_keys=True))}"
    return told


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2))
