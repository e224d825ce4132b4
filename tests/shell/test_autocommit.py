"""Which queries begin a transaction by themselves when AUTOCOMMIT is off, as psql's command_no_begin has it."""

from __future__ import annotations

import pytest

from pgrepl.shell.scripts.execute import runs_outside_block


@pytest.mark.parametrize(
    "query",
    [
        "begin;",
        " -- c\n/* c */ COMMIT;",
        "start transaction;",
        "prepare transaction 'x';",
        "vacuum;",
        "cluster;",
        "create database d;",
        "create tablespace t location '/';",
        "create unique index concurrently on t (a);",
        "create index concurrently i on t (a);",
        "alter system set a = 1;",
        "drop database d;",
        "drop index concurrently i;",
        "reindex database d;",
        "reindex table concurrently t;",
        "discard all;",
    ],
)
def test_these_run_outside_of_blocks(query: str) -> None:
    assert runs_outside_block(query)


@pytest.mark.parametrize(
    "query",
    [
        "select 1;",
        "beginx;",
        "prepare p as select 1;",
        "cluster t;",
        "create table t (a int);",
        "create index on t (a);",
        "drop index i;",
        "discard plans;",
        "savepoint s;",
        "release s;",
        "",
        "-- only a comment",
        "-- vacuum\n(select 1);",
        "/* vacuum */ (select 1);",
        "select" + " " * 200 + "1;",
        "select" + "\n--\n" * 200 + "1;",
        "select" + "/**/" * 200 + "1;",
    ],
)
def test_these_get_a_begin_before_them(query: str) -> None:
    assert not runs_outside_block(query)
