"""The constraints of domains: compiled once for all values of a statement, and anew when what they say has changed."""

from __future__ import annotations

import pytest

from pgrepl.expr.evaluate import compiler
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from pgrepl.types.text import read_text
from tests.expr.conftest import Place


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The domains whose constraints have been compiled, in order."""
    found: list[int] = []
    original = compiler._compiled

    def counted(domain: int, context: object) -> object:
        found.append(int(domain))
        return original(domain, context)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "_compiled", counted)
    return found


def domain(place: Place, name: str) -> int:
    ((oid,),) = [row for result in run(place.session, f"SELECT '{name}'::regtype::oid") for row in result.rows]
    return place.session.type_of(int(oid or 0))


def refused(place: Place, text: str, typoid: int) -> str | None:
    try:
        read_text(text, typoid, -1, place.session.text_style)
    except PgError as error:
        return error.message
    return None


def test_values_read_one_after_another_share_the_compiled_constraints(place: Place, compiled: list[int]) -> None:
    place.run("CREATE DOMAIN year AS int CHECK (VALUE > 1900)", "CREATE DOMAIN recent AS year CHECK (VALUE > 1990)")
    recent = domain(place, "recent")
    found = [refused(place, str(value), recent) for value in range(1890, 2010)]
    assert compiled == [recent]
    assert found == [
        'value for domain recent violates check constraint "year_check"' if value <= 1900
        else 'value for domain recent violates check constraint "recent_check"' if value <= 1990
        else None
        for value in range(1890, 2010)
    ]  # fmt: skip


def test_a_statement_compiles_a_domain_once_wherever_it_is_cast_to(place: Place, compiled: list[int]) -> None:
    place.run("CREATE DOMAIN year AS int CHECK (VALUE > 1900)", "CREATE TABLE t (a int, b year)")
    place.run("INSERT INTO t SELECT g, g FROM generate_series(1901, 1950) g")
    del compiled[:]
    place.run("SELECT b::int::year, (SELECT max(a)::year FROM t u WHERE u.a <= t.a) FROM t WHERE a::year = b")
    assert set(compiled) == {int(domain(place, "year"))}
    assert len(compiled) <= 2  # the query's, and one for parts that are computed before


def test_what_is_compiled_follows_alter_domain_and_the_settings(place: Place) -> None:
    place.run("CREATE DOMAIN word AS text CHECK (VALUE <> 'a')")
    assert refused(place, "b", domain(place, "word")) is None
    place.run("ALTER DOMAIN word ADD CONSTRAINT more CHECK (VALUE <> 'b')")
    assert refused(place, "b", domain(place, "word")) == 'value for domain word violates check constraint "more"'
    place.run("ALTER DOMAIN word DROP CONSTRAINT more")
    place.run("ALTER DOMAIN word ADD CONSTRAINT iso CHECK (VALUE <> date '2020-02-01'::text)")
    assert refused(place, "2020-02-01", domain(place, "word")) is not None
    place.run("SET datestyle = german")
    assert refused(place, "2020-02-01", domain(place, "word")) is None
    assert refused(place, "01.02.2020", domain(place, "word")) is not None


def test_a_check_that_calls_a_function_sees_its_new_body_and_the_role(place: Place) -> None:
    place.run(
        "CREATE FUNCTION fine(int) RETURNS boolean LANGUAGE sql AS 'SELECT $1 > 0'",
        "CREATE DOMAIN positive AS int CHECK (fine(VALUE))",
        "CREATE ROLE other",
    )
    positive = domain(place, "positive")
    assert refused(place, "1", positive) is None
    place.run("CREATE OR REPLACE FUNCTION fine(int) RETURNS boolean LANGUAGE sql AS 'SELECT $1 > 1'")
    assert refused(place, "1", positive) == 'value for domain positive violates check constraint "positive_check"'
    place.run("REVOKE EXECUTE ON FUNCTION fine FROM PUBLIC")
    assert refused(place, "2", positive) is None
    place.run("SET ROLE other")
    assert refused(place, "2", positive) == "permission denied for function fine"
