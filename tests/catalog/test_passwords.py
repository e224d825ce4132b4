"""What pg_authid keeps of a password."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from pgrepl.catalog.facts.passwords import encrypt_password, is_md5, md5_answer, scram_verifier, verify_password

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


@pytest.mark.parametrize(
    "kept", ["", "é\x07", "\u0627x", "\u0627x\u0628", "\u06271", "1\u0627", "1\u0627\u0628", "\u0627\u06281"]
)
def test_where_saslprep_does_not_apply_the_password_is_as_it_was_given(kept: str) -> None:
    """Nothing is left of it, a prohibited character, or letters of both directions: else the hyphen would go."""
    assert not verify_password("r", encrypt_password("scram-sha-256", "r", kept + "\u00ad"), kept)


@pytest.mark.parametrize("mapped", ["\u0627\u0628", "\u06271\u0628", "\u1680é"])
def test_what_saslprep_maps(mapped: str) -> None:
    stored = encrypt_password("scram-sha-256", "r", mapped + "\u00ad")
    assert verify_password("r", stored, mapped) and verify_password("r", stored, mapped.replace("\u1680", " "))


def test_an_answer_to_md5_is_salted_once_more() -> None:
    stored = encrypt_password("md5", "alice", "secret")
    digest = hashlib.md5(stored[3:].encode() + b"salt", usedforsecurity=False).hexdigest()
    assert md5_answer(stored, b"salt") == b"md5" + digest.encode()


@pytest.mark.parametrize(
    ("form", "is_verifier"),
    [
        ("SCRAM-SHA-256$1:{salt}${key}:{key}", True),
        ("SCRAM-SHA-256$0:{salt}${key}:{key}", False),
        ("SCRAM-SHA-256$1:AA==AAAA${key}:{key}", False),
        ("SCRAM-SHA-256$1:{salt}${long}:{key}", False),
        ("SCRAM-SHA-256$1:{salt}${key}:{long}", False),
        ("md5{salt}", False),
    ],
)
def test_the_form_of_a_verifier(form: str, is_verifier: bool) -> None:
    text = form.format(salt="AAAA", key=base64.b64encode(bytes(32)).decode(), long=44 * "A")
    assert (scram_verifier(text) is not None) == is_verifier


def test_nonsense_is_no_verifier() -> None:
    assert not verify_password("r", "SCRAM-SHA-256$0:AAAA$AAAA:AAAA", "")
    assert not verify_password("r", "plain", "plain")
