"""Random triggers at both ends of a replication. They write into an unlogged table, which no publication has."""

from __future__ import annotations

from random import Random

from tests.postgres.workload_tables import Table

FUNCTIONS = (
    "CREATE UNLOGGED TABLE log (what text)",
    "CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ begin insert into public.log values (concat_ws(' ', "
    "tg_name, tg_when, tg_level, tg_op, tg_table_name, old, new)); return coalesce(new, old); end $$",
    "CREATE FUNCTION skips() RETURNS trigger LANGUAGE plpgsql AS $$ begin if coalesce(to_jsonb(new), to_jsonb(old)) "
    "->> 'a' like '%4' then return null; end if; return coalesce(new, old); end $$",
    "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ begin if coalesce(to_jsonb(new), to_jsonb(old)) "
    "->> 'a' = '19' then raise exception 'no 19' using detail = tg_op; end if; return coalesce(new, old); end $$",
    "CREATE FUNCTION changes() RETURNS trigger LANGUAGE plpgsql AS $$ begin if tg_op <> 'DELETE' then new.b := "
    "left(new.b || tg_argv[0], 3); return new; end if; return old; end $$",
    "CREATE FUNCTION tables() RETURNS trigger LANGUAGE plpgsql AS $$ begin if tg_op <> 'INSERT' then insert into "
    "public.log select tg_name || ' old ' || o from o; end if; if tg_op <> 'DELETE' then insert into public.log select "
    "tg_name || ' new ' || n from n; end if; return null; end $$",
    "CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$ begin if tg_op = 'DELETE' then execute "
    "format('delete from %s where a is not distinct from $1.a', tg_argv[0]) using old; return old; end if; execute "
    "format('insert into %s select $1.*', tg_argv[0]) using new; return new; end $$",
)
_TRANSITION = {"INSERT": "NEW TABLE n", "DELETE": "OLD TABLE o", "UPDATE": "OLD TABLE o NEW TABLE n"}


def triggers(chance: Random, table: Table, where: str) -> list[str]:
    """A few triggers of a table at one side, and which roles they are enabled for."""
    columns = table.columns if where == "pub" else table.here
    made: list[str] = []
    for number in range(chance.choice([0, 1, 1, 2, 3])):
        name = f"{chance.choice('axz')}{number}"
        on = table.name if not table.leaves or chance.random() < 0.6 else chance.choice(table.leaves)
        made.append(f"CREATE {_trigger(chance, name, on, columns)}")
        enabled = chance.choice(["REPLICA", "ALWAYS", "ALWAYS", ""])
        made.append(f"ALTER TABLE {on} ENABLE {enabled} TRIGGER {name}")
    if where == "pub" and "g" not in str(table.publisher) and chance.random() < 0.3:
        view = "v_" + table.name.replace(".", "_")
        made.append(f"CREATE VIEW {view} AS SELECT * FROM {table.name}")
        made.append(
            f"CREATE TRIGGER i INSTEAD OF INSERT OR DELETE ON {view} FOR EACH ROW EXECUTE FUNCTION "
            f"instead('{table.name}')"
        )
    return made


def _trigger(chance: Random, name: str, on: str, columns: dict[str, str]) -> str:
    events = chance.sample(["INSERT", "UPDATE", "DELETE"], chance.randint(1, 3))
    kind = chance.random()
    if kind < 0.15:
        event = events[0]
        return f"TRIGGER {name} AFTER {event} ON {on} REFERENCING {_TRANSITION[event]} EXECUTE FUNCTION tables()"
    if kind < 0.3:
        events.append("TRUNCATE")
        return (
            f"TRIGGER {name} {chance.choice(['BEFORE', 'AFTER'])} {' OR '.join(events)} ON {on} EXECUTE FUNCTION logs()"
        )
    if kind < 0.45:
        wait = chance.choice(["", "DEFERRABLE ", "DEFERRABLE INITIALLY DEFERRED "])
        return (
            f"CONSTRAINT TRIGGER {name} AFTER {' OR '.join(events)} ON {on} {wait}FOR EACH ROW "
            f"EXECUTE FUNCTION {chance.choice(['logs()', 'logs()', 'fails()'])}"
        )
    if "UPDATE" in events and chance.random() < 0.3:
        events[events.index("UPDATE")] = f"UPDATE OF {chance.choice(sorted(columns))}"
    condition = ""
    if events == ["UPDATE"] and chance.random() < 0.5:
        condition = "WHEN (old.a IS DISTINCT FROM new.a) "
    elif "DELETE" not in events and chance.random() < 0.3:
        condition = "WHEN (new.a IS NOT NULL) "
    called = ["logs()", "logs()", "skips()", "fails()"]
    if columns.get("b") == "text":
        called += ["changes('q')", "changes('')"]
    when = chance.choice(["BEFORE", "BEFORE", "AFTER"])
    return (
        f"TRIGGER {name} {when} {' OR '.join(events)} ON {on} FOR EACH ROW {condition}"
        f"EXECUTE FUNCTION {chance.choice(called)}"
    )


def through_view(chance: Random, table: Table, rest: str) -> str:
    """A change through the view of a table, which need not have one."""
    view = "v_" + table.name.replace(".", "_")
    if chance.random() < 0.5:
        return f"DELETE FROM {view}{rest}"
    return f"INSERT INTO {view} (a) VALUES ({chance.randint(1, 40)})"
