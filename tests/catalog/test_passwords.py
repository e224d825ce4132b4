"""What pg_authid keeps of a password."""

from __future__ import annotations

import re

import pytest

from pgrepl.catalog.facts.roles import encrypt_password, is_md5, verify_password

# the example of RFC 7677
PENCIL = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
    "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)


def test_a_verifier_knows_its_password() -> None:
    assert verify_password("anybody", PENCIL, "pencil")
    assert not verify_password("anybody", PENCIL, "Pencil")
    assert not verify_password("anybody", PENCIL, "")


def test_a_new_verifier_has_postgresqls_form_and_a_salt_of_its_own() -> None:
    made = [encrypt_password("scram-sha-256", "alice", "secret") for _ in range(2)]
    form = re.compile(r"SCRAM-SHA-256\$4096:[A-Za-z0-9+/]{22}==\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=")
    assert all(form.fullmatch(stored) for stored in made)
    assert made[0] != made[1]
    assert all(verify_password("alice", stored, "secret") for stored in made)
    assert "secret" not in made[0]


def test_md5_is_salted_with_the_name() -> None:
    stored = encrypt_password("md5", "alice", "secret")
    assert stored == "md54a0a68b43b6cd5cf266fa02f196e2371"
    assert is_md5(stored)
    assert verify_password("alice", stored, "secret")
    assert not verify_password("bob", stored, "secret")


def test_what_is_encrypted_already_is_kept() -> None:
    assert encrypt_password("scram-sha-256", "alice", PENCIL) == PENCIL
    md5 = "md5" + "0" * 32
    assert encrypt_password("scram-sha-256", "alice", md5) == md5
    assert encrypt_password("scram-sha-256", "alice", "md5 is not this") != "md5 is not this"


@pytest.mark.parametrize(("password", "same"), [("I\u00adX", "IX"), ("\u00aa", "a"), ("\u2168", "IX"), ("é", "é")])
def test_passwords_are_prepared_as_saslprep_says(password: str, same: str) -> None:
    assert verify_password("r", encrypt_password("scram-sha-256", "r", password), same)


def test_nonsense_is_no_verifier() -> None:
    assert not verify_password("r", "SCRAM-SHA-256$0:AAAA$AAAA:AAAA", "")
    assert not verify_password("r", "plain", "plain")
