"""Random workloads of replication: publications, subscriptions, changes at both sides, and when to catch up."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.postgres.workload_tables import Table, key_value, partitioned_table, plain_table, value
from tests.postgres.workload_triggers import FUNCTIONS, through_view, triggers

PUBLISH = ("insert", "update", "delete", "truncate")


@dataclass(frozen=True)
class Say:
    """A statement at one side; what it answers is compared."""

    where: str
    text: str


@dataclass(frozen=True)
class CatchUp:
    """Every subscription in turn catches up. `heal`: what is done about an error."""

    heal: str  # skip, advance, clear


@dataclass(frozen=True)
class Subscribe:
    """CREATE SUBSCRIPTION with a slot that was made before, and its initial copy."""

    name: str
    publications: str
    options: str
    heal: str


@dataclass(frozen=True)
class Ask:
    """A statement of the subscriber that needs an enabled subscription; then this one catches up."""

    name: str
    text: str
    heal: str


Step = Say | CatchUp | Subscribe | Ask


def workload(chance: Random, *, with_triggers: bool = False) -> list[Step]:
    return _Author(chance, with_triggers=with_triggers).write()


class _Author:
    def __init__(self, chance: Random, *, with_triggers: bool) -> None:
        self.chance = chance
        self.with_triggers = with_triggers
        self.steps: list[Step] = []
        self.tables = self._tables()
        self.publications: dict[str, str] = {}
        self.subscriptions: list[str] = []

    def write(self) -> list[Step]:
        chance = self.chance
        if any(t.name.startswith("s1.") for t in self.tables):
            self.both("CREATE SCHEMA s1")
        for table in self.tables:
            self.at("pub", *table.publisher)
            self.at("sub", *table.subscriber)
        if self.with_triggers:
            self.both(*FUNCTIONS)
            for table in self.tables:
                for where in ("pub", "sub"):
                    self.at(where, *triggers(chance, table, where))
        for table in self.tables:
            if chance.random() < 0.8:
                self.at("pub", self.insert(table, "pub"))
            if chance.random() < 0.2:
                self.at("sub", self.insert(table, "sub"))
        for number in range(chance.choice([1, 1, 2, 2, 3])):
            self.create_publication(f"p{number + 1}")
        for number in range(chance.choice([1, 1, 1, 2])):
            self.subscribe(f"s{number + 1}")
        for _ in range(chance.randint(2, 5)):
            for _ in range(chance.randint(1, 7)):
                self.something()
            self.steps.append(CatchUp(self.heal()))
            if chance.random() < 0.35:
                self.ask()
        return self.steps

    def at(self, where: str, *texts: str) -> None:
        self.steps += [Say(where, text) for text in texts]

    def both(self, *texts: str) -> None:
        for text in texts:
            self.at("pub", text)
            self.at("sub", text)

    def heal(self) -> str:
        return self.chance.choice(["skip", "skip", "advance", "clear"])

    def _tables(self) -> list[Table]:
        chance = self.chance
        made = [plain_table(chance, f"t{n + 1}") for n in range(chance.randint(1, 2))]
        if chance.random() < 0.45:
            made.append(partitioned_table(chance, "m"))
        if chance.random() < 0.25:
            made.append(plain_table(chance, "s1.t"))
        return made

    # --- publications -------------------------------------------------------------------------------------------------

    def create_publication(self, name: str) -> None:
        chance = self.chance
        kind = chance.choice(["tables", "tables", "tables", "tables", "tables", "all", "schema"])
        objects = {
            "all": "ALL TABLES",
            "schema": "TABLES IN SCHEMA public",
            "tables": f"TABLE {', '.join(self.members())}",
        }[kind]
        text = f"CREATE PUBLICATION {name} FOR {objects}{self.options()}"
        self.publications[name] = text
        self.at("pub", text)

    def options(self) -> str:
        chance, found = self.chance, []
        if chance.random() < 0.35:
            found.append(f"publish = '{self.publish_list()}'")
        if chance.random() < 0.5 and any(t.leaves for t in self.tables):
            found.append("publish_via_partition_root")
        return f" WITH ({', '.join(found)})" if found else ""

    def publish_list(self) -> str:
        listed = self.chance.sample(PUBLISH, self.chance.randint(0, 3))
        return ", ".join(listed)

    def members(self) -> list[str]:
        chance = self.chance
        chosen = chance.sample(self.tables, chance.randint(1, len(self.tables)))
        names = {t: t.name if not t.leaves or chance.random() < 0.75 else chance.choice(t.leaves) for t in chosen}
        return [self.member(table, name) for table, name in names.items()]

    def member(self, table: Table, name: str) -> str:
        chance, text = self.chance, name
        columns = list(table.columns)
        if chance.random() < 0.2:
            kept = [c for c in columns if c in table.key or chance.random() < 0.5]
            if chance.random() < 0.1:
                kept = chance.sample(columns, chance.randint(1, len(columns)))
            text += f" ({', '.join(kept or columns)})"
        if chance.random() < 0.35:
            text += f" WHERE ({self.filter(table)})"
        return text

    def filter(self, table: Table) -> str:
        chance = self.chance
        usable = [c for c in table.key if table.columns[c] in ("int", "text")]
        if not table.key or chance.random() < 0.05:
            usable = [c for c in table.columns if table.columns[c] in ("int", "text")]
        column = chance.choice(usable or ["a"])
        if table.columns.get(column) == "text":
            tests = ["{0} <> 'x'", "{0} > 'm'", "{0} IS NULL", "{0} IN ('x', 'longer text')", "length({0}) < 5"]
        else:
            tests = ["{0} > 8", "{0} < 20", "{0} % 2 = 0", "{0} < 3 OR {0} > 20", "{0} IS NOT NULL", "100 / {0} > 4"]
            tests = tests if chance.random() < 0.2 else tests[:-1]
        return chance.choice(tests).format(column)

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, name: str) -> None:
        chance = self.chance
        chosen = chance.sample(sorted(self.publications), chance.randint(1, len(self.publications)))
        wanted = [("copy_data = false", 0.15), ("run_as_owner", 0.15), ("origin = none", 0.1)]
        options = ", ".join(text for text, likely in wanted if chance.random() < likely)
        self.subscriptions.append(name)
        self.steps.append(Subscribe(name, ", ".join(chosen), options, self.heal()))

    def ask(self) -> None:
        chance = self.chance
        name = chance.choice(self.subscriptions)
        copy = chance.choice(["", "", " WITH (copy_data = false)", " WITH (copy_data = true)"])
        publication = chance.choice([*self.publications, "p9"] if chance.random() < 0.1 else sorted(self.publications))
        asked = chance.choice(
            [
                f"REFRESH PUBLICATION{copy}",
                f"REFRESH PUBLICATION{copy}",
                f"SET PUBLICATION {publication}{copy}",
                f"ADD PUBLICATION {publication}{copy}",
                f"DROP PUBLICATION {publication}{copy}",
            ]
        )
        self.steps.append(Ask(name, f"ALTER SUBSCRIPTION {name} {asked}", self.heal()))

    # --- changes ------------------------------------------------------------------------------------------------------

    def something(self) -> None:
        chance = self.chance
        kind = chance.random()
        if kind < 0.45:
            self.at("pub", self.change(chance.choice(self.tables), "pub"))
        elif kind < 0.68:
            self.transaction()
        elif kind < 0.82:
            self.at("sub", self.change(chance.choice(self.tables), "sub"))
        elif kind < 0.92:
            self.alter_publication()
        else:
            self.alter_tables()

    def transaction(self) -> None:
        chance = self.chance
        self.at("pub", "BEGIN")
        for _ in range(chance.randint(2, 5)):
            if chance.random() < 0.1:
                self.alter_publication()
            else:
                self.at("pub", self.change(chance.choice(self.tables), "pub"))
        self.at("pub", chance.choice(["COMMIT", "COMMIT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))

    def change(self, table: Table, where: str) -> str:
        kind = self.chance.random()
        if self.with_triggers and where == "pub" and kind < 0.1:
            return through_view(self.chance, table, self.where(table, where))
        if kind < 0.42:
            return self.insert(table, where)
        if kind < 0.74:
            return self.update(table, where)
        if kind < 0.92:
            return f"DELETE FROM {self.named(table)}{self.where(table, where)}"
        return self.truncate(table)

    def named(self, table: Table) -> str:
        return self.chance.choice(table.leaves) if table.leaves and self.chance.random() < 0.1 else table.name

    def columns(self, table: Table, where: str) -> dict[str, str]:
        return table.columns if where == "pub" else table.here

    def insert(self, table: Table, where: str) -> str:
        chance, columns = self.chance, self.columns(table, where)
        if chance.random() < 0.12:
            rest = "".join(f", {value(chance, kind)}" for name, kind in columns.items() if name != "a")
            return (
                f"INSERT INTO {table.name} ({', '.join(['a', *(c for c in columns if c != 'a')])}) "
                f"SELECT n{rest} FROM generate_series({chance.randint(0, 5)}, {chance.randint(6, 12)}) n"
            )
        rows = []
        for _ in range(chance.randint(1, 4)):
            values = [
                str(chance.randint(-2, 40)) if n == "a" and chance.random() < 0.9
                else (key_value if n in table.key else value)(chance, kind)
                for n, kind in columns.items()
            ]  # fmt: skip
            rows.append(f"({', '.join(values)})")
        return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES {', '.join(rows)}"

    def where(self, table: Table, where: str) -> str:
        chance, n = self.chance, self.chance.randint(-2, 40)
        if self.columns(table, where)["a"] == "text":
            return chance.choice([f" WHERE a = '{n}'", "", f" WHERE a > '{n}'"])
        tests = ["a = {n}", "a > {n}", "a < {n}", "a IN (1, 2, 3, {n})", "a IS NULL", "a % 3 = 1", "true"]
        if self.columns(table, where)["a"] == "double precision":
            tests.remove("a % 3 = 1")
        return f" WHERE {chance.choice(tests).format(n=n)}"

    def update(self, table: Table, where: str) -> str:
        chance, columns = self.chance, self.columns(table, where)
        name = chance.choice(sorted(columns))
        kind = chance.random()
        if name == "a" and columns["a"] != "text":
            n = chance.randint(-2, 40)
            changed = chance.choice([f"a = {n}", "a = a + 50", "a = a + 15", "a = -a", "a = a"])
        elif kind < 0.15:
            changed = f"{name} = {name}"
        else:
            changed = f"{name} = {value(chance, columns[name])}"
        others = [n for n in columns if n not in (name, "a")]
        if others and chance.random() < 0.2:
            other = chance.choice(others)
            changed += f", {other} = {value(chance, columns[other])}"
        return f"UPDATE {self.named(table)} SET {changed}{self.where(table, where)}"

    def truncate(self, table: Table) -> str:
        named = [self.named(table)]
        if self.chance.random() < 0.3:
            named += [t.name for t in self.tables if t is not table]
        return f"TRUNCATE {', '.join(named)}{self.chance.choice(['', '', ' RESTART IDENTITY', ' CASCADE'])}"

    # --- definitions --------------------------------------------------------------------------------------------------

    def alter_publication(self) -> None:
        chance = self.chance
        name = chance.choice(sorted(self.publications))
        table = chance.choice(self.tables)
        changes = [
            f"ALTER PUBLICATION {name} ADD TABLE {self.member(table, self.named(table))}",
            f"ALTER PUBLICATION {name} DROP TABLE {self.named(table)}",
            f"ALTER PUBLICATION {name} SET TABLE {', '.join(self.members())}",
            f"ALTER PUBLICATION {name} SET (publish = '{self.publish_list()}')",
            f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
            f"ALTER PUBLICATION {name} SET (publish_via_partition_root = {chance.choice(['true', 'false'])})",
        ]
        if chance.random() < 0.06:
            self.at("pub", f"DROP PUBLICATION {name}")
            if chance.random() < 0.3:
                self.at("pub", self.change(table, "pub"))
            self.create_publication(name)
            return
        self.at("pub", chance.choice(changes))

    def alter_tables(self) -> None:
        chance, table = self.chance, self.chance.choice(self.tables)
        name = table.name
        kind = chance.randrange(8)
        if kind < 2:
            identity = chance.choice(["FULL", "DEFAULT", "NOTHING"])
            where = chance.choice(["pub", "pub", "sub"])
            self.at(where, *(f"ALTER TABLE {n} REPLICA IDENTITY {identity}" for n in table.names))
        elif kind == 2 and "z" not in table.columns:
            at_pub, at_sub = (
                f"ALTER TABLE {name} ADD COLUMN z int DEFAULT 99",
                f"ALTER TABLE {name} ADD z int DEFAULT 7",
            )
            if chance.random() < 0.9:
                self.at("sub", at_sub)
            self.at("pub", at_pub)
            table.columns["z"] = "int"
        elif kind == 3:
            column = chance.choice(sorted(table.columns))
            if column not in ("a", *table.key):
                self.at("pub", f"ALTER TABLE {name} DROP COLUMN {column}")
                table.columns = {c: k for c, k in table.columns.items() if c != column}
        elif kind == 4:
            self.at("sub", f"ALTER TABLE {name} ADD CHECK (a IS DISTINCT FROM {key_value(chance, 'int')}) NOT VALID")
        elif kind == 5 and table.leaves:
            self.at("pub", f"ALTER TABLE {name} DETACH PARTITION {table.leaves[-1]}")
        elif kind == 6 and not table.leaves and "." not in name:
            self.at("sub", f"CREATE UNIQUE INDEX ON {name} (a)")
        elif kind == 7:
            new = f"n{len(self.tables)}"
            made = plain_table(chance, new)
            self.at("pub", *made.publisher)
            if chance.random() < 0.9:
                self.at("sub", *made.subscriber)
            self.tables.append(made)
            self.at("pub", f"ALTER PUBLICATION {chance.choice(sorted(self.publications))} ADD TABLE {new}")
