"""Spark 3.5 with Iceberg, as users have it, in a Python environment of its own.

No package has all of it. `snowpark-connect-deps-iceberg` has Iceberg's runtime for Spark without the libraries that it
expects under names of its own: Jackson, which pyspark has, and Apache's HTTP client 5, which is Debian's package
libhttpclient5-java. Here they get these names: in a class file a name stands once, in its table of constants.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.programs import environment

_SHADED = "org.apache.iceberg.shaded."
_MOVED = ("com.fasterxml.jackson", "org.apache.hc.")
_JAVA = Path("/usr/share/java")
_CLIENT = ("httpclient5", "httpcore5", "httpcore5-h2")
_LACKING = "org.apache.hc.client5.http.ssl.TlsSocketStrategy"  # of a newer client; an interface
_UTF8, _LONG, _DOUBLE = 1, 5, 6
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}

_SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
settings, queries = json.loads(sys.stdin.read())
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
answers = []
for query in queries:
    try:
        answers.append([[str(value) for value in row] for row in spark.sql(query).collect()])
    except Exception as problem:
        answers.append(str(problem))
print("ANSWERS " + json.dumps(answers))
"""


def asked(folder: Path, settings: dict[str, str], queries: Sequence[str]) -> list[Any]:
    """What Spark answers: rows of texts, or the text of an error."""
    python = os.environ.get("PGREPL_TEST_SPARK35", "")
    if not python:
        pytest.skip("PGREPL_TEST_SPARK35 names no Python that has pyspark 3.5")
    given = {
        "spark.jars": ",".join(jars(folder, Path(python))), "spark.ui.enabled": "false", "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC", **settings,
    }  # fmt: skip
    done = subprocess.run(
        [python, "-c", _SCRIPT], input=json.dumps([given, list(queries)]), cwd=folder, env=_plain(),
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert found, done.stderr
    answers: list[Any] = json.loads(found[0].partition(" ")[2])
    return answers


def _plain() -> dict[str, str]:
    """The environment, without what is for the Spark of pgrepl."""
    return {name: value for name, value in environment().items() if not name.startswith(("SPARK", "PYTHON"))}


def jars(folder: Path, python: Path) -> list[str]:
    found = importlib.util.find_spec("snowpark_connect_deps_iceberg")
    if found is None or not found.submodule_search_locations:
        pytest.skip("snowpark-connect-deps-iceberg is not installed")
    runtime = next(Path(found.submodule_search_locations[0]).rglob("iceberg-spark-runtime-3.5_2.12-*.jar"))
    client = [_JAVA / f"{name}.jar" for name in _CLIENT]
    if not all(each.exists() for each in client):
        pytest.skip("libhttpclient5-java is not installed")
    spark = next((python.parent.parent / "lib").glob("python*/site-packages/pyspark/jars"))
    jackson = [next(spark.glob(f"jackson-{name}-2*.jar")) for name in ("core", "databind", "annotations")]
    made = folder / "moved.jar"
    _move([*jackson, *client], made)
    return [str(runtime), str(made)]


def _move(jars: Sequence[Path], target: Path) -> None:
    """Write all classes into one file, under the names that Iceberg has for them."""
    with zipfile.ZipFile(target, "w") as made:
        made.writestr(f"{_renamed(_LACKING.encode()).decode().replace('.', '/')}.class", _renamed_class(_interface()))
        for jar in jars:
            with zipfile.ZipFile(jar) as file:
                for name in file.namelist():
                    if name.endswith(".class") and not name.startswith(("META-INF", "module-info")):
                        made.writestr(_renamed(name.encode()).decode(), _renamed_class(file.read(name)))


def _renamed(text: bytes) -> bytes:
    for name in _MOVED:
        for form in (name, name.replace(".", "/")):
            whole = _SHADED if form == name else _SHADED.replace(".", "/")
            text = text.replace(form.encode(), (whole + form).encode())
    return text


def _renamed_class(data: bytes) -> bytes:
    (count,) = struct.unpack_from(">H", data, 8)
    made = [data[:10]]
    at, number = 10, 1
    while number < count:
        kind = data[at]
        if kind == _UTF8:
            (length,) = struct.unpack_from(">H", data, at + 1)
            text = _renamed(data[at + 3 : at + 3 + length])
            made.append(struct.pack(">BH", _UTF8, len(text)) + text)
            at += 3 + length
        else:
            made.append(data[at : at + 1 + _SIZES[kind]])
            at += 1 + _SIZES[kind]
        number += 2 if kind in (_LONG, _DOUBLE) else 1
    return b"".join([*made, data[at:]])


def _interface() -> bytes:
    """The class file of an interface without methods."""
    constants = b""
    for number, name in ((2, _LACKING.replace(".", "/")), (4, "java/lang/Object")):
        constants += struct.pack(">BH", 7, number) + struct.pack(">BH", _UTF8, len(name)) + name.encode()
    public_interface = 0x0601
    return (
        struct.pack(">IHHH", 0xCAFEBABE, 0, 52, 5) + constants + struct.pack(">7H", public_interface, 1, 3, 0, 0, 0, 0)
    )
