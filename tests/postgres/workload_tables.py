"""Random tables for replication: as the publisher has them, and as the subscriber has them otherwise.

The subscriber's columns may stand in another order, be of other types, be more or fewer; its keys may be others; what
is partitioned at one side may be plain at the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

VALUES = {
    "int": ["0", "1", "2", "3", "5", "8", "13", "19", "21", "34", "45", "-2", "NULL"],
    "bigint": ["1", "7", "9000000000", "NULL"],
    "text": ["'x'", "'y'", "'z'", "''", "'it''s'", "'longer text'", "'ü'", "NULL"],
    "varchar(8)": ["'x'", "'y'", "'abc  '", "'eightchr'", "NULL"],
    "char(5)": ["'ab'", "'x'", "'abcde'", "NULL"],
    "numeric(8,2)": ["1.5", "5", "0.004", "-3.25", "NULL"],
    "numeric": ["1.50", "5.00", "1e20", "'NaN'", "NULL"],
    "bool": ["true", "false", "NULL"],
    "date": ["'2024-02-29'", "'infinity'", "'0044-03-15 BC'", "NULL"],
    "timestamp": ["'2024-02-29 12:00:00.5'", "'infinity'", "NULL"],
    "timestamptz": ["'2024-02-29 12:00:00+02'", "NULL"],
    "double precision": ["0.1", "1e300", "'-0'", "'NaN'", "NULL"],
    "bytea": ["'\\x00ff'", "'abc'", "NULL"],
    "int[]": ["'{1,2}'", "'{}'", "'{NULL}'", "NULL"],
    "jsonb": ["'{\"a\": 1}'", "'null'", "NULL"],
    "interval": ["'1 day 02:03'", "'-1 mon'", "NULL"],
}  # fmt: skip
OTHERWISE = {  # what a subscriber may have instead; the last is one that some values do not fit
    "int": ["bigint", "numeric", "text", "double precision", "smallint"],
    "bigint": ["numeric", "text", "int"],
    "text": ["varchar(30)", "varchar(4)"],
    "varchar(8)": ["text", "varchar(20)", "char(8)"],
    "char(5)": ["text", "varchar(10)", "char(3)"],
    "numeric(8,2)": ["numeric", "text", "numeric(10,1)", "double precision", "int"],
    "numeric": ["text", "numeric(30,4)"],
    "bool": ["text", "varchar(1)"],
    "date": ["text", "timestamp"],
    "timestamp": ["text", "timestamptz", "date"],
    "timestamptz": ["text", "timestamp"],
    "double precision": ["text", "numeric"],
    "bytea": ["text"],
    "int[]": ["text", "bigint[]"],
    "jsonb": ["text", "json"],
    "interval": ["text"],
}  # fmt: skip

KEYS = ["text", "bigint", "varchar(8)", "date", "numeric(8,2)"]  # what the second column of a key may be


@dataclass(eq=False)
class Table:
    """A table that both sides have under one name."""

    name: str
    columns: dict[str, str]  # of the publisher: name and type
    key: tuple[str, ...]  # what identifies a row at the publisher; empty: the whole row, or nothing
    here: dict[str, str] = field(default_factory=dict)  # of the subscriber
    leaves: tuple[str, ...] = ()
    publisher: list[str] = field(default_factory=list)  # DDL
    subscriber: list[str] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.leaves)


def value(chance: Random, kind: str) -> str:
    """A constant of a type; types that only subscribers have take what fits them."""
    known = VALUES.get(kind)
    if known is None:
        base = kind.partition("(")[0]
        known = {"varchar": ["'x'", "'q'"], "char": ["'x'"], "json": ["'1'"], "bigint[]": ["'{3}'"]}.get(
            base, ["1", "4"]
        )
    return chance.choice(known)


def key_value(chance: Random, kind: str) -> str:
    return next(v for v in iter(lambda: value(chance, kind), None) if v != "NULL")


def plain_table(chance: Random, name: str) -> Table:
    kinds = chance.sample(sorted(set(VALUES) - {"int"}), chance.randint(1, 3))
    if chance.random() < 0.6 and "text" not in kinds:
        kinds[0] = "text"
    columns = {"a": "int", **dict(zip("bcd", kinds, strict=False))}
    style = chance.choice(["a", "a", "a", "a", "ab", "index", "full", "full", "a full", "none", "nothing"])
    if style in ("ab", "index") and columns["b"] not in KEYS:
        columns["b"] = "text"
    key = {"a": ("a",), "ab": ("a", "b"), "index": ("b",), "a full": ("a",)}.get(style, ())
    table = Table(name, columns, key)
    lines = [f"{n} {kind}{' NOT NULL' if n in key else ''}" for n, kind in columns.items()]
    if chance.random() < 0.12:
        lines.insert(1, "g int GENERATED ALWAYS AS (a + 1) STORED")
    if style in ("a", "ab", "a full"):
        lines.append(f"PRIMARY KEY ({', '.join(key)})")
    table.publisher = [f"CREATE TABLE {name} ({', '.join(lines)})", *_identity(name, style)]
    table.here, table.subscriber = _elsewhere(chance, table, style)
    return table


def _identity(name: str, style: str) -> list[str]:
    index = name.replace(".", "_") + "_by_b"
    return {
        "index": [
            f"CREATE UNIQUE INDEX {index} ON {name} (b)",
            f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX {index}",
        ],
        "full": [f"ALTER TABLE {name} REPLICA IDENTITY FULL"],
        "a full": [f"ALTER TABLE {name} REPLICA IDENTITY FULL"],
        "nothing": [f"ALTER TABLE {name} REPLICA IDENTITY NOTHING"],
    }.get(style, [])


def _elsewhere(chance: Random, table: Table, style: str) -> tuple[dict[str, str], list[str]]:
    """How the subscriber has a plain table."""
    columns = dict(table.columns)
    for name, kind in columns.items():
        if chance.random() < 0.2:
            *fitting, narrow = OTHERWISE[kind]
            columns[name] = narrow if not fitting or chance.random() < 0.2 else chance.choice(fitting)
    if chance.random() < 0.03:
        columns.pop(chance.choice(sorted(set(columns) - {"a"})))
    names = list(columns)
    if chance.random() < 0.3:
        chance.shuffle(names)
    key = table.key
    if chance.random() < 0.12:
        key = chance.choice([(), ("a",), ("a",), *([("b",)] if "b" in columns else [])])
    if not set(key) <= set(columns) or any(columns[n] in ("jsonb", "json") for n in key):
        key = ()
    lines = [f"{n} {columns[n]}{' NOT NULL' if n in key and style == 'index' else ''}" for n in names]
    if chance.random() < 0.3:
        extra = chance.choice(
            ["extra int DEFAULT 7", "extra text DEFAULT 'hr'", "extra text", "g int GENERATED ALWAYS AS (7) STORED"]
            + (["extra int NOT NULL"] if chance.random() < 0.2 else [])
        )
        lines.insert(chance.randrange(len(lines) + 1), extra)
    if chance.random() < 0.1:
        lines.append(
            chance.choice(["CHECK (a <> 13)", "UNIQUE (b)"]) if columns["a"] != "text" else "CHECK (a <> '13')"
        )
        if lines[-1] == "UNIQUE (b)" and columns.get("b", "jsonb") in ("jsonb", "json"):
            lines.pop()
    partitioned = style != "index" and chance.random() < 0.08 and not any("UNIQUE" in line for line in lines)
    if key and style != "index" and (not partitioned or "a" in key):
        lines.append(f"PRIMARY KEY ({', '.join(key)})")
    name = table.name
    if partitioned:
        parts = [
            f"CREATE TABLE {name}_h{n} PARTITION OF {name} FOR VALUES WITH (MODULUS 2, REMAINDER {n})" for n in (0, 1)
        ]
        return columns, [f"CREATE TABLE {name} ({', '.join(lines)}) PARTITION BY HASH (a)", *parts]
    made = [f"CREATE TABLE {name} ({', '.join(lines)})"]
    if style == "index" and "b" in key and "b" in columns:
        made += _identity(name, style)
    return columns, made


BOUNDS = {"1": "FROM (0) TO (10)", "2": "FROM (10) TO (25)", "d": "DEFAULT"}


def partitioned_table(chance: Random, name: str) -> Table:
    columns = {"a": "int", "b": "text"}
    if chance.random() < 0.5:
        columns["c"] = chance.choice(["numeric(8,2)", "bool", "bigint"])
    full = chance.random() < 0.3
    key = () if full and chance.random() < 0.6 else ("a",)
    parts = ["1", "2", *(["d"] if chance.random() < 0.6 else [])]
    table = Table(name, columns, key, dict(columns), tuple([name + part for part in parts]))
    reordered = chance.choice([None, None, *parts])
    table.publisher = _partitioned(name, columns, key, parts, reordered)
    if full:
        table.publisher += [f"ALTER TABLE {n} REPLICA IDENTITY FULL" for n in table.names]
    shape = chance.choice(["same", "same", "same", "same", "plain", "plain", "hash"])
    if shape == "same":
        reordered = chance.choice([None, None, *parts])
        table.subscriber = _partitioned(name, columns, key, parts, reordered)
        return table
    body = _body(columns, key)
    alone = [f"CREATE TABLE {leaf} ({body})" for leaf in table.leaves]
    if shape == "plain":
        table.subscriber = [f"CREATE TABLE {name} ({body})", *alone]
        return table
    hashed = [f"CREATE TABLE {name}h{n} PARTITION OF {name} FOR VALUES WITH (MODULUS 2, REMAINDER {n})" for n in (0, 1)]
    table.subscriber = [f"CREATE TABLE {name} ({body}) PARTITION BY HASH (a)", *hashed, *alone]
    return table


def _body(columns: dict[str, str], key: tuple[str, ...]) -> str:
    lines = [f"{name} {kind}{' NOT NULL' if name in key else ''}" for name, kind in columns.items()]
    return ", ".join([*lines, *([f"PRIMARY KEY ({', '.join(key)})"] if key else [])])


def _partitioned(
    name: str, columns: dict[str, str], key: tuple[str, ...], parts: list[str], reordered: str | None
) -> list[str]:
    made = [f"CREATE TABLE {name} ({_body(columns, key)}) PARTITION BY RANGE (a)"]
    for part in parts:
        bound = BOUNDS[part] if part == "d" else f"FOR VALUES {BOUNDS[part]}"
        if part != reordered:
            made.append(f"CREATE TABLE {name}{part} PARTITION OF {name} {bound}")
            continue
        turned = _body(dict(reversed(columns.items())), ())
        if key:
            turned = turned.replace("a int", "a int NOT NULL")
        made.append(f"CREATE TABLE {name}{part} (gone int, {turned})")
        made.append(f"ALTER TABLE {name}{part} DROP COLUMN gone")
        made.append(f"ALTER TABLE {name} ATTACH PARTITION {name}{part} {bound}")
    return made
