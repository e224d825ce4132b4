"""SCRAM-SHA-256 as RFC 5802 has it, message by message: what the server answers, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pgrepl.catalog.facts.passwords import encrypt_password
from pgrepl.ground.errors import PgError
from pgrepl.server.authentication import PLAIN, PLUS, ScramExchange, certificate_hash

STORED = encrypt_password("scram-sha-256", "app", "secret", 4096)
HASH = certificate_hash(b"a certificate", "sha256")
FIRST = b"n,,n=,r=abc"


def exchange(stored: str | None = STORED, binding: bytes | None = None) -> ScramExchange:
    return ScramExchange(stored, "app", b"nonce", binding)


def answers(
    first: bytes, server_first: bytes, password: str = "secret", bound: bytes = b"", extension: bytes = b""
) -> tuple[bytes, bytes]:
    """What a client says last, and the signature that it waits for."""
    header, client_first = first.split(b",,")
    parts = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = b"c=" + base64.b64encode(header + b",," + bound) + b",r=" + parts["r"].encode() + extension
    about = b",".join([client_first, server_first, without_proof])
    signature = hmac.digest(hashlib.sha256(client_key).digest(), about, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    told = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), about, "sha256")
    return without_proof + b",p=" + base64.b64encode(proof), b"v=" + base64.b64encode(told)


@pytest.mark.parametrize(
    ("mechanism", "first", "binding", "bound"),
    [
        (PLAIN, FIRST, None, b""),
        (PLAIN, b"n,,n=other,r=abc,x=1", None, b""),
        (PLAIN, b"y,,n=,r=abc", None, b""),
        (PLAIN, FIRST, HASH, b""),
        (PLUS, b"p=tls-server-end-point,,n=,r=abc", HASH, HASH),
    ],
)
def test_the_right_password(mechanism: str, first: bytes, binding: bytes | None, bound: bytes) -> None:
    server = exchange(binding=binding)
    server_first = server.first(mechanism, first)
    assert server_first.startswith(b"r=abc") and len(server_first.split(b",")[0]) == len("r=abc") + 24
    final, signature = answers(first, server_first, bound=bound)
    assert server.final(final) == signature


def test_a_wrong_password_and_a_role_without_one() -> None:
    for stored, password in ((STORED, "Secret"), (None, "secret"), ("md5" + 32 * "0", "secret")):
        server = exchange(stored)
        assert server.final(answers(FIRST, server.first(PLAIN, FIRST), password)[0]) is None


def test_a_role_without_a_password_always_has_the_same_salt() -> None:
    """Nobody learns from it which roles there are."""
    salts = {exchange(None).first(PLAIN, FIRST).split(b",")[1] for _ in range(2)}
    other = ScramExchange(None, "other", b"nonce", None).first(PLAIN, FIRST).split(b",")[1]
    assert len(salts) == 1 and other not in salts
    assert salts.pop().decode()[2:] == base64.b64encode(hashlib.sha256(b"appnonce").digest()[:16]).decode()
    assert exchange(None).first(PLAIN, FIRST).endswith(b",i=4096")


MALFORMED = "malformed SCRAM message"


@pytest.mark.parametrize(
    ("mechanism", "first", "binding", "message"),
    [
        (PLAIN, b"", None, (MALFORMED, "The message is empty.")),
        (PLAIN, b"n,,n=,r=\xff", None, (MALFORMED, "Message length does not match input length.")),
        (PLAIN, b"n,,n=,r=a\0", None, (MALFORMED, "Message length does not match input length.")),
        (PLAIN, b"x,,n=,r=abc", None, (MALFORMED, """Unexpected channel-binding flag "'x'".""")),
        (PLAIN, "é,,n=,r=a".encode(), None, (MALFORMED, 'Unexpected channel-binding flag "0xc3".')),
        (PLAIN, b"n", None, (MALFORMED, 'Comma expected, but found character "0x00".')),
        (PLAIN, b"nn,n=,r=a", None, (MALFORMED, """Comma expected, but found character "'n'".""")),
        (PLAIN, b"n,n=", None, (MALFORMED, """Unexpected attribute "'n'" in client-first-message.""")),
        (PLAIN, b"n,,n=", None, (MALFORMED, 'Expected attribute "r" but found "0x00".')),
        (PLAIN, b"n,,x=,r=abc", None, (MALFORMED, """Expected attribute "n" but found "'x'".""")),
        (PLAIN, b"n,,n,r=abc", None, (MALFORMED, 'Expected character "=" for attribute "n".')),
        (PLAIN, b"n,,n=,x=abc", None, (MALFORMED, """Expected attribute "r" but found "'x'".""")),
        (PLAIN, b"n,,n=,r=abc,1=2", None, (MALFORMED, """Attribute expected, but found invalid character "'1'".""")),
        (PLAIN, "n,,n=,r=abc,é=".encode(), None, (MALFORMED, 'found invalid character "0xc3".')),
        (PLAIN, b"!", None, (MALFORMED, """Unexpected channel-binding flag "'!'".""")),
        (PLAIN, b"~", None, (MALFORMED, """Unexpected channel-binding flag "'~'".""")),
        (PLAIN, b"\x7f", None, (MALFORMED, 'Unexpected channel-binding flag "0x7f".')),
        (PLAIN, b"n,,n=,r=abc,x", None, (MALFORMED, 'Expected character "=" for attribute "x".')),
        (PLUS, b"p,,n=,r=abc", HASH, (MALFORMED, 'Expected character "=" for attribute "p".')),
        (PLAIN, b"n,a=app,n=,r=abc", None, ("client uses authorization identity, but it is not supported", None)),
        (PLAIN, b"n,,m=x,n=,r=abc", None, ("client requires an unsupported SCRAM extension", None)),
        (PLAIN, b"n,,n=,r=", None, ("non-printable characters in SCRAM nonce", None)),
        (PLAIN, b"n,,n=,r=a b", None, ("non-printable characters in SCRAM nonce", None)),
        (PLAIN, b"n,,n=,r=a\x7f", None, ("non-printable characters in SCRAM nonce", None)),
        (PLUS, b"n,,n=,r=abc", HASH, (MALFORMED, "does not include channel binding data.")),
        (PLUS, b"y,,n=,r=abc", HASH, (MALFORMED, "does not include channel binding data.")),
        (PLAIN, b"y,,n=,r=abc", HASH, ("SCRAM channel binding negotiation error", "this server does support")),
        (PLAIN, b"p=tls-server-end-point,,n=,r=a", HASH, (MALFORMED, "includes channel binding data.")),
        (PLUS, b"p=tls-unique,,n=,r=a", HASH, ('unsupported SCRAM channel-binding type "tls-unique"', None)),
    ],
)
def test_a_first_message_that_is_refused(
    mechanism: str, first: bytes, binding: bytes | None, message: tuple[str, str | None]
) -> None:
    with pytest.raises(PgError) as refused:
        exchange(binding=binding).first(mechanism, first)
    assert refused.value.report.message == message[0]
    assert message[1] is None or message[1] in (refused.value.report.detail or "")


def test_a_last_message_that_is_refused() -> None:
    def refused(change: tuple[bytes, bytes]) -> str:
        server = exchange()
        final = answers(FIRST, server.first(PLAIN, FIRST))[0]
        assert change[0] in final
        with pytest.raises(PgError) as failed:
            server.final(final.replace(*change, 1))
        return failed.value.report.detail or failed.value.report.message

    assert refused((b",p=", b",q=")) == "Attribute expected, but found end of string."
    assert refused((b"c=", b"d=")) == """Expected attribute "c" but found "'d'"."""
    assert refused((b"r=abc", b"s=abc")) == """Expected attribute "r" but found "'s'"."""
    assert refused((b"r=abc", b"r=abd")) == "Nonce does not match."
    assert refused((b"c=biws", b"c=eSws")) == "unexpected SCRAM channel-binding attribute in client-final-message"
    assert refused((b",p=", b",p=!")) == "Malformed proof in client-final-message."
    assert refused((b",p=", b",p=AAAA,x=")) == "Malformed proof in client-final-message."
    server = exchange()
    final = answers(FIRST, server.first(PLAIN, FIRST))[0]
    with pytest.raises(PgError) as failed:
        server.final(final + b",x=1")
    assert failed.value.report.detail == "Garbage found at the end of client-final-message."


def test_extensions_of_the_last_message_are_signed_and_passed_over() -> None:
    server = exchange()
    final, signature = answers(FIRST, server.first(PLAIN, FIRST), extension=b",x=1,y=2")
    assert b",x=1,y=2,p=" in final and server.final(final) == signature


def test_another_certificate_between_the_two() -> None:
    """Who stands between client and server shows the client a certificate of its own."""
    server = exchange(binding=HASH)
    first = b"p=tls-server-end-point,,n=,r=abc"
    final = answers(first, server.first(PLUS, first), bound=certificate_hash(b"another", "sha256"))[0]
    with pytest.raises(PgError, match="channel binding check failed"):
        server.final(final)


def test_weak_signatures_of_certificates_hash_by_sha256() -> None:
    assert certificate_hash(b"x", "md5") == certificate_hash(b"x", "sha1") == hashlib.sha256(b"x").digest()
    assert certificate_hash(b"x", "sha384") == hashlib.sha384(b"x").digest()
