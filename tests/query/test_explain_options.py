"""EXPLAIN's options: what they print, what is refused, and the names that JSON, YAML and XML use."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.harness.played import Instance

NO_BUFFERS = [
    *(f"{kind} {what} Blocks" for kind in ("Shared", "Local") for what in ("Hit", "Read", "Dirtied", "Written")),
    *("Temp Read Blocks", "Temp Written Blocks"),
]
READ = ["Engine", "Engine Reason", "Rows to Read", "Bytes to Read", "Files", "Inlined Rows"]


@pytest.fixture
def filled(instance: Instance) -> Instance:
    instance.play("pub", "CREATE TABLE t (a int, b text)", "CREATE SCHEMA s", "CREATE TABLE s.u (c int)")
    instance.play("pub", "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 50) g")
    return instance


def explained(instance: Instance, options: str, query: str) -> list[str]:
    return instance.play("pub", f"EXPLAIN ({options}) {query}")


def as_json(instance: Instance, options: str, query: str) -> dict[str, Any]:
    (text,) = explained(instance, f"{options}, FORMAT JSON", query)
    (found,) = json.loads(text)
    assert isinstance(found, dict)
    return found


def named(plan: dict[str, Any]) -> list[Any]:
    """A node's names, and those of the nodes below it."""
    names = {key: value for key, value in plan.items() if key not in (*READ, "Plans", "Hash Cond", "Filter")}
    return [names, *[named(below) for below in plan.get("Plans", ())]]


# as PostgreSQL 18 answers
REFUSED = {
    "WAL": "ERROR:  EXPLAIN option WAL requires ANALYZE",
    "TIMING": "ERROR:  EXPLAIN option TIMING requires ANALYZE",
    "SERIALIZE": "ERROR:  EXPLAIN option SERIALIZE requires ANALYZE",
    "WAL, TIMING, SERIALIZE": "ERROR:  EXPLAIN option WAL requires ANALYZE",
    "GENERIC_PLAN, ANALYZE": "ERROR:  EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together",
    "SERIALIZE foo, ANALYZE": 'ERROR:  unrecognized value for EXPLAIN option "serialize": "foo"',
    "SERIALIZE 1, ANALYZE": 'ERROR:  unrecognized value for EXPLAIN option "serialize": "1"',
    "BUFFERS 3": "ERROR:  buffers requires a Boolean value",
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_do_not_go_together_are_refused(filled: Instance, options: str) -> None:
    (answer,) = explained(filled, options, "SELECT * FROM t")
    assert answer == REFUSED[options]


def test_there_are_no_buffers_and_no_wal(filled: Instance) -> None:
    lines = explained(filled, "ANALYZE, BUFFERS, WAL, TIMING OFF, SUMMARY OFF, COSTS OFF", "SELECT 1")
    assert lines == ["Result (actual rows=1 loops=1)", "  Engine: local (no rows of tables)"]
    found = as_json(filled, "ANALYZE, BUFFERS, WAL, TIMING OFF, SUMMARY OFF, COSTS OFF", "SELECT 1")
    assert found == {
        "Plan": {
            "Node Type": "Result",
            "Actual Rows": 1,
            "Actual Loops": 1,
            "Engine": "local",
            "Engine Reason": "no rows of tables",
            **dict.fromkeys(NO_BUFFERS, 0),
            "WAL Records": 0,
            "WAL FPI": 0,
            "WAL Bytes": 0,
        },
        "Planning": dict.fromkeys(NO_BUFFERS, 0),
        "Triggers": [],
    }


def test_settings_are_those_that_plans_depend_on(filled: Instance) -> None:
    assert "Settings" not in as_json(filled, "SETTINGS", "SELECT 1")
    filled.play("pub", "SET work_mem = '8MB'", "SET enable_seqscan = off", "SET search_path = s, public")
    filled.play("pub", "SET pgrepl.local_rows = 5", "SET application_name = 'x'", "SET enable_hashjoin = on")
    said = "work_mem = '8MB', enable_seqscan = 'off', search_path = 's, public', pgrepl.local_rows = '5'"
    assert explained(filled, "SETTINGS, COSTS OFF", "SELECT 1")[-1] == f"Settings: {said}"
    filled.play("pub", "SET work_mem = '4MB'", "RESET search_path", "RESET pgrepl.local_rows")
    assert as_json(filled, "SETTINGS", "SELECT 1")["Settings"] == {"enable_seqscan": "off"}


def test_memory_of_planning_is_measured(filled: Instance) -> None:
    planning, memory = explained(filled, "MEMORY, COSTS OFF", "SELECT * FROM t JOIN s.u ON a = c")[-2:]
    assert planning == "Planning:"
    used, allocated = map(int, re.fullmatch(r"  Memory: used=(\d+)kB  allocated=(\d+)kB", memory).groups())  # type: ignore[union-attr]
    assert 0 < used <= allocated
    assert list(as_json(filled, "MEMORY", "SELECT 1")["Planning"]) == ["Memory Used", "Memory Allocated"]


def test_serialized_rows_are_counted(filled: Instance) -> None:
    options = "ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF, SERIALIZE"
    assert explained(filled, options, "SELECT * FROM t")[-1] == "Serialization: output=6kB  format=text"
    assert explained(filled, f"{options} BINARY", "SELECT a FROM t")[-1] == "Serialization: output=1kB  format=binary"
    assert as_json(filled, options, "SELECT * FROM t")["Serialization"] == {"Output Volume": 6, "Format": "text"}
    for query, size in (
        ("INSERT INTO t SELECT 51, repeat('y', 3000) RETURNING b", 3),
        ("UPDATE t SET a = a", 0),
        ("CREATE TABLE v AS SELECT 1", 0),
    ):
        for form in ("text", "binary"):
            if query.startswith("CREATE"):
                filled.play("pub", "DROP TABLE IF EXISTS v")
            assert explained(filled, f"{options} {form}", query)[-1] == f"Serialization: output={size}kB  format={form}"
    assert not any(line.startswith("Serial") for line in explained(filled, f"{options} none", "SELECT * FROM t"))


def test_a_generic_plan_has_parameters_without_values(filled: Instance) -> None:
    lines = explained(filled, "GENERIC_PLAN, COSTS OFF", "SELECT a + $3 FROM t WHERE a = $1 AND b = ANY ($2) LIMIT $4")
    assert lines[0] == "Limit"
    assert "        Filter: ((a = $1) AND (b = ANY ($2)))" in lines
    (answer,) = explained(filled, "GENERIC_PLAN", "SELECT * FROM t WHERE $1 IS NULL")
    assert "ERROR:  could not determine data type of parameter $1" in answer
    (answer,) = explained(filled, "COSTS OFF", "SELECT * FROM t WHERE a = $1")
    assert "ERROR:  there is no parameter $1" in answer
    lines = explained(filled, "GENERIC_PLAN, COSTS OFF", "UPDATE t SET a = $2 WHERE b LIKE $1")
    assert "        Filter: (b ~~ $1)" in lines


def test_nodes_have_postgresqls_names_for_their_parts(filled: Instance) -> None:
    scan = {
        "Node Type": "Lake Scan",
        "Parent Relationship": "Outer",
        "Relation Name": "t",
        "Schema": "public",
        "Alias": "x",
    }
    inner = {
        "Node Type": "Lake Scan",
        "Parent Relationship": "Inner",
        "Relation Name": "u",
        "Schema": "s",
        "Alias": "u",
    }
    found = as_json(filled, "VERBOSE, COSTS OFF", "SELECT * FROM t x LEFT JOIN s.u ON a = c")
    assert named(found["Plan"]) == [{"Node Type": "Hash Join", "Join Type": "Left"}, [scan], [inner]]
    del scan["Schema"], inner["Schema"]
    found = as_json(filled, "COSTS OFF", "SELECT * FROM t x, s.u")
    assert named(found["Plan"]) == [{"Node Type": "Nested Loop", "Join Type": "Inner"}, [scan], [inner]]
    found = as_json(filled, "COSTS OFF", "UPDATE s.u y SET c = g FROM generate_series(1, 2) g WHERE c = g")
    top, ((join, *_),) = named(found["Plan"])[0], [named(found["Plan"])[1]]
    assert top == {"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "u", "Alias": "y"}
    assert join == {"Node Type": "Hash Join", "Parent Relationship": "Outer", "Join Type": "Inner"}


def test_other_scans_are_named_too(filled: Instance) -> None:
    query = "WITH c AS (SELECT 1 AS n) SELECT * FROM c, (VALUES (1), (2)) v (m), generate_series(1, 2) g, pg_class k"
    found = as_json(filled, "COSTS OFF", query)
    scans = [
        {"Node Type": "CTE Scan", "Parent Relationship": "Outer", "CTE Name": "c", "Alias": "c"},
        {"Node Type": "Values Scan", "Parent Relationship": "Subquery", "Alias": "*VALUES*"},
        {
            "Node Type": "Function Scan",
            "Parent Relationship": "Inner",
            "Function Name": "generate_series",
            "Alias": "g",
        },
        {"Node Type": "Catalog Scan", "Parent Relationship": "Inner", "Relation Name": "pg_class", "Alias": "k"},
    ]
    text = json.dumps(named(found["Plan"]))
    assert all(json.dumps(scan) in text for scan in scans)
    assert {"Node Type": "Result", "Parent Relationship": "InitPlan", "Subplan Name": "CTE c"} in [
        node for (node, *_) in named(found["Plan"])[1:]
    ]
    found = as_json(filled, "COSTS OFF", "SELECT a, count(*) FROM t GROUP BY a INTERSECT SELECT c, 1 FROM s.u")
    top, *arms = named(found["Plan"])
    assert top == {"Node Type": "SetOp", "Strategy": "Hashed", "Command": "Intersect"}
    assert [arm[0]["Parent Relationship"] for arm in arms] == ["Member", "Member"]
    assert {"Node Type": "Aggregate", "Strategy": "Hashed"}.items() <= found["Plan"]["Plans"][0].items()


def test_yaml_and_xml_use_the_same_names(filled: Instance) -> None:
    (yaml,) = explained(filled, "COSTS OFF, FORMAT YAML", "SELECT * FROM t x")
    assert yaml.splitlines()[:4] == [
        "- Plan: ",
        '    Node Type: "Lake Scan"',
        '    Relation Name: "t"',
        '    Alias: "x"',
    ]
    (xml,) = explained(filled, "COSTS OFF, FORMAT XML", "SELECT * FROM t x")
    assert "      <Relation-Name>t</Relation-Name>\n      <Alias>x</Alias>\n" in xml
