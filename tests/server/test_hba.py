"""Which rule of pg_hba.conf decides about a connection, and which map lets a user in: without a server."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from pgrepl.server.hba import Client, Rule, maps_to, matching, read_rules

MEMBERS = {("joe", "staff"), ("joe", "shop")}


def is_member(role: str, of: str) -> bool:
    return (role, of) in MEMBERS


def fits(folder: Path, line: str, client: Client) -> bool:
    (folder / "hba").write_text(line + "\n")
    (rule,) = read_rules(folder / "hba")
    assert isinstance(rule, Rule), rule
    return matching([rule], client, is_member) is rule


def local(database: str = "shop", user: str = "joe", *, replication: bool = False) -> Client:
    return Client(database, user, True, False, replication)


def remote(address: str | None = "10.0.0.7", *, tls: bool = False, database: str = "shop", user: str = "joe") -> Client:
    return Client(database, user, False, tls, False, None if address is None else ip_address(address))


@pytest.mark.parametrize(
    ("line", "client", "expected"),
    [
        ("local all all trust", local(), True),
        ("local all all trust", remote(), False),
        ("host all all all trust", remote(), True),
        ("host all all all trust", remote(tls=True), True),
        ("host all all all trust", local(), False),
        ("host all all all trust", remote(None), False),
        ("hostssl all all all trust", remote(), False),
        ("hostssl all all all trust", remote(tls=True), True),
        ("hostnossl all all all trust", remote(), True),
        ("hostnossl all all all trust", remote(tls=True), False),
        ("hostgssenc all all all trust", remote(), False),
        ("hostnogssenc all all all trust", remote(), True),
        ("host all all 10.0.0.0/24 trust", remote(), True),
        ("host all all 10.0.0.0/24 trust", remote("10.0.1.7"), False),
        ("host all all 10.0.0.0 255.255.255.0 trust", remote(), True),
        ("host all all ::1/128 trust", remote(), False),
        ("host all all ::/0 trust", remote(), False),
        ("host all all ::/0 trust", remote("::1"), True),
        ("host all all samehost trust", remote("127.0.0.1"), True),
        ("host all all samehost trust", remote("203.0.113.9"), False),
        ("host all all samenet trust", remote("::1"), True),
        ("host all all localhost trust", remote("127.0.0.1"), True),
        ("host all all .example.invalid trust", remote("127.0.0.1"), False),
    ],
)
def test_a_rule_is_for_a_way_to_connect_and_an_address(
    tmp_path: Path, line: str, client: Client, expected: bool
) -> None:
    assert fits(tmp_path, line, client) == expected


@pytest.mark.parametrize(
    ("databases", "client", "expected"),
    [
        ("shop", local(), True),
        ("shop", local("shops"), False),
        ("other,shop", local(), True),
        ("sameuser", local("joe"), True),
        ("sameuser", local(), False),
        ("samerole", local(), True),
        ("samegroup", local(), True),
        ("samerole", local("other"), False),
        ("replication", local("replication"), False),
        ('"replication"', local("replication"), True),
        ("replication", local(replication=True), True),
        ("all", local(replication=True), False),
        ("/^sh", local(), True),
        ("/^op", local(), False),
        ("/(", local("("), False),
        ('"/^sh"', local("/^sh"), True),
        ('"/^sh"', local(), False),
        ('"all"', local(), False),
    ],
)
def test_a_rule_is_for_databases(tmp_path: Path, databases: str, client: Client, expected: bool) -> None:
    assert fits(tmp_path, f"local {databases} all trust", client) == expected


@pytest.mark.parametrize(
    ("users", "user", "expected"),
    [
        ("joe", "joe", True),
        ("joe", "jim", False),
        ("jim,joe", "joe", True),
        ("+staff", "joe", True),
        ("+staff", "jim", False),
        ('"+staff"', "joe", False),
        ('"+staff"', "+staff", True),
        ("/^j", "jim", True),
        ("all", "jim", True),
        ('"all"', "jim", False),
    ],
)
def test_a_rule_is_for_users(tmp_path: Path, users: str, user: str, expected: bool) -> None:
    assert fits(tmp_path, f"local all {users} trust", local(user=user)) == expected


def test_the_first_rule_that_fits_decides(tmp_path: Path) -> None:
    (tmp_path / "hba").write_text("local other all reject\nlocal shop all peer\nlocal all all trust\n")
    rules = [rule for rule in read_rules(tmp_path / "hba") if isinstance(rule, Rule)]
    found = [matching(rules, local(database), is_member) for database in ("shop", "other", "third")]
    assert [rule.method for rule in found if rule is not None] == ["peer", "reject", "trust"]
    assert matching(rules, remote(), is_member) is None


@pytest.mark.parametrize(
    ("mapping", "system", "role", "expected"),
    [
        ("m root joe", "root", "joe", True),
        ("m root joe", "root", "jim", False),
        ("m root joe", "other", "joe", False),
        ("m root joe", "foot", "joe", False),
        ("n root joe", "root", "joe", False),
        ("m root all", "root", "jim", True),
        ('m root "all"', "root", "jim", False),
        ("m root +staff", "root", "joe", True),
        ("m root +staff", "root", "jim", False),
        ('m root "+staff"', "root", "joe", False),
        ("m root /^j", "root", "jim", True),
        (r"m /^(.*)@x$ \1", "joe@x", "joe", True),
        (r"m /^(.*)@x$ \1", "joe@x", "jim", False),
        (r"m /^(.*)@x$ \1", "joe@y", "joe", False),
        (r"m /^(.*)@x$ \1", "+staff@x", "joe", False),
        (r"m /^.*@x$ \1", "joe@x", r"\1", True),
        (r"m /^(all)@x$ \1", "all@x", "jim", False),
        ("m /^joe@ joe", "joe@x", "joe", True),
        ("m /^joe@ joe", "the joe@x", "joe", False),
        (r"m /^(a)?joe$ x\1", "joe", "x", True),
        ("m /^(.*)@x$ all", "joe@x", "jim", True),
        ('m "/^joe@" joe', "joe@x", "joe", False),
        ("m\nm root joe", "root", "joe", True),
    ],
)
def test_a_map_lets_a_user_be_a_role(tmp_path: Path, mapping: str, system: str, role: str, expected: bool) -> None:
    (tmp_path / "ident").write_text(mapping + "\n")
    assert maps_to(tmp_path / "ident", "m", system, role, is_member) == expected
