r"""Tab completion: the candidates for the word at the cursor.

completion_rules.txt has the rules of what may follow what, `completion_words` reads the statement, `completion_names`
asks the catalog. Key words come in the case that COMP_KEYWORD_CASE says. In a failed transaction no names are found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.shell.backslash import LISTS, MODULES
from pgrepl.shell.backslash.formatting import FORMATS, LINE_STYLES, LISTED
from pgrepl.shell.backslash.helping import topics
from pgrepl.shell.prompt.completion_clauses import OPERANDS, query_following
from pgrepl.shell.prompt.completion_names import NAMES, Asked
from pgrepl.shell.prompt.completion_words import fuzzy, named_relations, rest_of_statement, split, with_queries
from pgrepl.shell.shell import Shell
from pgrepl.shell.variables import RULES
from pgrepl.sql.keywords import KEYWORDS

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
    "COMPLETION": ("readline", "popup"),
    "COMP_KEYWORD_CASE": ("lower", "upper", "preserve-lower", "preserve-upper"),
    "ECHO": ("none", "errors", "queries", "all"),
    "ECHO_HIDDEN": ("noexec", "off", "on"),
    "HISTCONTROL": ("none", "ignorespace", "ignoredups", "ignoreboth"),
    "ON_ERROR_ROLLBACK": ("on", "off", "interactive"),
    "ON_STALE": ("error", "off", "warning"),
    "SHOW_CONTEXT": ("never", "errors", "always"),
    "VERBOSITY": ("default", "verbose", "terse", "sqlstate"),
}


def completions(
    shell: Shell, before: str, query: str = "", after: str = "", *, fuzzily: bool = False
) -> tuple[str, list[str]]:
    """The word at the cursor, and its candidates; `query` is the query buffer before the edited text, `after` the text
    behind the cursor. `fuzzily`: they have the letters of the word in that order, the best first."""
    words, current = split(query + "\n" + before if query else before)
    if current.startswith(":") and len(current) > 1 and current != "::":
        return current, _variables(shell, current)
    slash = _slash_words(before)
    if slash is not None and slash[0][:1] != ["copy"]:
        words, current = slash
        return current, sorted(set(_Candidates(shell, words, current, [], fuzzily).for_slash()))
    files: list[str] = []
    if slash is not None:
        words, copied = split(before[before.rindex("\\") + 1 :])
        if _names_file(words) or (slash[0][-1:] and slash[0][-1].upper() in ("FROM", "TO")):
            words, current, files = slash[0], slash[1], list(_argument_files(slash[1]))
        else:
            current = copied
    asked = _Candidates(shell, words, current, rest_of_statement(after), fuzzily)
    candidates = list(dict.fromkeys([*files, *asked.for_sql()]))
    return current, asked.ordered(candidates) if fuzzily else sorted(candidates)


def _slash_words(before: str) -> tuple[list[str], str] | None:
    r"""The words of the backslash command that the cursor is in, the command first."""
    line = before.rpartition("\n")[2]
    match = re.search(r"(?:^|\s)\\(?!\\)([^\\]*)\Z", line)
    if match is None or line[: match.start()].count("'") % 2:
        return None
    words = _ARGUMENT.findall(match[1])
    if not match[1] or (match[1][-1].isspace() and not (words and _is_open(words[-1]))):
        return words, "" if words else "\\"
    return words[:-1], words[-1] if words[:-1] else "\\" + words[-1]


_ARGUMENT = re.compile(r"""'(?:[^']|'')*(?:'|\Z)|"[^"]*(?:"|\Z)|[^\s'"][^\s]*""")


def _is_open(word: str) -> bool:
    """Is the word in quotes that are not closed?"""
    return word[0] in "'\"" and word.count(word[0]) % 2 == 1


class _Candidates:
    def __init__(self, shell: Shell, words: list[str], current: str, after: list[str], fuzzily: bool) -> None:
        self.shell = shell
        self.words = words
        self.current = current
        self._fuzzily = fuzzily
        before, whole = named_relations(words), [*words, current or "?", *after]
        self._asked = Asked(current, words, before, named_relations(whole), with_queries(whole))

    def _fits(self, candidate: str, begun: str | None = None) -> bool:
        typed = self.current if begun is None else begun
        plain, typed = candidate.replace('"', "").lower(), typed.replace('"', "").lower()
        return plain.startswith(typed) or (self._fuzzily and fuzzy(plain, typed) is not None)

    def ordered(self, candidates: Iterable[str]) -> list[str]:
        """The best first: what begins so, then other names, then functions."""

        def rank(candidate: str) -> tuple[object, ...]:
            skipped, place = fuzzy(candidate, self.current) or (0, 0)
            return (skipped, place) != (0, 0), place > 0, candidate.endswith("("), skipped, place, candidate

        return sorted(candidates, key=rank)

    # --- backslash commands -------------------------------------------------------------------------------------------

    def for_slash(self) -> Iterator[str]:
        words, current = self.words, self.current
        if not words:
            names = [name for names in MODULES.values() for name in names]
            names += [*LISTS, *[name for names in SLASH_ARGUMENTS.values() for name in names]]
            yield from {f"\\{name}" for name in names if f"\\{name}".startswith(current)}
            return
        command, arguments = words[0], words[1:]
        if command == "pset" and arguments:
            candidates: Iterable[str] = _PSET_VALUES.get(arguments[0], ())
        elif command == "set" and arguments:
            boolean = ("on", "off") if arguments[0] in RULES and RULES[arguments[0]].empty == "on" else ()
            candidates = _VARIABLE_VALUES.get(arguments[0], boolean)
        elif command in ("c", "connect") and arguments:
            candidates = self._names("<role>") if len(arguments) == 1 else ()
        elif command in ("h", "help"):
            yield from _help_topics(" ".join(arguments), current)
            return
        else:
            kind = next((kind for kind, commands in SLASH_ARGUMENTS.items() if command in commands), None)
            if kind is None:
                return
            if kind in ("<file>", "<folder>"):
                yield from _argument_files(current, folders=kind == "<folder>")
                return
            candidates = self._names(kind) if kind.startswith("<") else kind.split("|")
        yield from (candidate for candidate in candidates if self._fits(candidate))

    # --- statements ---------------------------------------------------------------------------------------------------

    def for_sql(self) -> Iterator[str]:
        words, current = self.words, self.current
        if current.startswith(("--", "/*")):
            return
        if current.startswith("'"):
            if _names_file(words):
                yield from _quoted_files(current)
            else:
                wanted = [kind for kind in following(words) or () if kind in _IN_QUOTES or kind.startswith("'")]
                for kind in wanted:
                    names = self._names(kind) if kind.startswith("<") else [kind]
                    yield from (value for value in names if value.startswith(current))
            return
        if current == "::" or words[-1:] == ["::"]:
            begun = "" if current == "::" else current
            yield from (("::" if current == "::" else "") + name for name in self._names("<type>", begun))
            return
        yield from self._from(self._following())

    def _following(self) -> Sequence[str]:
        words, current = self.words, self.current
        if not words:
            return STATEMENTS
        kinds = query_following(words, typed=bool(current)) if words[0].upper() != "MERGE" else None
        if kinds is None:
            kinds = following(words)
        if kinds is None and current:  # no rule: an expression, any name or key word that begins so
            kinds = ("<expression>", "<relation>", "<keyword>")
        return kinds or ()

    def _from(self, candidates: Sequence[str]) -> Iterator[str]:
        """Functions and words that begin an operand only where no column or relation begins so: one Tab is to do."""
        names = [name for kind in candidates if kind in _NAMES_FIRST for name in self._of_kind(kind)]
        yield from names
        alone = self._fuzzily or not names
        for candidate in candidates:
            if candidate == "<keyword>":
                yield from self._keywords(word.upper() for word in KEYWORDS)
            elif candidate == "<operand>":
                yield from self._keywords(OPERANDS) if alone else ()
            elif candidate in ("<expression>", "<set function>"):
                kind = "<function>" if candidate == "<expression>" else candidate
                yield from self._names(kind) if alone else ()
            elif candidate not in _NAMES_FIRST and candidate.startswith("<"):
                yield from self._names(candidate)
            elif candidate not in _NAMES_FIRST:
                yield from self._keywords((candidate,))

    def _of_kind(self, kind: str) -> list[str]:
        if kind != "<expression>":
            return self._names(kind)
        return self._names("<column>") + (self._names("<alias>") if "." not in self.current else [])

    def _keywords(self, words: Iterable[str]) -> Iterator[str]:
        """The words that begin with the typed text, in the wanted case; options and quoted values stay as they are."""
        style, current = self.shell.variables.word("COMP_KEYWORD_CASE"), self.current
        lower = style == "lower" or (style.startswith("preserve") and current[:1].islower())
        lower = lower or (style == "preserve-lower" and not current)
        words = () if '"' in current or "." in current else words
        for word in words:
            if self._fits(word):
                yield word if not word.isupper() else word.lower() if lower else word

    # --- names --------------------------------------------------------------------------------------------------------

    def _names(self, kind: str, begun: str | None = None) -> list[str]:
        """Names of a kind that begin with the typed text."""
        if kind == "<pset>":
            return list(LISTED)
        if kind == "<variable>":
            return sorted({*RULES, *(name for name, _ in self.shell.variables)})
        connection = self.shell.connection
        if connection is None or connection.lost is not None:
            return []
        try:
            with reading(connection.session):
                names = NAMES[kind](connection.session, self._asked)
        except PgError:
            return []
        return [name for name in names if self._fits(name, begun)]


_NAMES_FIRST = ("<expression>", "<relation>", "<condition>", "<with>")
_IN_QUOTES = ("<value>", "<encoding>", "<time zone>")


def _names_file(words: Sequence[str]) -> bool:
    """Does COPY's file come next?"""
    return bool(words) and words[0].upper() == "COPY" and words[-1].upper() in ("FROM", "TO")


def _help_topics(begun: str, current: str) -> Iterator[str]:
    """The next word of each command whose first words are those typed."""
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


def _files(begun: str) -> list[str]:
    """The files that a name begins; those that begin with a dot if it does."""
    folder, begun = os.path.split(begun)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
    hidden = begun.startswith(".")
    return [
        os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(begun) and (hidden or not entry.name.startswith("."))
    ]


def _quoted_files(current: str) -> list[str]:
    return [_quoted(name) for name in _files(current[1:].replace("''", "'"))]


def _argument_files(current: str, *, folders: bool = False) -> Iterator[str]:
    """Files as arguments of a backslash command: in quotes where they need them."""
    if current.startswith("'"):
        yield from (name for name in _quoted_files(current) if not folders or name.endswith("/"))
        return
    for name in _files(current):
        if not folders or name.endswith("/"):
            quoted = re.search(r"[\s'\"\\]", name) is not None
            yield _quoted(name) if quoted else name


def _quoted(name: str) -> str:
    """A name in quotes, which stay open behind a folder."""
    return "'" + name.replace("'", "''") + ("" if name.endswith("/") else "'")


_RULES = Path(__file__).with_name("completion_rules.txt")

# kinds of arguments, and the backslash commands that take them
SLASH_ARGUMENTS = {
    "<database>": ("c", "connect", "l", "list", "l+", "list+"),
    "<file>": ("e", "edit", "g", "gx", "i", "include", "include_relative", "ir", "o", "out", "s", "w", "write"),
    "<folder>": ("cd",),
    "<pset>": ("pset",),
    "<variable>": ("set", "unset", "echo", "qecho", "warn", "if", "elif"),
    "<help>": ("h", "help"),
    "on|off": ("t", "timing"),
    "on|off|auto": ("x",),
    "commands|options|variables": ("?",),
    "<encoding>": ("encoding",),
    "<role>": ("password", "du", "dg", "drg", "drds", "du+", "dg+", "duS", "dgS", "drgS", "duS+", "dgS+"),
    "<publication>": ("dRp", "dRp+"),
    "<subscription>": ("dRs", "dRs+", "apply", "sync"),
    "<schema>": ("dn", "dn+", "dnS", "dnS+", "ddp"),
    "<setting>": ("dconfig", "dconfig+"),
    "<view>": ("dv", "dv+", "dvS", "dvS+", "ev", "sv", "sv+"),
    "<index>": ("di", "di+", "diS", "diS+"),
    "<sequence>": ("ds", "ds+", "dsS", "dsS+"),
    "<table>": ("dt", "dt+", "dtS", "dtS+"),
    "<matview>": ("dm", "dm+", "dmS", "dmS+"),
    "<domain>": ("dD", "dD+", "dDS", "dDS+"),
    "<own type>": ("dT", "dT+", "dTS", "dTS+"),
    "<routine>": ("df", "df+", "dfS", "dfS+", "ef", "sf", "sf+"),
    "<relation>": ("d", "d+", "dS", "dS+", "dp", "z"),
}


STATEMENTS = (
    "ABORT", "ALTER", "ANALYZE", "BEGIN", "CALL", "CHECKPOINT", "CLOSE", "COMMENT", "COMMIT", "COPY", "CREATE",
    "DEALLOCATE", "DECLARE", "DELETE FROM", "DISCARD", "DO", "DROP", "END", "EXECUTE", "EXPLAIN", "FETCH", "GRANT",
    "INSERT INTO", "LISTEN", "LOCK", "MERGE INTO", "MOVE", "NOTIFY", "PREPARE", "REASSIGN", "REFRESH", "REINDEX",
    "RELEASE", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT", "SET", "SHOW", "START", "TABLE", "TRUNCATE",
    "UNLISTEN", "UPDATE", "VACUUM", "VALUES", "WITH",
)  # fmt: skip


@lru_cache(maxsize=1)
def _compiled() -> list[tuple[re.Pattern[str], tuple[str, ...]]]:
    rules = []
    said: dict[str, str] = {}
    for line in _RULES.read_text("utf-8").splitlines():
        if line.startswith("$"):
            name, _, said[name] = line.partition(" = ")
        elif line and not line.startswith("--"):
            pattern, _, following = re.sub(r"\$\w+", lambda name: said[name[0]], line).partition(" -> ")
            rules.append((_pattern(pattern), tuple(part.strip() for part in following.split(" | "))))
    return rules


def _pattern(pattern: str) -> re.Pattern[str]:
    r"""The pattern as a regular expression over words that each end in a line feed."""
    anchored = pattern.startswith("^")
    out = []
    for word in pattern.removeprefix("^").split(" "):
        if word == "**":
            out.append(r"(?:[^\n]+\n)*")
        else:
            choices = "|".join(r"[^\n]+" if choice == "*" else re.escape(choice) for choice in word.split("|"))
            out.append(rf"(?:{choices})\n")
    return re.compile(("^" if anchored else r"(?:^|\n)") + "".join(out) + r"\Z", re.IGNORECASE)


def following(words: Sequence[str]) -> tuple[str, ...] | None:
    """The candidates after these words of a statement; None: no rule matches."""
    text = "".join(word + "\n" for word in words)
    for pattern, candidates in _compiled():
        if pattern.search(text):
            return candidates
    return None
