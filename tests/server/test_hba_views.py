"""pg_hba_file_rules and pg_ident_file_mappings show the lines of the files as a real server does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.serving import serving
from tests.postgres.server import new_server
from tests.server.test_psql_lists import psql

RULES = """\
# TYPE DATABASE USER ADDRESS METHOD
local all all trust
local replication,shop "all",+readers,/^a.*$ peer map=owner
host "a b" all 10.1.2.3/8 scram-sha-256
host sameuser bob 192.168.0.0 255.255.255.0 reject
hostnossl all all .example.com trust
host all all ::1/128 trust
hostgssenc all all samenet reject
host all all 1.2.3.4/99 trust
host all all a.b/32 trust
host all
host
remote all all trust
local all all nonsense
local all all peer nonsense
host all all 127.0.0.1/32 peer
local all,\\
other all trust
"""
MAPPINGS = """\
owner root postgres
m /^(.*)@x$ \\1
m "quoted user" +readers
short one
m a,b c
more root all ignored
"""
QUERIES = (
    "SELECT rule_number, line_number, type, database, user_name, address, netmask, auth_method, options, error"
    " FROM pg_hba_file_rules",
    "SELECT map_number, line_number, map_name, sys_name, pg_username, error FROM pg_ident_file_mappings",
)


QUERY = "SELECT q::text FROM ({}) q"


def test_the_views_show_every_line_and_its_fault(tmp_path: Path) -> None:
    server = new_server(18, "")
    try:
        for name, text in (("pg_hba.conf", RULES), ("pg_ident.conf", MAPPINGS)):
            (server.folder / "data" / name).write_text(text)
        asked = [psql(18, server.host, server.port, "-At", "-c", QUERY.format(query)) for query in QUERIES]
    finally:
        server.stop()
    with serving(tmp_path) as lake, lake.connect() as connection:
        for name, text in (("pg_hba.conf", RULES), ("pg_ident.conf", MAPPINGS)):
            (tmp_path / name).write_text(text)
        for query, expected in zip(QUERIES, asked, strict=True):
            assert [text for (text,) in connection.execute(QUERY.format(query))] == expected.splitlines()


@pytest.mark.slow
def test_a_client_certificate_is_asked_for_over_tls_only(tmp_path: Path) -> None:
    rules = {
        "hostssl all all all cert map=m": "{map=m,clientcert=verify-full}",
        "hostssl all all all scram-sha-256 clientcert=verify-ca": "{clientcert=verify-ca}",
        "host all all all trust clientcert=verify-ca": 'clientcert can only be configured for "hostssl" rows',
        "hostssl all all all trust clientcert=no": 'invalid value for clientcert: "no"',
        "hostssl all all all cert clientcert=verify-ca": 'clientcert only accepts "verify-full" when using "cert"'
        " authentication",
        "local all all trust map=x": 'authentication option "map" is only valid for authentication methods ident, peer,'
        " gssapi, sspi, and cert",
    }
    with serving(tmp_path) as lake, lake.connect() as connection:
        (tmp_path / "pg_hba.conf").write_text("\n".join(rules))
        found = connection.execute("SELECT coalesce(options::text, error) FROM pg_hba_file_rules").fetchall()
        assert [text for (text,) in found] == list(rules.values())
