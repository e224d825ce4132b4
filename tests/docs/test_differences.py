"""docs/differences.md names what is refused: statements of the grammar, PostgreSQL's types and functions, psql's
commands."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from pgrepl.backend import HOOKS
from pgrepl.expr.functions import own
from pgrepl.expr.functions.registry import source_of
from pgrepl.types import builtin, text
from pgrepl.types.builtin import Proc, procs_by_name, type_by_oid
from pgrepl.types.names import format_type

ROOT = Path(__file__).resolve().parents[2]
_TEXT = re.sub(r"```.*?```", "", (ROOT / "docs" / "differences.md").read_text("utf-8"), flags=re.S)
NAMED = {" ".join(words.split()) for words in re.findall(r"`([^`]+)`", _TEXT)}
_VERBS = ("CREATE", "ALTER", "DROP", "COMMENT ON")
_DATA = Path(builtin.__file__).with_name("data")
# what only PostgreSQL's inside calls
_INSIDE = re.compile(
    r".*(send|typmodin|_accum|_accum_inv|_combine|_transfn|_canonical|_subdiff|_validator|equalimage|validate|inc_any|dec_any)$"
    r"|(float8|int[248])_?(avg|sum|corr|covar|regr|stddev|var|int4_sum).*|int8inc_float8_float8|hash.*|jsonb_hash.*"
    r"|gin_(cmp|compare)_.*|in_range|nameconcatoid|ts_match_tt"
)
_NEVER_WRITTEN = {"internal", "cstring", "trigger", "event_trigger", "pg_ddl_command"}


def _refused_statements() -> set[str]:
    grammar = "".join(path.read_text("utf-8") for path in (ROOT / "grammar").glob("*.lark"))
    return {alias.upper().replace("_", " ") for alias in re.findall(r"-> unsupported_(\w+)", grammar)}


def _is_named(statement: str) -> bool:
    if statement in NAMED:
        return True
    for verb in _VERBS:
        if statement.startswith(f"{verb} ") and statement.removeprefix(f"{verb} ") in NAMED:
            return True
    words = statement.removeprefix("COMMAND ").removeprefix("ALTER ")
    return any(
        fnmatchcase(words, pattern)
        for pattern, name in (
            ("OF", "ALTER TABLE … OF"), ("NOT OF", "NOT OF"), ("ENABLE*", "ENABLE"), ("DISABLE*", "DISABLE"),
            ("OPTIONS", "OPTIONS"), ("COLUMN OPTIONS", "OPTIONS"), ("* ALL IN TABLESPACE", "ALL IN TABLESPACE"),
            ("* DEPENDS ON", "DEPENDS ON EXTENSION"), ("* REFRESH COLLATION VERSION", "REFRESH COLLATION VERSION"),
            ("COMMENT ON CONSTRAINT ON DOMAIN", "DOMAIN"),
        )
        if name in NAMED
    )  # fmt: skip


def test_every_statement_that_the_grammar_refuses_is_named() -> None:
    assert sorted(s for s in _refused_statements() if not _is_named(s)) == []


def _types_without_text() -> set[int]:
    rows = [line.split("\t") for line in (_DATA / "pg_type.tsv").read_text("utf-8").splitlines()[1:]]
    return {int(r[0]) for r in rows if r[5] == "b" and not r[1].startswith("_") and int(r[0]) not in text._MODULES}


def _matches(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in NAMED)


def test_every_type_that_is_refused_is_named() -> None:
    assert sorted(n for n in map(format_type, _types_without_text()) if not _matches(n)) == []


def test_every_function_that_is_refused_is_named() -> None:
    refused = _types_without_text()

    def is_written(proc: Proc) -> bool:
        for typoid in (*proc.argtypes, proc.rettype):
            row = type_by_oid(typoid)
            if row is None or row.name in _NEVER_WRITTEN or row.name.endswith("_handler"):
                return False
            if typoid in refused or row.elem in refused:
                return False
        return proc.kind not in "aw" and not _INSIDE.fullmatch(proc.name)

    missing = []
    for name in _functions():
        overloads = [proc for proc in procs_by_name(name) if is_written(proc)]
        if overloads and not any(map(_is_there, overloads)) and not _matches(name):
            missing.append(name)
    assert missing == []


def _is_there(proc: Proc) -> bool:
    source = source_of(proc)
    return own(source) is not None or HOOKS.catalog_function(source) is not None


def _functions() -> list[str]:
    """The names of PostgreSQL's functions."""
    return sorted({line.split("\t")[1] for line in (_DATA / "pg_proc.tsv").read_text("utf-8").splitlines()[1:]})


def test_no_function_is_named_that_is_there() -> None:
    section = _TEXT.split("**Functions**")[1].split("**System views**")[0]
    named = set(re.findall(r"`([a-z][a-z_0-9*]+)`", section)) - {"ts_token_type"}  # what a pattern does not mean
    absent = [name for name in _functions() if not all(map(_is_there, procs_by_name(name)))]
    assert sorted(each for each in named if not any(fnmatchcase(name, each) for name in absent)) == []


def test_every_backslash_command_that_is_refused_is_named() -> None:
    commands = {f"\\lo_{word}" for word in ("export", "import", "unlink")}
    assert sorted(command for command in commands if command.rstrip("+") not in NAMED) == []
