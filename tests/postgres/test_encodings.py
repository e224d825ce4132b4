"""Character sets: conversions, their errors, COPY's files, and databases of another encoding, as a real server has
them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.harness.database import Database
from tests.harness.programs import NAMED
from tests.postgres.side_by_side import SideBySide

FUNCTIONS = r"""
SELECT pg_client_encoding(), getdatabaseencoding()
SELECT convert('\xc3a9', 'UTF8', 'LATIN1'), convert_from('\xe9', 'LATIN1'), convert_to('é', 'iso-8859-1')
SELECT convert('\xe282ac', 'UTF8', 'WIN1252'), convert_from('\x80', 'WIN1252'), convert_to('ж', 'KOI8R')
SELECT convert('\xcf', 'KOI8R', 'WIN1251'), convert('\xb1', 'LATIN2', 'WIN1250'), convert('\xe9', 'LATIN1', 'LATIN1')
SELECT convert_from('\xa4a2', 'EUC_JP'), convert_to('あ', 'SJIS'), convert('\xa4a2', 'EUC_JP', 'SJIS')
SELECT length('\xe282ac'::bytea, 'UTF8'), length('\xe282ac'::bytea, 'LATIN1'), length('\xa4a2'::bytea, 'EUC_JP')
SELECT length('\xe282ac'::bytea, 'SQL_ASCII')
SELECT convert_to('€', 'LATIN1')
SELECT convert('\xe282ac', 'UTF8', 'LATIN1')
SELECT convert('\xe9', 'LATIN1', 'WIN1250')
SELECT convert('\xe9', 'KOI8R', 'ISO_8859_5')
SELECT convert_from('\xff', 'UTF8')
SELECT convert_from('\xc3', 'UTF8')
SELECT convert_from('\x00', 'LATIN1')
SELECT convert_from('\x6100', 'UTF8')
SELECT convert_from('\x81', 'WIN1252')
SELECT convert_from('a', 'nosuch')
SELECT convert_to('a', 'nosuch')
SELECT length('\xff'::bytea, 'UTF8')
SELECT length('a'::bytea, 'nosuch')
SELECT n, pg_encoding_to_char(n), pg_encoding_max_length(n) FROM generate_series(-1, 42) n
SELECT pg_char_to_encoding('utf-8'), pg_char_to_encoding('Windows-1252'), pg_char_to_encoding('koi8'), pg_char_to_encoding('x')
SET client_encoding = 'nosuch'
SET client_encoding = 'MULE_INTERNAL'
CREATE DATABASE wrong ENCODING 'SJIS' TEMPLATE template0
CREATE DATABASE wrong ENCODING 'nosuch' TEMPLATE template0
CREATE DATABASE wrong ENCODING 99 TEMPLATE template0
CREATE DATABASE wrong ENCODING 'LATIN1' LOCALE 'C.UTF-8' TEMPLATE template0
"""  # noqa: E501


def test_functions_and_their_errors(sides: SideBySide) -> None:
    for statement in FUNCTIONS.strip().splitlines():
        sides.same(statement)


def test_copy_writes_and_reads_files_in_other_character_sets(sides: SideBySide) -> None:
    sides.run("CREATE TABLE t (a text); INSERT INTO t VALUES ('é'), ('ß')")
    for encoding in ("LATIN1", "WIN1252", "UTF8", "LATIN9"):
        sides.ours(f"COPY t TO '{sides.file}' (ENCODING '{encoding}')")
        assert sides.theirs(f"COPY t TO STDOUT (ENCODING '{encoding}')") == sides.file.read_bytes()
        sides.ours("TRUNCATE t", f"COPY t FROM '{sides.file}' (ENCODING '{encoding}')")
        assert sides.ours("TABLE t") == [("é",), ("ß",)]


def printed(folder: Path, script: bytes, **environment: str) -> tuple[bytes, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "pgrepl", "-X", "-At", "-f", "-"],
        input=script,
        cwd=folder,
        capture_output=True,
        env=environment | NAMED,
        check=False,
    )
    return done.stdout, done.stderr


def test_the_shell_reads_and_prints_the_clients_encoding(tmp_path: Path) -> None:
    script = "SELECT 'é', length('é');\n\\encoding\n\\echo é\n\\encoding UTF8\nSELECT U&'\\00e9';\n".encode("latin-1")
    assert printed(tmp_path, script, PGCLIENTENCODING="LATIN1") == (
        "é|1\nLATIN1\né\n".encode("latin-1") + "é\n".encode(),
        b"",
    )
    out, said = printed(tmp_path, b"SELECT U&'\\20ac';\n", PGCLIENTENCODING="LATIN1")
    assert (out, said.partition(b"ERROR:  ")[2]) == (
        b"",
        b'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"\n',
    )
    assert b'invalid value for parameter "client_encoding": "x"' in printed(tmp_path, b"", PGCLIENTENCODING="x")[1]


def test_a_database_of_another_encoding(tmp_path: Path) -> None:
    first = Database(tmp_path)
    first("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    assert first.says("CREATE DATABASE l2 ENCODING 'LATIN1' LOCALE 'C'").splitlines()[0] == (
        "new encoding (LATIN1) is incompatible with the encoding of the template database (UTF8)"
    )
    first("CREATE TABLE t (a text)", "INSERT INTO t VALUES ('é'), ('x')", "CREATE PUBLICATION p FOR TABLE t")
    latin = Database(tmp_path, "latin")
    none = 'character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"'
    assert latin("SHOW server_encoding") == [("LATIN1",)]
    latin("CREATE TABLE t (a text)")
    assert latin.says("INSERT INTO t VALUES ('€')") == none
    latin.subscribe("p", "dbname=postgres")
    assert latin.catch_up() == []
    assert latin("TABLE t") == [("é",), ("x",)]
    first("INSERT INTO t VALUES ('€')")
    assert [message for message, _, _ in latin.catch_up()] == [none]
    (tmp_path / "file").write_bytes("€\n".encode())
    assert latin.says(f"COPY t FROM '{tmp_path}/file' (ENCODING 'UTF8')") == none
    first.close()
    latin.close()
