r"""Tab completion: the candidates for the word at the cursor.

`completion_rules` has the rules of what may follow what. This module splits the text into words, looks names up in the
catalog, and writes key words in the case that COMP_KEYWORD_CASE says. In a failed transaction no names are found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.shell import completion_rules as rules
from pgrepl.shell.pset import FORMATS, LINE_STYLES, LISTED
from pgrepl.shell.shell import Shell
from pgrepl.shell.variables import RULES
from pgrepl.sql.quote import quote_identifier

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_WORD = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|'(?:[^']|'')*'?|(?:[\w$]+|"(?:[^"]|"")*"?)(?:\.(?:[\w$]+|"(?:[^"]|"")*"?)?)*"""
    r"""|:['"]?\w*['"]?|\\[^\s\\]*|.""",
    re.DOTALL,
)
_PSET_VALUES: dict[str, Sequence[str]] = {
    "format": (*FORMATS, "latex-longtable"),
    "linestyle": LINE_STYLES,
    "expanded": ("on", "off", "auto"),
    "x": ("on", "off", "auto"),
    "pager": ("on", "off", "always"),
    "xheader_width": ("full", "column", "page"),
    "unicode_border_linestyle": ("single", "double"),
    "unicode_column_linestyle": ("single", "double"),
    "unicode_header_linestyle": ("single", "double"),
    "footer": ("on", "off"),
    "numericlocale": ("on", "off"),
    "tuples_only": ("on", "off"),
}
_VARIABLE_VALUES: dict[str, Sequence[str]] = {
    "COMP_KEYWORD_CASE": ("lower", "upper", "preserve-lower", "preserve-upper"),
    "ECHO": ("none", "errors", "queries", "all"),
    "ECHO_HIDDEN": ("noexec", "off", "on"),
    "HISTCONTROL": ("none", "ignorespace", "ignoredups", "ignoreboth"),
    "ON_ERROR_ROLLBACK": ("on", "off", "interactive"),
    "SHOW_CONTEXT": ("never", "errors", "always"),
    "VERBOSITY": ("default", "verbose", "terse", "sqlstate"),
}


def completions(shell: Shell, before: str, query: str = "") -> tuple[str, list[str]]:
    """The word at the cursor, and its candidates; `query` is the query buffer before the edited text."""
    words, current = _split(query + "\n" + before if query else before)
    if current.startswith(":") and len(current) > 1:
        return current, _variables(shell, current)
    slash = _slash_words(before)
    if slash is not None:
        words, current = slash
        return current, sorted(_for_slash(shell, words, current))
    return current, sorted(set(_for_sql(shell, words, current)))


def _split(text: str) -> tuple[list[str], str]:
    """The words of the text's last statement, and the one at the cursor."""
    words: list[str] = []
    ended = True
    for found in _WORD.finditer(text):
        ended = found["space"] is not None
        if ended:
            continue
        if found[0] == ";":
            words = []
            ended = True
        else:
            words.append(found[0])
            ended = re.match(r"\W\Z", found[0]) is not None and found[0] not in ('"', "\\", ":")
    return (words, "") if ended or not words else (words[:-1], words[-1])


def _slash_words(before: str) -> tuple[list[str], str] | None:
    r"""The words of the backslash command that the cursor is in, the command first."""
    line = before.rpartition("\n")[2]
    found = re.search(r"(?:^|\s)\\(?!\\)([^\\]*)\Z", line)
    if found is None or line[: found.start()].count("'") % 2:
        return None
    words = found[1].split()
    if not found[1] or found[1][-1].isspace():
        return words, "" if words else "\\"
    return words[:-1], words[-1] if words[:-1] else "\\" + words[-1]


# --- backslash commands ----------------------------------------------------------------------------------------------


def _for_slash(shell: Shell, words: list[str], current: str) -> Iterator[str]:
    if not words:
        from pgrepl.shell.backslash import MODULES

        names = [name for names in MODULES.values() for name in names]
        names += [name for names in rules.SLASH_ARGUMENTS.values() for name in names]
        yield from {f"\\{name}" for name in names if f"\\{name}".startswith(current)}
        return
    command, arguments = words[0], words[1:]
    if command == "pset" and arguments:
        candidates: Iterable[str] = _PSET_VALUES.get(arguments[0], ())
    elif command == "set" and arguments:
        boolean = ("on", "off") if arguments[0] in RULES and RULES[arguments[0]].empty == "on" else ()
        candidates = _VARIABLE_VALUES.get(arguments[0], boolean)
    elif command in ("c", "connect") and arguments:
        candidates = _names(shell, "<role>", current, words) if len(arguments) == 1 else ()
    elif command in ("h", "help"):
        yield from _help_topics(" ".join(arguments), current)
        return
    else:
        kind = next((kind for kind, commands in rules.SLASH_ARGUMENTS.items() if command in commands), None)
        if kind is None:
            return
        candidates = _names(shell, kind, current, words) if kind.startswith("<") else kind.split("|")
    yield from (candidate for candidate in candidates if candidate.startswith(current))


def _help_topics(begun: str, current: str) -> Iterator[str]:
    """The next word of each command whose first words are those typed."""
    from pgrepl.shell.sql_help import topics

    for topic in topics():
        words = topic.command.split(" ")
        known = begun.upper().split()
        if words[: len(known)] == known and len(words) > len(known):
            word = words[len(known)]
            if word.startswith(current.upper()):
                yield word


def _variables(shell: Shell, current: str) -> list[str]:
    quote = current[1] if current[1:2] in ("'", '"') else ""
    begun = current[1 + len(quote) :]
    names = sorted(name for name, _ in shell.variables if name.startswith(begun))
    return [f":{quote}{name}{quote}" for name in names]


# --- statements ------------------------------------------------------------------------------------------------------


def _for_sql(shell: Shell, words: list[str], current: str) -> Iterator[str]:
    if not words:
        candidates: Sequence[str] | None = rules.STATEMENTS
    else:
        candidates = rules.following(words)
    if candidates is None:
        # no rule: any name or key word that begins so
        if current:
            yield from _names(shell, "<column>", current, words)
            yield from _names(shell, "<relation>", current, words)
            yield from _keywords(shell, _all_keywords(), current)
        return
    for candidate in candidates:
        if candidate.startswith("<"):
            yield from _names(shell, candidate, current, words)
        else:
            yield from _keywords(shell, (candidate,), current)


def _all_keywords() -> Iterable[str]:
    from pgrepl.sql.keywords import KEYWORDS

    return (word.upper() for word in KEYWORDS)


def _keywords(shell: Shell, words: Iterable[str], current: str) -> Iterator[str]:
    """The words that begin with the typed text, in the wanted case; options and quoted values stay as they are."""
    style = shell.variables.word("COMP_KEYWORD_CASE")
    lower = style == "lower" or (style.startswith("preserve") and current[:1].islower())
    lower = lower or (style == "preserve-lower" and not current)
    begun = current.upper()
    for word in words:
        if word.upper().startswith(begun):
            yield word if not word.isupper() else word.lower() if lower else word


# --- names -----------------------------------------------------------------------------------------------------------


def _names(shell: Shell, kind: str, current: str, words: Sequence[str]) -> list[str]:
    """Names of a kind that begin with the typed text, quoted where SQL needs quotes."""
    if kind == "<file>":
        return _files(current)
    if kind == "<pset>":
        return list(LISTED)
    if kind == "<variable>":
        return sorted({*RULES, *(name for name, _ in shell.variables)})
    connection = shell.connection
    if connection is None or connection.lost is not None:
        return []
    from pgrepl.catalog.transaction import reading

    try:
        with reading(connection.session):
            found = NAMES[kind](connection.session, current, words)
    except PgError:
        return []
    begun = current.replace('"', "").lower()
    return [name for name in found if name.replace('"', "").lower().startswith(begun)]


def _files(current: str) -> list[str]:
    folder, begun = os.path.split(current)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name)
    except OSError:
        return []
    hidden = begun.startswith(".")
    return [
        os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(begun) and (hidden or not entry.name.startswith("."))
    ]


def _databases(session: Session, current: str, words: Sequence[str]) -> list[str]:
    from pgrepl.catalog.databases import databases

    return [quote_identifier(row.datname) for row in databases(session)]


def _publications(session: Session, current: str, words: Sequence[str]) -> list[str]:
    from pgrepl.catalog.publication import publications

    return [quote_identifier(row.pubname) for row in publications(session)]


def _roles(session: Session, current: str, words: Sequence[str]) -> list[str]:
    from pgrepl.catalog.roles import roles

    return [quote_identifier(row.rolname) for row in roles(session)]


def _schemas(session: Session, current: str, words: Sequence[str]) -> list[str]:
    from pgrepl.catalog.namespace import schemas

    return [quote_identifier(row.nspname) for row in schemas(session)]


def _subscriptions(session: Session, current: str, words: Sequence[str]) -> list[str]:
    from pgrepl.catalog.subscription import subscriptions

    return [quote_identifier(row.subname) for row in subscriptions(session)]


def _relations(kinds: str) -> Callable[[Session, str, Sequence[str]], list[str]]:
    def names(session: Session, current: str, words: Sequence[str]) -> list[str]:
        """Unqualified names of visible relations; qualified names once a schema is typed."""
        from pgrepl.catalog.namespace import schemas, search_path
        from pgrepl.catalog.relation import relations_named

        schema_names = {row.oid: str(row.nspname) for row in schemas(session)}
        visible = set(search_path(session))
        out: list[str] = []
        if current and "." not in current:
            out += [f"{quote_identifier(schema)}." for schema in schema_names.values()]
        for row in relations_named(session):
            if row.relkind in kinds:
                name = quote_identifier(str(row.relname))
                if "." in current:
                    out.append(f"{quote_identifier(schema_names.get(row.relnamespace, ''))}.{name}")
                elif row.relnamespace in visible:
                    out.append(name)
        for relation in session.system_relations() if current else ():
            if relation.kind in kinds:
                out.append(f"{relation.schema}.{relation.name}" if "." in current else relation.name)
        return out

    return names


def _columns(session: Session, current: str, words: Sequence[str]) -> list[str]:
    """The columns of relations that the statement names before the cursor."""
    from pgrepl.catalog.relation import relation, relations_named

    named = {word.rpartition(".")[2].strip('"').lower() for word in words}
    out: list[str] = []
    for row in relations_named(session):
        if row.relname in named and row.relkind in "rvpm":
            out += [quote_identifier(column.name) for column in relation(session, row.oid).columns]
    return out


def _settings(session: Session, current: str, words: Sequence[str]) -> list[str]:
    from pgrepl.catalog.parameters import all_parameters

    return sorted([parameter.name for parameter in all_parameters()] + session.settings.custom_names())


NAMES: dict[str, Callable[[Session, str, Sequence[str]], list[str]]] = {
    "<column>": _columns,
    "<database>": _databases,
    "<index>": _relations("iI"),
    "<publication>": _publications,
    "<relation>": _relations("rvpmS"),
    "<role>": _roles,
    "<schema>": _schemas,
    "<sequence>": _relations("S"),
    "<setting>": _settings,
    "<subscription>": _subscriptions,
    "<table>": _relations("rp"),
    "<view>": _relations("v"),
}
