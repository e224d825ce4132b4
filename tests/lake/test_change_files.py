"""Files of changes in an object store."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.harness.pair import Pair


def test_files_of_changes_in_an_s3(tmp_path: Path, bucket: Any) -> None:
    pair = Pair(tmp_path)
    try:
        pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
        pair.pub("CREATE PUBLICATION p FOR TABLE t")
        bucket.put("landing/2024/1.json", _line(1))
        bucket.put("landing/2024/2.json.gz", gzip.compress(_line(2)))
        bucket.put("landing/other.txt", b"no change")
        pair.sub.subscribe("p", "files=s3://lake-bucket/landing/**/*.json* format=jsonl dbname=pub")
        assert pair.catch_up() == []
        bucket.put("landing/2024/3.json", _line(3))
        assert pair.catch_up() == []
        assert pair.sub("SELECT a FROM t ORDER BY a") == [("1",), ("2",), ("3",)]
        bucket.delete("landing/2024/1.json")
        ((message, _, _),) = pair.catch_up()
        assert 'file "2024/1.json" has disappeared after it was read' in message
    finally:
        pair.close()


def _line(a: int) -> bytes:
    return json.dumps({"op": "insert", "table": "t", "new": {"a": str(a), "b": "x"}}).encode() + b"\n"
