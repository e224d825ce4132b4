r"""Makes shell/backslash/data/sql_help.json from psql 17's help: `psql -X -c '\h *' | python -m
tests.shell.make_sql_help`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pgrepl.shell import backslash

_ENTRY = re.compile(
    r"^Command:     ([^\n]*)\nDescription: ([^\n]*)\nSyntax:\n(.*?)\n\n"
    r"URL: https://www\.postgresql\.org/docs/17/([^\n]*)\.html\n\n",
    re.MULTILINE | re.DOTALL,
)

# The commands that pgrepl has.
COMMANDS = """
ABORT, ALTER DATABASE, ALTER DEFAULT PRIVILEGES, ALTER DOMAIN, ALTER FUNCTION, ALTER GROUP, ALTER INDEX, ALTER
MATERIALIZED VIEW, ALTER PROCEDURE, ALTER PUBLICATION, ALTER ROLE, ALTER ROUTINE, ALTER SCHEMA, ALTER SEQUENCE, ALTER
SUBSCRIPTION, ALTER SYSTEM, ALTER TABLE, ALTER TRIGGER, ALTER TYPE, ALTER USER, ALTER VIEW, ANALYZE, BEGIN, CALL,
CHECKPOINT, CLOSE, COMMENT, COMMIT, COMMIT PREPARED, COPY, CREATE DATABASE, CREATE DOMAIN, CREATE FUNCTION, CREATE
GROUP, CREATE INDEX, CREATE MATERIALIZED VIEW, CREATE PROCEDURE, CREATE PUBLICATION, CREATE ROLE, CREATE SCHEMA, CREATE
SEQUENCE, CREATE SUBSCRIPTION, CREATE TABLE, CREATE TABLE AS, CREATE TRIGGER, CREATE TYPE, CREATE USER, CREATE VIEW,
DEALLOCATE, DECLARE, DELETE, DISCARD, DO, DROP DATABASE, DROP DOMAIN, DROP FUNCTION, DROP GROUP, DROP INDEX, DROP
MATERIALIZED VIEW, DROP OWNED, DROP PROCEDURE, DROP PUBLICATION, DROP ROLE, DROP ROUTINE, DROP SCHEMA, DROP SEQUENCE,
DROP SUBSCRIPTION, DROP TABLE, DROP TRIGGER, DROP TYPE, DROP USER, DROP VIEW, END, EXECUTE, EXPLAIN, FETCH, GRANT,
INSERT, LISTEN, LOCK, MERGE, MOVE, NOTIFY, PREPARE, PREPARE TRANSACTION, REASSIGN OWNED, REFRESH MATERIALIZED VIEW,
REINDEX, RELEASE SAVEPOINT, RESET, REVOKE, ROLLBACK, ROLLBACK PREPARED, ROLLBACK TO SAVEPOINT, SAVEPOINT, SELECT, SELECT
INTO, SET, SET CONSTRAINTS, SET ROLE, SET SESSION AUTHORIZATION, SET TRANSACTION, SHOW, START TRANSACTION, TABLE,
TRUNCATE, UNLISTEN, UPDATE, VACUUM, VALUES, WITH
"""


def main() -> None:
    wanted = {" ".join(name.split()) for name in COMMANDS.split(",")}
    found = [list(entry) for entry in _ENTRY.findall(sys.stdin.read()) if entry[0] in wanted]
    missing = wanted - {entry[0] for entry in found}
    if missing:
        sys.exit(f"no help for {', '.join(sorted(missing))}")
    target = Path(backslash.__file__).parent / "data" / "sql_help.json"
    target.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
