"""The options of `pgrepl [OPTION]… [DBNAME [USERNAME]]`, read as getopt_long reads psql's.

Nearly every start reads them and nothing else of a command line: click, which the subcommands use, would be a sixth
of such a start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    names = [typed] if typed in OPTIONS else [name for name in OPTIONS if name.startswith(typed)]
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
