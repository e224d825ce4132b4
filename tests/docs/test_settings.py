"""docs/settings.md asks pg_settings for the settings that have no effect: it says so of these, and of no other.

A setting has an effect where a module asks for its value: its name stands there as a text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pgrepl
from pgrepl.catalog.session import parameters

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "settings.md"

# modules that only know names: what may be a value or its bounds, what a word of a command stands for
_NAMES_ONLY = {
    "catalog/session/parameters.py", "catalog/session/parameter_checks.py", "sql/building/setting.py",
    "types/input_checks.py", "replication/conninfo.py", "shell/startup.py", "statements/upkeep/vacuum.py",
    "statements/table/storage.py", "statements/explain_options.py",
}  # fmt: skip
# asked for by a name that is put together, by the scanner, or by VACUUM
_ASKED_OTHERWISE = {
    "default_transaction_deferrable", "default_transaction_isolation", "default_transaction_read_only",
    "backslash_quote", "pgrepl.file_grace", "pgrepl.keep_snapshots",
}  # fmt: skip
# facts of what is here, and the server's files, which only pg_read_all_settings may see
_KNOWN = {
    "data_directory_mode", "integer_datetimes", "max_function_args", "max_identifier_length", "max_index_keys",
    "server_encoding",
}  # fmt: skip
_FILES = {"config_file", "data_directory", "hba_file", "ident_file"}
# refused if they are to be anything else
_REFUSED = {
    "allow_system_table_mods", "array_nulls", "default_table_access_method", "default_tablespace",
    "ignore_checksum_failure", "plpgsql.extra_errors", "plpgsql.extra_warnings", "quote_all_identifiers",
    "temp_tablespaces", "zero_damaged_pages",
}  # fmt: skip


def test_the_page_asks_for_what_has_no_effect(tmp_path: Path) -> None:
    (condition,) = re.findall(r"FROM pg_settings (WHERE short_desc LIKE .*);", PAGE.read_text("utf-8"))
    with pgrepl.connect(str(tmp_path / "catalog.db")) as con:
        rows = con.execute(f"SELECT name FROM pg_settings {condition} ORDER BY lower(name)").fetchall()
    without = [each.name for each in parameters.all_parameters() if each.short_desc == parameters.NO_EFFECT]
    assert [name for (name,) in rows] == without


def test_what_has_no_effect_is_asked_for_nowhere() -> None:
    package = ROOT / "pgrepl"
    sources = "\n".join(
        path.read_text("utf-8")
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in _NAMES_ONLY
    ).lower()
    silent = {
        each.key
        for each in parameters.all_parameters()
        if each.key not in _ASKED_OTHERWISE | _REFUSED | _KNOWN and f'"{each.key}"' not in sources
    }
    without = {each.key for each in parameters.all_parameters() if each.short_desc == parameters.NO_EFFECT}
    assert silent - _FILES == without - _FILES
