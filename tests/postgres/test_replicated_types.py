"""Random replication of enums, domains and composite types: the subscriber's lack labels, or have other constraints."""

from __future__ import annotations

from random import Random

import pytest

from tests.harness.dose import dose
from tests.postgres import workload_tables
from tests.postgres.replicas import RealReplicas
from tests.postgres.replicas_ours import OurReplicas
from tests.postgres.test_replication_workloads import Play, play_out

LABELS = {"pub": "'low', 'mid', 'high', 'top'", "sub": "'high', 'mid', 'low'"}
MOST = {"pub": 50, "sub": 20}
VALUES = {
    "int": workload_tables.VALUES["int"],
    "text": ["'low'", "'high'", "'x'", "NULL"],
    "mood": ["'low'", "'low'", "'mid'", "'mid'", "'high'", "'high'", "'top'", "NULL"],
    "small": ["1", "2", "3", "5", "8", "19", "45", "NULL"],
    "mood[]": ["'{low}'", "'{}'", "'{mid,NULL}'", "NULL"],
    "pair": ["'(1,low)'", "'(,)'", "'(2,)'", "'(45,high)'", "'(3,top)'", "NULL"],
    "pair[]": ["'{\"(1,low)\",NULL}'", "'{}'", "NULL"],
    "pairs": ["'{\"(1,low)\"}'", "NULL"],
    "named": ["'low'", "'mid'", "NULL"],
}
OTHERWISE = {
    "int": ["small", "text", "bigint"],
    "text": ["varchar(30)", "named", "mood"],
    "mood": ["text", "named"],
    "small": ["int", "text", "numeric"],
    "mood[]": ["text[]", "text"],
    "pair": ["text"],
    "pair[]": ["text[]"],
    "pairs": ["pair[]", "text"],
    "named": ["mood", "text"],
}


def types(where: str) -> list[str]:
    return [
        f"CREATE TYPE mood AS ENUM ({LABELS[where]})",
        f"CREATE DOMAIN small AS int DEFAULT 4 CONSTRAINT few CHECK (VALUE < {MOST[where]})",
        "CREATE DOMAIN named AS mood CHECK (VALUE <> 'high')",
        "CREATE TYPE pair AS (n small, m mood)",
        "CREATE DOMAIN pairs AS pair[] CHECK (cardinality(VALUE) < 3)",
    ]


def compare_types(real: RealReplicas, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_tables, "VALUES", VALUES)
    monkeypatch.setattr(workload_tables, "OTHERWISE", OTHERWISE)
    monkeypatch.setattr(workload_tables, "KEYS", ["text", "mood", "small", "named"])
    real.renew()
    ours = OurReplicas()
    try:
        play = Play(real, ours)
        play.pub(*types("pub"))
        play.sub(*types("sub"))
        play_out(play, Random(seed))
    finally:
        ours.close()


@pytest.mark.parametrize("seed", dose([*range(3), 150], 4))
def test_random_types_are_replicated(real: RealReplicas, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_types(real, seed, monkeypatch)


# 207: which of several duplicates an UPDATE meets first follows from places in PostgreSQL's heap
@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(100, 300) if seed != 207])
def test_many_random_types_are_replicated(real: RealReplicas, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_types(real, seed, monkeypatch)
