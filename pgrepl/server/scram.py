"""SCRAM-SHA-256, the server's side, with channel binding over TLS (auth-scram.c, RFC 5802 and 7677).

A role that does not exist, or has no password, goes through the same exchange with a made-up verifier and fails at its
end, so that an outsider cannot tell.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

from pgrepl.catalog.passwords import ScramVerifier, scram_verifier
from pgrepl.errors import PgError

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_UNBOUND = "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data."


class ScramExchange:
    """One exchange. `first` and `final` take what the client says and return what it is told."""

    def __init__(self, stored: str | None, user: str, mock_nonce: bytes, binding: bytes | None) -> None:
        """`stored`: the role's verifier. `binding`: the hash of the server's certificate, over TLS."""
        found = scram_verifier(stored) if stored else None
        self._fails = found is None
        self._verifier = found or _mock(user, mock_nonce)
        self._binding = binding
        self._plus = False

    def first(self, mechanism: str, message: bytes) -> bytes:
        self._plus = mechanism == PLUS
        text = _decoded(message)
        flag, rest = text[:1], text[1:]
        self._check_flag(flag, rest)
        header_end = text.index(",", text.index(",") + 1) + 1 if text.count(",") >= 2 else 0
        if not header_end:
            raise malformed("Unexpected channel-binding flag.")
        if text[: header_end - 1].partition(",")[2]:
            raise PgError("0A000", "client uses authorization identity, but it is not supported", severity="FATAL")
        self._header = text[:header_end]
        self._client_first = text[header_end:]
        parts = self._client_first.split(",")
        if parts[0].startswith("m="):
            raise PgError("0A000", "client requires an unsupported SCRAM extension", severity="FATAL")
        if len(parts) < 2 or not parts[0].startswith("n=") or not parts[1].startswith("r="):
            raise malformed("Expected attribute.")
        nonce = parts[1][2:]
        if not nonce or not all(0x21 <= ord(each) <= 0x7E for each in nonce):
            raise PgError("08P01", "non-printable characters in SCRAM nonce", severity="FATAL")
        self._nonce = nonce + base64.b64encode(os.urandom(18)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first.encode()

    def _check_flag(self, flag: str, rest: str) -> None:
        """The channel-binding flag: n no support, y thinks that the server has none, p used."""
        if flag == "p":
            if not self._plus:
                raise malformed(
                    "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel "
                    "binding data."
                )
            kind = rest[1:].partition(",")[0]
            if kind != "tls-server-end-point":
                raise PgError("08P01", f'unsupported SCRAM channel-binding type "{kind}"', severity="FATAL")
        elif flag == "y":
            if self._plus:
                raise malformed(_UNBOUND)
            if self._binding is not None:
                raise PgError(
                    "28000",
                    "SCRAM channel binding negotiation error",
                    detail="The client supports SCRAM channel binding but thinks the server does not.  "
                    "However, this server does support channel binding.",
                    severity="FATAL",
                )
        elif flag == "n":
            if self._plus:
                raise malformed(_UNBOUND)
        else:
            raise malformed(f'Unexpected channel-binding flag "{flag}".')

    def final(self, message: bytes) -> bytes | None:
        """The server's signature; None: the password is wrong."""
        text = _decoded(message)
        without_proof, comma, proof_text = text.rpartition(",p=")
        parts = without_proof.split(",")
        if not comma or len(parts) < 2 or not parts[0].startswith("c=") or not parts[1].startswith("r="):
            raise malformed("Expected attribute.")
        if not hmac.compare_digest(parts[1][2:], self._nonce):
            raise PgError("08P01", "invalid SCRAM response", detail="Nonce does not match.", severity="FATAL")
        expected = self._header.encode() + (self._binding or b"" if self._plus else b"")
        if parts[0][2:] != base64.b64encode(expected).decode():
            raise PgError("28000", "SCRAM channel binding check failed", severity="FATAL")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            raise malformed("Malformed proof in client-final-message.") from None
        if len(proof) != 32:
            raise malformed("Malformed proof in client-final-message.")
        about = f"{self._client_first},{self._server_first},{without_proof}".encode()
        signature = hmac.new(self._verifier.stored_key, about, hashlib.sha256).digest()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if self._fails or not right:
            return None
        return b"v=" + base64.b64encode(hmac.new(self._verifier.server_key, about, hashlib.sha256).digest())


def _mock(user: str, nonce: bytes) -> ScramVerifier:
    """A verifier that looks the same for the same user each time (mock_scram_secret)."""
    salt = hashlib.sha256(user.encode() + nonce).digest()[:16]
    return ScramVerifier(4096, salt, bytes(32), bytes(32))


def _decoded(message: bytes) -> str:
    if not message:
        raise malformed("The message is empty.")
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed("Message length does not match input length.") from None


def malformed(detail: str) -> PgError:
    return PgError("08P01", "malformed SCRAM message", detail=detail, severity="FATAL")


def certificate_hash(der: bytes, algorithm: str) -> bytes:
    """The binding data tls-server-end-point: the hash of the server's certificate, by its signature's algorithm, MD5
    and SHA-1 replaced by SHA-256."""
    return hashlib.new("sha256" if algorithm in ("md5", "sha1") else algorithm, der).digest()
