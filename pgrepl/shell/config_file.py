"""pgrepl.toml, the configuration file beside the catalog, or where PGREPL_CONFIG says.

    dbname = "shop"

    [spark]
    master = "spark://host:7077"
    conf = { "spark.executor.memory" = "4g" }

    [settings]
    "pgrepl.spark_rows" = 5000000

A value replaces an environment variable that is not set; options of the command line come before both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

NAME = "pgrepl.toml"
_WORDS = {
    "catalog": "PGREPL_CATALOG",
    "data-path": "PGREPL_DATA_PATH",
    "dbname": "PGDATABASE",
    "username": "PGUSER",
}
_SPARK_WORDS = {"master": "PGREPL_MASTER", "remote": "PGREPL_REMOTE"}


class BadConfigFile(Exception):
    """A configuration file that cannot be used; the message names it."""


def apply(arguments: Sequence[str], environment: MutableMapping[str, str]) -> None:
    """Set environment variables that are not set from the file."""
    path = _path(arguments, environment)
    if path is None:
        return
    for name, value in _variables(path, _read(path)).items():
        if name in ("PGREPL_CONF", "PGOPTIONS"):  # several options, of which the last one counts
            environment[name] = " ".join(filter(None, (value, environment.get(name))))
        elif not environment.get(name) and not _is_decided(name, environment):
            environment[name] = value


def _is_decided(name: str, environment: Mapping[str, str]) -> bool:
    """Is the variable one of those for Spark's place, and another of them set?"""
    return name in _SPARK_WORDS.values() and any(environment.get(other) for other in _SPARK_WORDS.values())


def _path(arguments: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    named = environment.get("PGREPL_CONFIG")
    if named is not None:
        return Path(named) if named else None
    catalog = environment.get("PGREPL_CATALOG") or ""
    for number, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option == "--catalog":
            catalog = value if equals else "".join(arguments[number + 1 : number + 2])
    if "://" in catalog:
        return None
    beside = Path(catalog).parent / NAME if catalog else Path(NAME)
    return beside if beside.is_file() else None


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        found: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise BadConfigFile(f'could not read configuration file "{path}": {problem.strerror}') from problem
    except ValueError as problem:  # of TOML, or of UTF-8
        raise BadConfigFile(f'invalid configuration file "{path}": {problem}') from problem
    return found


def _variables(path: Path, found: dict[str, Any]) -> dict[str, str]:
    variables: dict[str, str] = {}
    spark, settings = _section(path, found, "spark"), _section(path, found, "settings")
    conf = _section(path, spark, "conf")
    for section, words in ((found, _WORDS), (spark, _SPARK_WORDS)):
        for word, value in section.items():
            if word not in words:
                raise BadConfigFile(f'invalid configuration file "{path}": it has no parameter "{word}"')
            variables[words[word]] = _text(path, word, value)
    if len(_SPARK_WORDS.keys() & spark.keys()) > 1:
        raise BadConfigFile(f'invalid configuration file "{path}": a master and a remote cannot both be given')
    if conf:
        import shlex  # needed rarely

        variables["PGREPL_CONF"] = shlex.join([f"{name}={_text(path, name, value)}" for name, value in conf.items()])
    if settings:
        given = [f"{name}={_text(path, name, value)}" for name, value in settings.items()]
        variables["PGOPTIONS"] = " ".join(["-c " + _protected(each) for each in given])
    return variables


def _section(path: Path, found: dict[str, Any], name: str) -> dict[str, Any]:
    section = found.pop(name, {})
    if not isinstance(section, dict):
        raise BadConfigFile(f'invalid configuration file "{path}": "{name}" is no table')
    return section


def _text(path: Path, name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise BadConfigFile(f'invalid configuration file "{path}": the value of "{name}" is neither text nor number')


def _protected(word: str) -> str:
    return "".join(f"\\{char}" if char.isspace() or char == "\\" else char for char in word)
