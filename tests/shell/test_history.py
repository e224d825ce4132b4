"""What may hold a password is not written to the history."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pgrepl.shell.prompt.interactive import StatementHistory, is_secret
from pgrepl.shell.shell import Shell


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER ROLE r PASSWORD 'hunter2';",
        "create user u encrypted password\n'hunter2';",
        "CREATE ROLE r PASSWORD/**/'hunter2'",
        "CREATE ROLE r PASSWORD -- of r\n 'hunter2'",
        "CREATE ROLE r PASSWORD E'hunter2'",
        "CREATE ROLE r PASSWORD $$hunter2$$",
        "CREATE ROLE r PASSWORD :'pw'",
        "CREATE SUBSCRIPTION s CONNECTION 'host=h password=hunter2' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'host=h password = ''hunter2''' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'postgresql://u:hunter2@h/db' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'postgres://u:hun%40ter2@h' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'postgres://h/db?user=u&password=hunter2' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'postgres://h/db?user=u&pass%77ord=hunter2' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION E'pass\\x77ord=hunter2' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION U&'pass\\0077ord=hunter2' PUBLICATION p",
        "ALTER SUBSCRIPTION s CONNECTION :'conn'",
        "\\c postgresql://u:hunter2@h/db",
        "\\connect \"host=h password=hunter2\"",
        "\\set conn 'host=h password=hunter2'",
        "\\set uri postgresql://u:hunter2@h/db",
        "\\set pw hunter2",
        "\\set admin_password hunter2",
        "\\setenv PGPASSWORD hunter2",
        "\\! PGPASSWORD=hunter2 psql",
        "select 1; -- password: hunter2",
        "select 1 /* password=hunter2 */;",
        "select 1; -- postgresql://u:hunter2@h/db",
        "create user mapping for u server s options (\"password\" 'hunter2')",
        "alter user mapping for u server s options (sslpassword 'hunter2')",
    ],
)  # fmt: skip
def test_what_may_hold_a_password(statement: str) -> None:
    assert is_secret(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select 1;",
        "ALTER ROLE r PASSWORD NULL;",
        "ALTER SUBSCRIPTION s SET (password_required = false);",
        "SET password_encryption = 'md5';",
        "CREATE SUBSCRIPTION s CONNECTION 'dbname=test_pub' PUBLICATION p",
        "CREATE SUBSCRIPTION s CONNECTION 'postgresql://u@h:5432/db' PUBLICATION p",
        "\\set pwned",
        "\\set limit 10",
        "\\password",
        "select '12:30'::time, a@b",
    ],
)
def test_what_holds_none(statement: str) -> None:
    assert not is_secret(statement)


def test_a_variable_that_becomes_a_password_is_forgotten(tmp_path: Path) -> None:
    shell = Shell()
    shell.variables.set("HISTFILE", str(tmp_path / "history"))
    history = StatementHistory(shell)
    for entry in ["\\set mine hunter2", "\\set other 1", "select :other;", "alter role r password :'mine';"]:
        history.append_string(entry)
    assert history.without_passwords() == ["\\set other 1", "select :other;"]
    history.save()
    assert (tmp_path / "history").read_text() == "\\set other 1\nselect :other;\n"


def test_passwords_of_older_histories_go(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("select 1;\n\\c postgresql://u:hunter2@h/db\n")
    shell = Shell()
    shell.variables.set("HISTFILE", str(path))
    history = StatementHistory(shell)
    assert list(history.load_history_strings()) == ["select 1;"]
    history.append_string("select 2;")
    history.save()
    assert path.read_text() == "select 1;\nselect 2;\n"


def test_shells_that_end_together_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"

    def ends(number: int) -> None:
        shell = Shell()
        shell.variables.set("HISTFILE", str(path))
        history = StatementHistory(shell)
        history.append_string(f"select {number};")
        history.save()

    with ThreadPoolExecutor(16) as shells:
        list(shells.map(ends, range(200)))
    assert sorted(path.read_text().split("\n")) == sorted(["", *(f"select {number};" for number in range(200))])
