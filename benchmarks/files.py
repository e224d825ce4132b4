"""Files of Debezium events applied by `pgrepl apply`, beside a job of Spark as people write it: a stream, the last
event of each key, a join that rewrites the table. Both are processes of their own, from cold.
`PGREPL_BENCH_ROWS` makes it smaller."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import environment, process
from benchmarks.lake import ROWS, Line
from benchmarks.replicate import TABLE, faster

EVENTS = ROWS // 2
OF_A_FILE = 500_000
OF_A_TRANSACTION = 10_000
SOURCE = {
    "version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1767225600000, "snapshot": "false",
    "db": "pub", "schema": "public", "table": "t",
}  # fmt: skip

SPARK = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import max
base, events, made = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
spark = spark.config("spark.sql.shuffle.partitions", "8").getOrCreate()
row = "struct<id: bigint, k: int, s: string, d: double>"
schema = f"op string, before {row}, after {row}, source struct<lsn: bigint>"

def rewrite(batch, number):
    last = batch.selectExpr("coalesce(after.id, before.id) AS id", "source.lsn AS lsn", "op", "after")
    last = last.selectExpr("id", "struct(lsn, op, after) AS e").groupBy("id").agg(max("e").alias("e"))
    kept = spark.read.parquet(base).join(last.select("id"), "id", "left_anti").select("id", "k", "s", "d")
    new = last.where("e.op <> 'd'").select("e.after.*")
    kept.unionByName(new).write.parquet(made)

stream = spark.readStream.schema(schema).json(events)
stream.writeStream.foreachBatch(rewrite).trigger(availableNow=True).start().awaitTermination()
"""


def measure() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        base, events, made = folder / "base", folder / "events", folder / "made"
        events.mkdir()
        make_rows(base)
        ready(folder, base)  # before there are files: the shell would apply them
        make_events(events)
        ours = process(["-m", "pgrepl", "apply", "-d", "sub"], folder)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        theirs = process(["-c", SPARK, str(base), str(events), str(made)], folder)
        _compare(folder, made)
        size = sum(file.stat().st_size for file in events.iterdir()) >> 20
        what = f"{EVENTS:,} Debezium events ({size:,} MB) on {ROWS:,} rows"
        yield faster(what, ours, theirs, "Spark's JSON and join", 3)
        yield f"{what}: a process's memory", f"{memory:,} MB", "", "1,500 MB", memory <= 1500


def make_rows(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    for low in range(0, ROWS, OF_A_FILE):
        id = np.arange(low, min(low + OF_A_FILE, ROWS), dtype=np.int64)
        s = [f"value {number}" for number in id]
        table = pa.table({"id": id, "k": (id % 1000).astype(np.int32), "s": s, "d": id * 0.5})
        parquet.write_table(table, folder / f"{low:010}.parquet")


def make_events(folder: Path) -> None:
    """Of a hundred events 45 update, 10 delete and 45 insert."""
    for low in range(0, EVENTS, OF_A_FILE):
        with open(folder / f"{low:010}.json", "w", encoding="utf-8") as file:
            for number in range(low, min(low + OF_A_FILE, EVENTS)):
                file.write(_event(number))


def _event(number: int) -> str:
    source = {**SOURCE, "txId": 1000 + number // OF_A_TRANSACTION, "lsn": 10_000_000 + number * 64}
    kind, old = number % 100, number * 2
    before = after = None
    if kind < 55:
        before = {"id": old, "k": old % 1000, "s": f"value {old}", "d": old * 0.5}
        if kind < 45:
            after = {**before, "k": old % 1000 + 1, "s": f"changed {old}"}
    else:
        after = {"id": ROWS + number, "k": number % 1000, "s": f"new {number}", "d": number * 0.5}
    op = "c" if before is None else "d" if after is None else "u"
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1767225600123}) + "\n"


def ready(folder: Path, base: Path, files: str = "events", more: str = "") -> None:
    table = f"CREATE TABLE t {TABLE};"
    script = f"""
CREATE DATABASE pub; CREATE DATABASE sub;
\\c pub
{table} CREATE PUBLICATION p FOR TABLE t;
\\c sub
{table} COPY t FROM '{base}' (FORMAT parquet);
CREATE SUBSCRIPTION s CONNECTION 'files={files} format=debezium dbname=pub' PUBLICATION p WITH (copy_data = false);
{more}
"""
    process(["-m", "pgrepl", "-X", "-q", "-v", "ON_ERROR_STOP=1"], folder, script)


def _compare(folder: Path, made: Path) -> None:
    """Both tables have the same rows."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    found = ds.dataset(made).to_table(columns=["id", "k"])
    theirs = (found.num_rows, *(pc.sum(found[name].cast("int64")).as_py() for name in ("id", "k")))
    query = "SELECT count(*), sum(id), sum(k) FROM t"
    command = [sys.executable, "-m", "pgrepl", "-XAt", "-d", "sub", "-c", query]
    said = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True).stdout
    assert said.strip() == "|".join(map(str, theirs)), (said, theirs)


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for line in measure():
        print(*line, sep=" | ")
