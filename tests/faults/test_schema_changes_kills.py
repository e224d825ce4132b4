"""A worker that follows its publisher's definitions is killed at every step: each change is done once, none is lost."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.faults.replication import Replicas
from tests.harness.dose import dose

SUBSCRIBER = Path(__file__).resolve().parents[2] / "pgrepl" / "replication" / "subscriber"
SOURCE = "".join(path.read_text() for path in SUBSCRIBER.rglob("*.py"))
STEPS = sorted(
    set(re.findall(r'\bcrash_point\("((?:schema|copy)\.[^"]+|apply\.(?:received|origin|settled))"\)', SOURCE))
)
LAKE_STEPS = ["commit.begin", "commit.rows", "commit.end"]
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped"

DEFAULTS = (
    "SELECT attname, attnotnull, pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef"
    " ON adrelid = attrelid AND adnum = attnum WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped"
    " ORDER BY 1"
)


def same(replicas: Replicas, table: str, key: str) -> None:
    columns = ", ".join(sorted(str(name) for (name,) in replicas.pub(COLUMNS.replace("'t'", f"'{table}'"))))
    condition = "WHERE a >= 0 " if table == "t" else ""
    query = f"SELECT {columns} FROM {table} {condition}ORDER BY {key}"
    assert replicas.sub(query) == replicas.pub(query)


@pytest.mark.parametrize("apart, every", dose([(True, 8), (True, 1), (False, 1)], 3))
def test_killed_at_each_step(tmp_path: Path, apart: bool, every: int) -> None:
    replicas = Replicas(tmp_path, apart=apart)
    assert replicas.apply() == 0
    replicas.sub("ALTER SUBSCRIPTION s SET (schema_changes = all)")
    assert {"schema.followed", "schema.added"} <= set(STEPS)
    steps = [*STEPS, *LAKE_STEPS][::every]
    for number, name in enumerate(steps):
        replicas.pub(f"ALTER TABLE t ADD COLUMN c{number} int NOT NULL DEFAULT {number}")
        replicas.pub(f"UPDATE t SET c{number} = a WHERE a % 3 = 0")
        replicas.pub(
            f"BEGIN; INSERT INTO t (a) VALUES ({2000 + number}); ALTER TABLE t RENAME COLUMN c{number} TO d{number};"
            f" UPDATE t SET d{number} = -1 WHERE a = 9; COMMIT"
        )
        replicas.pub(
            f"ALTER TABLE t ALTER COLUMN d{number} SET DEFAULT {number + 1}; INSERT INTO t (a) VALUES ({4000 + number})"
        )
        if number % 4 == 3:
            replicas.pub(f"ALTER TABLE t DROP COLUMN d{number - 1}; INSERT INTO t (a) VALUES ({3000 + number})")
        replicas.pub(f"CREATE TABLE n{number} (k int PRIMARY KEY, v text); INSERT INTO n{number} VALUES (1, 'x')")
        replicas.pub(f"ALTER PUBLICATION p ADD TABLE n{number}")
        assert replicas.apply(name) == -signal.SIGKILL, name
    assert replicas.apply() == 0
    same(replicas, "t", "a")
    assert replicas.sub(DEFAULTS) == replicas.pub(DEFAULTS)
    for number in range(len(steps)):
        same(replicas, f"n{number}", "k")
    assert replicas.sub("SELECT DISTINCT srsubstate FROM pg_subscription_rel") == [("r",)]
    assert replicas.sub("SELECT apply_error_count, sync_error_count FROM pg_stat_subscription_stats") == [("0", "0")]
