"""Passwords: how they are kept in pg_authid.rolpassword, and checked (crypt.c, scram-common.c).

Kept is a SCRAM-SHA-256 verifier, from which nobody gets the password back. One that is a verifier already, SCRAM's or
md5's, is kept as it is given.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata

ITERATIONS = 4096
_SALT_LENGTH = 16
_SCRAM = re.compile(r"SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})\Z")
_MD5 = re.compile(r"md5[0-9a-f]{32}\Z")


def is_verifier(text: str) -> bool:
    return _SCRAM.match(text) is not None or _MD5.match(text) is not None


def make_verifier(password: str) -> str:
    """What is kept of a password (encrypt_password)."""
    if is_verifier(password):
        return password
    salt = secrets.token_bytes(_SALT_LENGTH)
    client, server = _keys(password, salt, ITERATIONS)
    parts = (_base64(salt), _base64(hashlib.sha256(client).digest()), _base64(server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(ITERATIONS, *parts)


def verify(password: str, verifier: str, role: str) -> bool:
    """Is it the password that the verifier was made of? md5 verifiers have the role's name in them."""
    found = _SCRAM.match(verifier)
    if found is not None:
        client, _ = _keys(password, base64.b64decode(found[2]), int(found[1]))
        return hmac.compare_digest(_base64(hashlib.sha256(client).digest()), found[3])
    hashed = hashlib.md5((password + role).encode(), usedforsecurity=False).hexdigest()
    return hmac.compare_digest(f"md5{hashed}", verifier)


def _keys(password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """ClientKey and ServerKey of RFC 5802."""
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password).encode(), salt, iterations)
    return hmac.digest(salted, b"Client Key", "sha256"), hmac.digest(salted, b"Server Key", "sha256")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def _prepared(password: str) -> str:
    """SASLprep (RFC 4013); what it forbids is taken as it is (pg_saslprep)."""
    if password.isascii():
        return password
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c))
    text = unicodedata.normalize("NFKC", mapped)
    if not text or any(forbidden(c) for c in text for forbidden in _PROHIBITED):
        return password
    right_to_left = any(stringprep.in_table_d1(c) for c in text)
    if right_to_left and (
        any(stringprep.in_table_d2(c) for c in text)
        or not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]))
    ):
        return password
    return text
