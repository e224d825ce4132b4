"""TLS for the server's connections (be-secure-openssl.c).

The key must not be readable by others, as PostgreSQL demands it.
"""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

from pgrepl.errors import PgError


def server_context(certificate: Path, key: Path, authority: Path | None, protocol: str) -> ssl.SSLContext:
    """`protocol` is what is spoken over TLS, by the name that ALPN has for it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _check_key(key)
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except (OSError, ssl.SSLError) as problem:
        text = getattr(problem, "strerror", None) or str(problem)
        raise PgError("F0000", f'could not load server certificate file "{certificate}": {text}') from None
    if authority is not None:
        try:
            context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as problem:
            text = getattr(problem, "strerror", None) or str(problem)
            raise PgError("F0000", f'could not load root certificate file "{authority}": {text}') from None
        context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols([protocol])
    return context


def _no_passphrase() -> str:
    raise PgError("F0000", "private key file cannot be loaded because it requires a passphrase")


def _check_key(key: Path) -> None:
    """Raise unless the key belongs to its user alone (check_ssl_key_file_permissions)."""
    try:
        found = os.stat(key)
    except OSError as problem:
        raise PgError("F0000", f'could not access private key file "{key}": {problem.strerror}') from None
    if not stat.S_ISREG(found.st_mode):
        raise PgError("F0000", f'private key file "{key}" is not a regular file')
    if found.st_uid not in (os.geteuid(), 0):
        raise PgError("F0000", f'private key file "{key}" must be owned by the database user or root')
    refused = 0o077 if found.st_uid == os.geteuid() else 0o037
    if found.st_mode & refused:
        raise PgError(
            "F0000",
            f'private key file "{key}" has group or world access',
            detail="File must have permissions u=rw (0600) or less if owned by the database user, "
            "or permissions u=rw,g=r (0640) or less if owned by root.",
        )
