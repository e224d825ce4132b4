"""Errors of a catalog's driver, told apart by SQLite's result codes (sqlite.org/rescode.html) and by SQLSTATE.

Only two errors have no code of their own. SQLITE_ERROR stands for every fault of a statement, so that a missing table
is known by SQLite's message; and text that is not UTF-8 is noticed by Python's sqlite3, not by SQLite.
"""

from __future__ import annotations

import sqlite3

ERROR, BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, CONSTRAINT, NOTADB = 1, 5, 6, 8, 10, 11, 13, 14, 19, 26

# the texts of sqlite3_errstr, for Python 3.10: its exceptions have no sqlite_errorcode yet
_TEXTS = {
    "database is locked": BUSY,
    "database table is locked": LOCKED,
    "database schema is locked": LOCKED,
    "attempt to write a readonly database": READONLY,
    "disk I/O error": IOERR,
    "database disk image is malformed": CORRUPT,
    "malformed database schema": CORRUPT,
    "database or disk is full": FULL,
    "unable to open database": CANTOPEN,
    "UNIQUE constraint failed": CONSTRAINT,
    "file is not a database": NOTADB,
    "no such table": ERROR,
    "no such column": ERROR,
}


def result_code(problem: BaseException) -> int:
    """SQLite's primary result code; 0: the error is not SQLite's."""
    if not isinstance(problem, sqlite3.Error):
        return 0
    code: int | None = getattr(problem, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF
    text = str(problem)
    return next((code for start, code in _TEXTS.items() if text.startswith(start)), 0)


def sqlstate(problem: BaseException) -> str | None:
    """The SQLSTATE of a PostgreSQL server's error."""
    found: str | None = getattr(problem, "sqlstate", None)
    return found


def is_busy(problem: BaseException) -> bool:
    """Does another connection hold the lock of the SQLite file?"""
    return result_code(problem) in (BUSY, LOCKED)


def is_damaged(problem: BaseException) -> bool:
    """Is the file no SQLite database, or does it lack a table or a column?"""
    code, text = result_code(problem), first_line(problem)
    return code in (CORRUPT, NOTADB) or (code == ERROR and text.startswith(("no such table", "no such column")))


def is_not_text(problem: BaseException) -> bool:
    """Is a value, or a name in a message, not UTF-8?"""
    return isinstance(problem, UnicodeDecodeError) or "decode to UTF-8" in first_line(problem)


def first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__
