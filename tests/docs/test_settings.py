"""docs/settings.md names every setting of a session that has no effect, and no other.

A setting has an effect where a module asks for its value: its name stands there as a text.
"""

from __future__ import annotations

import re
from pathlib import Path

from pgrepl.catalog import parameters

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "settings.md"

# modules that only know names: what may be a value or its bounds, what a word of a command stands for
_NAMES_ONLY = {
    "catalog/parameters.py", "catalog/parameter_values.py", "catalog/parameter_checks.py", "sql/build/setting.py",
    "types/depth.py", "replication/libpq/conninfo.py", "shell/startup.py", "statements/vacuum.py",
}  # fmt: skip
# asked for by a name that is put together, by the scanner, or by VACUUM
_ASKED_OTHERWISE = {
    "default_transaction_deferrable", "default_transaction_isolation", "default_transaction_read_only",
    "backslash_quote", "pgrepl.file_grace", "pgrepl.keep_snapshots",
}  # fmt: skip
# refused if they are to be anything else
_REFUSED = {
    "allow_system_table_mods", "array_nulls", "default_table_access_method", "default_tablespace",
    "ignore_checksum_failure", "lc_messages", "lc_monetary", "lc_numeric", "lc_time", "quote_all_identifiers",
    "temp_tablespaces", "zero_damaged_pages",
}  # fmt: skip


def test_the_page_names_what_has_no_effect() -> None:
    package = ROOT / "pgrepl"
    sources = "\n".join(
        path.read_text("utf-8")
        for path in sorted(package.rglob("*.py"))
        if str(path.relative_to(package)) not in _NAMES_ONLY
    ).lower()
    silent = [
        parameter.name
        for parameter in parameters.all_parameters()
        if parameter.context in ("user", "superuser")
        and parameter.key not in _ASKED_OTHERWISE | _REFUSED
        and f'"{parameter.key}"' not in sources
    ]
    listed = re.findall(r"`(\w+)`", PAGE.read_text("utf-8").partition("## Without effect")[2])
    assert listed == silent
