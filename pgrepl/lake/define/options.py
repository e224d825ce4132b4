"""DuckLake's options in `ducklake_metadata`: of a table, of its schema, or of the whole lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.store.ducklake import VERSIONS
from pgrepl.ground.errors import unsupported
from pgrepl.lake import sql

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

DEFAULT_COMPRESSION = "lz4"  # files are as large as with snappy, and read a third faster
_COMPRESSIONS = {
    "uncompressed": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "zstd",  # Spark comes without it, and could not read the table
    "lz4": "lz4",
    "lz4_raw": "lz4",
}
WRITE_VECTORS = "write_deletion_vectors"
MOST_VECTORS = 32  # in a file
DEFAULT_INLINING_LIMIT = 100  # rows; beyond it a file is written about as fast, and read faster


def option(session: Session, table_id: int, name: str) -> str | None:
    """The table's value, else its schema's, else the lake's."""
    key = ("option", name, table_id)
    if key in session.derived:
        known: str | None = session.derived[key]
        return known
    values = session.link.execute(sql.OPTION, (name, table_id, table_id))
    value = session.derived[key] = str(values[0][0]) if values else None
    return value


def inlining_limit(session: Session, table_id: int) -> int:
    """The number of rows, or deletes, of a statement up to which they are inlined in the catalog."""
    value = option(session, table_id, "data_inlining_row_limit")
    return int(value) if value is not None and value.isdigit() else DEFAULT_INLINING_LIMIT


def compression(session: Session, table_id: int) -> str:
    """The compression of new data files, by pyarrow's name."""
    value = option(session, table_id, "parquet_compression")
    return DEFAULT_COMPRESSION if value is None else _COMPRESSIONS.get(value.lower(), DEFAULT_COMPRESSION)


def set_option(session: Session, name: str, value: str) -> None:
    """Set an option of the whole lake, in the running write transaction."""
    forget, insert = sql.SET_OPTION_OF_LAKE
    session.link.execute(forget, (name,))
    session.link.execute(insert, (name, value))
    session.transaction.numbering.invalidate()
    session.forget_all()


def has_1_1(session: Session) -> bool:
    """Is it a catalog of DuckLake 1.1? 0A000: it has a version that is not known."""
    version = option(session, -1, "version") or VERSIONS[0]
    if version not in VERSIONS:
        raise unsupported(f"a catalog of DuckLake {version}")
    return version != VERSIONS[0]


def inlined_prefix(session: Session) -> str:
    """The prefix of the names of DuckLake's own columns in tables of inlined rows."""
    return sql.PREFIX if has_1_1(session) else ""


def vectors(session: Session, table_id: int) -> int:
    """The number of snapshots that a file of deletion vectors of the table may tell apart; 0: there are to be none.
    DuckLake 1.0 knows one vector a file. Each has all positions up to its snapshot, so that many would be large."""
    most = MOST_VECTORS if has_1_1(session) else 1
    return most if (option(session, table_id, WRITE_VECTORS) or "").lower() in ("true", "1") else 0
