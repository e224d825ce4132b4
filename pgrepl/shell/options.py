"""The options of `pgrepl [OPTION]… [DBNAME [USERNAME]]`, read as getopt_long reads psql's, and pgrepl.toml.

Nearly every start reads them and nothing else: click would be a sixth of it. A value in pgrepl.toml replaces an
environment variable that is not set; options come before both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

_OPTIONAL = "?"  # a value only if it is written behind "="

# option: its short form and what it takes, if anything; the help page is data/options.txt
OPTIONS: dict[str, tuple[str | None, str | None]] = {
    "echo-all": ("a", None),
    "no-align": ("A", None),
    "command": ("c", "COMMAND"),
    "dbname": ("d", "DBNAME"),
    "echo-queries": ("e", None),
    "echo-errors": ("b", None),
    "echo-hidden": ("E", None),
    "file": ("f", "FILENAME"),
    "field-separator": ("F", "STRING"),
    "field-separator-zero": ("z", None),
    "host": ("h", "FOLDER"),
    "html": ("H", None),
    "list": ("l", None),
    "log-file": ("L", "FILENAME"),
    "no-readline": ("n", None),
    "single-transaction": ("1", None),
    "output": ("o", "FILENAME"),
    "port": ("p", "PORT"),
    "pset": ("P", "VAR[=ARG]"),
    "quiet": ("q", None),
    "record-separator": ("R", "STRING"),
    "record-separator-zero": ("0", None),
    "single-step": ("s", None),
    "single-line": ("S", None),
    "tuples-only": ("t", None),
    "table-attr": ("T", "TEXT"),
    "username": ("U", "USERNAME"),
    "set": ("v", "NAME=VALUE"),
    "variable": (None, "NAME=VALUE"),
    "version": ("V", None),
    "no-password": ("w", None),
    "password": ("W", None),
    "expanded": ("x", None),
    "no-psqlrc": ("X", None),
    "help": (None, _OPTIONAL),
    "csv": (None, None),
    "catalog": (None, "PATH|URL"),
    "conf": (None, "NAME=VALUE"),
    "data-path": (None, "FOLDER|URI"),
    "json": (None, None),
    "master": (None, "URL"),
    "ndjson": (None, None),
    "remote": (None, "URL"),
}
_SHORT = {short: name for name, (short, _) in OPTIONS.items() if short is not None}
_SAME = {"variable": "set"}

Given = tuple[str, "str | None"]  # an option and its value


class BadOption(Exception):
    """An option that cannot be read, in getopt_long's words."""


def read(arguments: Sequence[str]) -> tuple[list[Given], list[str]]:
    """The options in their order, and the words that are no options."""
    given: list[Given] = []
    words: list[str] = []
    left = iter(arguments)
    for word in left:
        if word == "--":
            words += left
        elif word.startswith("--"):
            given.append(_long(word, left))
        elif word.startswith("-") and word != "-":
            given += _short(word[1:], left)
        else:
            words.append(word)
    return given, words


def _long(word: str, left: Iterator[str]) -> Given:
    """One option by its name, or by a prefix that no other has."""
    typed, equals, value = word[2:].partition("=")
    names = _meant(typed)
    if not names:
        raise BadOption(f"unrecognized option '{word}'")
    if len(names) > 1:
        choices = " ".join(f"'--{name}'" for name in names)
        raise BadOption(f"option '{word}' is ambiguous; possibilities: {choices}")
    name = names[0]
    takes = OPTIONS[name][1]
    if takes is None and equals:
        raise BadOption(f"option '--{name}' doesn't allow an argument")
    if takes is None or takes == _OPTIONAL or equals:
        return _SAME.get(name, name), value if equals else None
    for value in left:
        return _SAME.get(name, name), value
    raise BadOption(f"option '--{name}' requires an argument")


def _meant(typed: str) -> list[str]:
    return [typed] if typed in OPTIONS else [name for name in OPTIONS if name.startswith(typed)]


def _short(letters: str, left: Iterator[str]) -> Iterator[Given]:
    """Options by their letters; the last one takes what is left of the word, or the next word."""
    for place, letter in enumerate(letters, 1):
        name = _SHORT.get(letter)
        if name is None:
            raise BadOption(f"invalid option -- '{letter}'")
        if OPTIONS[name][1] is None:
            yield name, None
            continue
        value = letters[place:] or next(left, None)
        if value is None:
            raise BadOption(f"option requires an argument -- '{letter}'")
        yield name, value
        return


# --- config file ------------------------------------------------------------------------------------------------------


NAME = "pgrepl.toml"
_WORDS = {"catalog": "PGREPL_CATALOG", "data-path": "PGREPL_DATA_PATH", "dbname": "PGDATABASE", "username": "PGUSER"}
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
        if option.startswith("--") and _meant(option[2:]) == ["catalog"]:
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
        content: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise BadConfigFile(f'could not read configuration file "{path}": {problem.strerror}') from problem
    except ValueError as problem:  # of TOML, or of UTF-8
        raise BadConfigFile(f'invalid configuration file "{path}": {problem}') from problem
    return content


def _variables(path: Path, content: dict[str, Any]) -> dict[str, str]:
    variables: dict[str, str] = {}
    spark, settings = _section(path, content, "spark"), _section(path, content, "settings")
    conf = _section(path, spark, "conf")
    for section, words in ((content, _WORDS), (spark, _SPARK_WORDS)):
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
        variables["PGOPTIONS"] = " ".join(["-c " + _protected(option) for option in given])
    return variables


def _section(path: Path, content: dict[str, Any], name: str) -> dict[str, Any]:
    section = content.pop(name, {})
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
