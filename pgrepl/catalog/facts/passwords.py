"""Passwords of roles: their stored form, and checking one against it (crypt.c, scram-common.c).

pg_authid has a SCRAM-SHA-256 verifier, or PostgreSQL's MD5 form if password_encryption says so; never the password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import stringprep
import unicodedata
from typing import NamedTuple

_SALT_BYTES = 16
_MD5 = re.compile(r"md5[0-9a-f]{32}\Z")
_SCRAM = re.compile(r"SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})\Z")


class ScramVerifier(NamedTuple):
    """The verifier that is stored of a password for SCRAM-SHA-256."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def encrypt_password(method: str, role: str, password: str, iterations: int = 4096) -> str:
    """The stored form of a new password; a text that is in a stored form already stays as it is."""
    if is_md5(password) or scram_verifier(password) is not None:
        return password
    if method == "md5":
        return _md5(role, password)
    return _new_verifier(password, os.urandom(_SALT_BYTES), iterations)


def _md5(role: str, password: str) -> str:
    return "md5" + hashlib.md5((password + role).encode(), usedforsecurity=False).hexdigest()


def is_md5(stored: str) -> bool:
    return _MD5.match(stored) is not None


def md5_answer(stored: str, salt: bytes) -> bytes:
    """What a client answers that is asked by md5 with this salt."""
    return b"md5" + hashlib.md5(stored[3:].encode() + salt, usedforsecurity=False).hexdigest().encode()


def verify_password(role: str, stored: str, password: str) -> bool:
    """Is this the password that was stored? (plain_crypt_verify)"""
    if is_md5(stored):
        return hmac.compare_digest(stored, _md5(role, password))
    verifier = scram_verifier(stored)
    if verifier is None:
        return False
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), verifier.salt, verifier.iterations)
    return hmac.compare_digest(verifier.server_key, _hmac(salted, b"Server Key"))


def scram_verifier(text: str) -> ScramVerifier | None:
    """The verifier in a stored form; None: it has another form."""
    match = _SCRAM.match(text)
    if match is None:
        return None
    try:
        salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
    except binascii.Error:
        return None
    if int(match[1]) == 0 or len(stored_key) != 32 or len(server_key) != 32:
        return None
    return ScramVerifier(int(match[1]), salt, stored_key, server_key)


def _new_verifier(password: str, salt: bytes, iterations: int) -> str:
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)
    stored_key = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    texts = [base64.b64encode(part).decode() for part in (salt, stored_key, _hmac(salted, b"Server Key"))]
    return f"SCRAM-SHA-256${iterations}:{texts[0]}${texts[1]}:{texts[2]}"


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _prepared(password: str) -> bytes:
    """The password after SASLprep, or as it is where SASLprep does not apply (pg_saslprep)."""
    if password.isascii():
        return password.encode()
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c))
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(_prohibited(c) for c in normal) or _mixes_directions(normal):
        return password.encode()
    return normal.encode()


def _prohibited(c: str) -> bool:
    return (
        stringprep.in_table_c12(c)
        or stringprep.in_table_c21_c22(c)
        or stringprep.in_table_c3(c)
        or stringprep.in_table_c4(c)
        or stringprep.in_table_c5(c)
        or stringprep.in_table_c6(c)
        or stringprep.in_table_c7(c)
        or stringprep.in_table_c8(c)
        or stringprep.in_table_c9(c)
        or stringprep.in_table_a1(c)
    )


def _mixes_directions(text: str) -> bool:
    if not any(stringprep.in_table_d1(c) for c in text):
        return False
    if any(stringprep.in_table_d2(c) for c in text):
        return True
    return not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]))
