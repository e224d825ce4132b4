"""Databases of servers and lakes in a row, each of which subscribes to the one before, and a random workload for the
first. A publication's rows are those of the table before it that its filter lets through, so each is compared with
the next; no local rows are written between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from tests.harness.forked import pgrepl
from tests.harness.serving import Serving
from tests.postgres.server import Server
from tests.postgres.workload_tables import VALUES, value

PATIENCE = 120.0
SETTINGS = """
max_logical_replication_workers = 12
max_worker_processes = 30
max_replication_slots = 30
max_wal_senders = 30
max_prepared_transactions = 10
wal_retrieve_retry_interval = 100ms
wal_writer_delay = 10ms
synchronous_commit = on
autovacuum = off
log_min_messages = warning
"""
KEYS = {
    "serial": "id serial PRIMARY KEY",
    "bigserial": "id bigserial PRIMARY KEY",
    "identity": "id int GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT 3) PRIMARY KEY",
    "text": "id text PRIMARY KEY",
    "none": "id int",
}
FILTERS = {"text": ["id <> 'k3'", "id > 'k5'"], "": ["id > 4", "id % 2 = 0", "id < 6 OR id > 20"]}
GENERATED = ["length(b) + 1", "CASE WHEN b > 'x' THEN 1 END", "coalesce(length(b), -1) * 2"]


@dataclass
class Node:
    """A database in the row. `release`: of a server, 0 for a lake."""

    release: int
    name: str
    conninfo: str
    link: psycopg.Connection[Any]
    folder: Path

    def __call__(self, text: str) -> list[tuple[str | None, ...]]:
        """The rows of a statement, as text; none of it is taken for parameters."""
        with self.link.cursor() as cursor:
            cursor.execute(text.encode())
            found = cursor.pgresult
            assert found is not None
            rows = [[found.get_value(r, c) for c in range(found.nfields)] for r in range(found.ntuples)]
        return [tuple([None if v is None else bytes(v).decode() for v in row]) for row in rows]


@dataclass(eq=False)
class Table:
    name: str
    key: str
    columns: dict[str, str]  # without the key
    generated: str | None = None  # the expression of column g
    virtual: bool = False  # has it a virtual column v?
    leaves: tuple[str, ...] = ()

    @property
    def sequence(self) -> str | None:
        return None if self.key in ("text", "none") else f"{self.name}_id_seq"

    def ddl(self, node: Node, g: str | None) -> Iterator[str]:
        """`g`: how the column that the source generates stands here."""
        lines = [KEYS[self.key], *(f"{name} {kind}" for name, kind in self.columns.items())]
        if g is not None:
            lines.append(f"g int{g}")
        if self.virtual and node.release != 16:
            lines.append("v int GENERATED ALWAYS AS (coalesce(length(b), 0) * 3) VIRTUAL")
        tail = " PARTITION BY RANGE (id)" if self.leaves else ""
        yield f"CREATE TABLE {self.name} ({', '.join(lines)}){tail}"
        for leaf, bounds in zip(self.leaves, ("FROM (MINVALUE) TO (8)", "FROM (8) TO (MAXVALUE)"), strict=False):
            yield f"CREATE TABLE {leaf} PARTITION OF {self.name} FOR VALUES {bounds}"
        if self.key == "none":
            yield f"ALTER TABLE {self.name} REPLICA IDENTITY FULL"


@dataclass
class Link:
    """One publication and its subscription."""

    source: Node
    target: Node
    filters: dict[str, str] = field(default_factory=dict)  # of tables
    lists: dict[str, list[str]] = field(default_factory=dict)
    out: set[str] = field(default_factory=set)  # tables that are not published
    generated: bool = False
    whole: bool = False  # FOR ALL TABLES?
    follows_sequences: bool = False
    all_sequences: bool = False
    apart: bool = False  # is its slot made and dropped by hand?


class Chain:
    """A row of nodes, tables in them, links between them."""

    def __init__(self, nodes: list[Node], chance: Random) -> None:
        self.nodes, self.chance = nodes, chance
        self.links = [Link(source, target) for source, target in pairwise(nodes)]
        self.tables: list[Table] = []
        self.via_root = chance.random() < 0.5  # of all, as a partition's TRUNCATE is not sent as its root's
        self.stays = chance.random() < 0.4  # whether nothing is defined later
        self.sequences = ["q1", "q2"]
        self.played: list[str] = []
        self.added = 0  # columns

    @property
    def source(self) -> Node:
        return self.nodes[0]

    def say(self, node: Node, text: str) -> None:
        self.played.append(f"{node.name}: {text}")
        node(text)

    def try_to(self, text: str) -> None:
        """A statement at the source, which may violate a key."""
        try:
            self.say(self.source, text)
        except (psycopg.errors.IntegrityError, psycopg.errors.InFailedSqlTransaction):
            self.played.append("-- failed")

    # --- definitions --------------------------------------------------------------------------------------------------

    def define(self) -> None:
        chance = self.chance
        for link in self.links:
            # an older subscriber leaves them out of its copy
            link.generated = 16 not in (link.source.release, link.target.release) and chance.random() < 0.7
            link.whole = chance.random() < (0.7 if not link.source.release else 0.5)
            if link.generated and not link.source.release:  # subscribers copy them from 18
                self.say(link.source, f"ALTER DATABASE {link.source.name} SET pgrepl.postgres_version = 18")
        for number in range(chance.randint(2, 3)):
            self.tables.append(self.table(f"t{number}"))
        for node in self.nodes:
            self.say(node, "CREATE SEQUENCE q1 AS int INCREMENT -3 MAXVALUE 50 MINVALUE -1000 CYCLE")
            self.say(node, "CREATE SEQUENCE q2 START 1000 CACHE 1")
        for table in self.tables:
            self.create(table)
        for link in self.links:
            self.choose(link)
        for _ in range(chance.randint(0, 12)):
            self.change()
        for number, link in enumerate(self.links):
            self.connect(link, number)

    def table(self, name: str) -> Table:
        chance = self.chance
        columns = {"b": "text"}
        others = [kind for kind in VALUES if kind not in ("text", "numeric(8,2)")]
        columns |= dict(zip("cde", chance.sample(others, chance.randint(1, 3)), strict=False))
        made = Table(name, chance.choice([*KEYS, "serial"]), columns)
        if self.source.release != 16 and made.key != "none" and chance.random() < 0.6:
            made.generated = chance.choice(GENERATED)
            made.virtual = chance.random() < 0.5
        elif made.key == "serial" and chance.random() < 0.5:
            made.leaves = (f"{name}_low", f"{name}_high")
        return made

    def create(self, table: Table) -> None:
        g = f" GENERATED ALWAYS AS ({table.generated}) STORED"
        for node, link in zip(self.nodes, [None, *self.links], strict=True):
            if link is not None and link.generated:
                g = ""  # and a plain one is published ever after
            for text in table.ddl(node, g if table.generated else None):
                self.say(node, text)

    def columns(self, table: Table, link: Link) -> list[str]:
        """What arrives, and what the target computes alike."""
        return ["id", *link.lists.get(table.name, table.columns), *(["g"] if table.generated else [])]

    def choose(self, link: Link) -> None:
        """What a publication has."""
        chance = self.chance
        for table in self.tables:
            if chance.random() < 0.15 and not (link.whole and link.source.release):
                link.out.add(table.name)
            if link.whole or table.leaves:
                continue
            if chance.random() < 0.4:
                kinds = FILTERS.get(table.key, FILTERS[""])
                link.filters[table.name] = chance.choice(kinds)
            if chance.random() < 0.3 and table.key != "none" and not table.generated:
                link.lists[table.name] = ["b", *(c for c in list(table.columns)[1:] if chance.random() < 0.5)]
        if not link.whole and len(link.out) == len(self.tables):
            link.out.clear()

    def objects(self, link: Link) -> str:
        if link.whole:
            # a server has no EXCEPT; what a subscriber has not is not let out, either
            hidden = ", ".join(sorted(link.out))
            text = "ALL TABLES" + (f" EXCEPT (TABLE {hidden})" if hidden else "")
            return text + (", ALL SEQUENCES" if link.all_sequences else "")
        return "TABLE " + ", ".join(
            t.name
            + (f" (id, {', '.join(link.lists[t.name])})" if t.name in link.lists else "")
            + (f" WHERE ({link.filters[t.name]})" if t.name in link.filters else "")
            for t in self.tables
            if t.name not in link.out
        )

    def connect(self, link: Link, number: int) -> None:
        chance = self.chance
        if not link.target.release:
            link.all_sequences = link.whole and not link.source.release and chance.random() < 0.7
            link.follows_sequences = not link.all_sequences
        options = ["publish_generated_columns = stored"] if link.generated else []
        if self.via_root:
            options.append("publish_via_partition_root")
        tail = f" WITH ({', '.join(options)})" if options else ""
        self.say(link.source, f"CREATE PUBLICATION p{number} FOR {self.objects(link)}{tail}")
        slot = f"{link.source.name}_{number}"
        options = [f"slot_name = {slot}", f"streaming = {chance.choice(['off', 'on', 'parallel'])}"]
        wanted = [("binary", 0.3), ("run_as_owner", 0.2)]
        if self.stays:  # with two_phase no table can be copied later
            wanted.append(("two_phase", 0.6))
        if not link.target.release:
            wanted.append(("conflict_log = on", 0.2))
            if not self.links[number + 1 :] or not self.links[number + 1].whole:  # ALL TABLES would have it, too
                wanted += [(f"history = {chance.choice(['changes', 'versions'])}", 0.2)]
        options += [text for text, likely in wanted if chance.random() < likely]
        if link.follows_sequences:
            options.append("sequences = on")
        where = link.source.conninfo
        if not (link.source.release or link.target.release):  # databases of one instance
            if chance.random() < 0.5:
                where = f"host=localhost dbname={link.source.name}"
            else:  # by the server, which would wait for itself
                self.say(link.source, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
                link.apart = True
                options = [each for each in options if each != "two_phase"] + ["create_slot = false"]
        self.say(
            link.target,
            f"CREATE SUBSCRIPTION s{number} CONNECTION '{where}' PUBLICATION p{number} WITH ({', '.join(options)})",
        )

    # --- changes ------------------------------------------------------------------------------------------------------

    def change(self) -> None:
        chance = self.chance
        roll = chance.random()
        if roll < 0.75:
            self.try_to(self.statement())
        elif roll < 0.85:
            self.try_to(f"SELECT nextval('{chance.choice(self.sequences)}') FROM generate_series(1, 3)")
        elif roll < 0.88:
            self.try_to(f"SELECT setval('q2', {chance.randint(1, 5000)}, {chance.choice(['true', 'false'])})")
        else:
            self.try_to("BEGIN")
            for number in range(chance.randint(1, 4)):
                if chance.random() < 0.3:
                    self.try_to(f"SAVEPOINT p{number}")
                self.try_to(self.statement())
                if chance.random() < 0.1 and self.played[-1] != "-- failed":
                    self.try_to(f"SAVEPOINT late; {self.statement()}; ROLLBACK TO late")
            self.try_to(chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))

    def statement(self) -> str:
        chance = self.chance
        table = chance.choice(self.tables)
        roll = chance.random()
        number = chance.randint(1, 25)
        if table.key == "text":
            where, move = f"id > 'k{number}'", f"id = id || '{number}'"
        else:
            where, move = chance.choice([f"id % 3 = {number % 3}", f"id > {number}"]), "id = -id"
        if roll < 0.5:
            return self.insert(table)
        if roll < 0.78:
            name = chance.choice(list(table.columns))
            changed = f"{name} = {value(chance, table.columns[name])}"
            if chance.random() < 0.2 and table.key != "identity":
                changed += f", {move}"
            return f"UPDATE {table.name} SET {changed} WHERE {where}"
        if roll < 0.95:
            return f"DELETE FROM {table.name} WHERE {where}"
        return f"TRUNCATE {table.name}{chance.choice(['', '', ' RESTART IDENTITY'])}"

    def insert(self, table: Table) -> str:
        chance = self.chance
        names = list(table.columns)
        rows = []
        for _ in range(chance.randint(1, 5)):
            values = [value(chance, table.columns[name]) for name in names]
            if table.key == "text":
                values.insert(0, f"'k{chance.randint(0, 9)}{chance.choice('abc')}'")
            elif table.key == "none":
                values.insert(0, str(chance.randint(0, 9)))
            rows.append(f"({', '.join(values)})")
        if table.sequence is None:
            names.insert(0, "id")
        if chance.random() < 0.1 and table.sequence:
            rest = "".join(f", {value(chance, table.columns[name])}" for name in names[1:])
            return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT 'n' || n{rest} FROM generate_series(1, 40) n"
        return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join(rows)}"

    def redefine(self) -> None:
        """A new table or column, another list of exceptions, while nothing is under way."""
        chance = self.chance
        kind = chance.choice(["table", "column", "except", "except"])
        if kind == "column":
            table = chance.choice(self.tables)
            self.added += 1  # a column that a list leaves out is in no table's columns
            name = f"z{self.added}"
            default = chance.choice([7, "NULL"])
            for node in reversed(self.nodes):
                self.say(node, f"ALTER TABLE {table.name} ADD {name} int DEFAULT {default}")
            if table.name not in {name for link in self.links for name in link.lists}:
                table.columns[name] = "int"
            return
        if kind == "table":
            made = self.table(f"t{len(self.tables)}")
            self.tables.append(made)
            self.create(made)
            for link in self.links:
                if not link.whole and chance.random() < 0.2:
                    link.out.add(made.name)
        for number, link in enumerate(self.links):
            if kind == "except" and not (link.whole and link.source.release):
                self.turn(link)
            if not (link.whole and link.source.release):
                self.say(link.source, f"ALTER PUBLICATION p{number} SET {self.objects(link)}")
            self.say(link.target, f"ALTER SUBSCRIPTION s{number} REFRESH PUBLICATION")
            self.settle()

    def turn(self, link: Link) -> None:
        """A table goes out of a publication or comes into it; where it comes, it is copied into an empty one."""
        name = self.chance.choice(self.tables).name
        if name not in link.out:
            if len(link.out) + 1 < len(self.tables):
                link.out.add(name)
            return
        link.out.remove(name)
        self.say(link.target, f"TRUNCATE {name}")

    # --- comparing ----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Each node has what the one before it publishes."""
        for number, link in enumerate(self.links):
            if link.all_sequences:
                self.say(link.target, f"ALTER SUBSCRIPTION s{number} REFRESH SEQUENCES")
            for text_there, text_here in self.questions(link):
                self.same(link, text_there, text_here)
            self.same(link, "SELECT WHERE false", "SELECT srrelid FROM pg_subscription_rel WHERE srsubstate <> 'r'")

    def questions(self, link: Link) -> Iterator[tuple[str, str]]:
        for table in self.tables:
            if table.name in link.out:
                continue
            columns = ", ".join(self.columns(table, link))
            where = f" WHERE {link.filters[table.name]}" if table.name in link.filters else ""
            yield f"SELECT {columns} FROM {table.name}{where}", f"SELECT {columns} FROM {table.name}"
        if link.follows_sequences or link.all_sequences:
            yield (self.values(),) * 2

    def values(self) -> str:
        names = [*self.sequences, *(t.sequence for t in self.tables if t.sequence)]
        return " UNION ALL ".join(f"SELECT '{name}', last_value, is_called FROM {name}" for name in names)

    def same(self, link: Link, there: str, here: str) -> None:
        wanted = sorted(link.source(there), key=repr)
        until = time.monotonic() + PATIENCE
        while (found := sorted(link.target(here), key=repr)) != wanted:
            assert time.monotonic() < until, f"{here}: {link.target.name} has\n{found}\nwanted\n{wanted}"
            time.sleep(0.1)

    # --- the end ------------------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        """The last one goes on counting behind the lake that it has followed."""
        lake, last = self.links[-1].source, self.links[-1].target
        self.drop(len(self.links) - 1)
        values = pgrepl("dump", "--catalog", str(lake.folder / "catalog.db"), "-d", lake.name, "--sequence-data").stdout
        last.link.execute(values.encode())
        assert last(self.values()) == lake(self.values()), self.played
        for table in self.tables:
            if table.sequence and not any(table.name in link.out for link in self.links):
                for _ in range(3):  # no key is there already
                    self.say(last, f"INSERT INTO {table.name} (b) VALUES ('here')")

    def drop(self, number: int) -> None:
        link = self.links[number]
        if link.apart:
            self.say(link.target, f"ALTER SUBSCRIPTION s{number} DISABLE")
            self.say(link.target, f"ALTER SUBSCRIPTION s{number} SET (slot_name = NONE)")
        self.say(link.target, f"DROP SUBSCRIPTION s{number}")


def new_node(place: Server | Serving, name: str, release: int) -> Node:
    host = place.host if isinstance(place, Server) else "127.0.0.1"
    conninfo = f"host={host} port={place.port} user=postgres dbname="
    with psycopg.connect(conninfo + "postgres", autocommit=True) as link:
        link.execute(f"CREATE DATABASE {name}".encode())
    link = psycopg.connect(conninfo + name, autocommit=True, prepare_threshold=None)
    return Node(release, name, conninfo + name, link, Path(place.folder))
