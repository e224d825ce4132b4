"""What readers are told of the object store that has the files: `pgrepl.iceberg_storage`.

    none         nothing: they know it
    location     endpoint, region, and whether buckets stand in paths
    credentials  location, and the server's own credentials
    sts          location, and credentials for an hour that can only read the lake: AssumeRole of the role that
                 pgrepl.iceberg_storage_role names

The server takes its own from AWS's environment variables, as for its files (lake/storage.py).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import datetime, timezone
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from pgrepl.errors import PgError
from pgrepl.lake import storage

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_SECONDS = 3600  # for which credentials of STS hold
_PATIENCE = 10  # seconds for STS to answer
_S3 = ("s3", "s3a", "s3n")


class Storage:
    """Keeps the credentials that STS has given until half of their time is over."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, ...], tuple[float, dict[str, str]]] = {}
        self._lock = Lock()

    def config(self, session: Session, folders: Sequence[str]) -> dict[str, str]:
        """The properties by which a reader of Iceberg reads these folders."""
        way = session.settings.get("pgrepl.iceberg_storage")
        in_store = [each for each in folders if storage.scheme_of(each) in _S3]
        if way == "none" or not in_store:
            return {}
        found = _location()
        if way == "credentials":
            found |= _properties(*_own())
        elif way == "sts":
            role = session.settings.get("pgrepl.iceberg_storage_role")
            found |= self._of_sts(role, found["s3.region"], in_store)
        return found

    def _of_sts(self, role: str, region: str, folders: Sequence[str]) -> dict[str, str]:
        key = (role, region, *folders)
        with self._lock:
            until, found = self._given.get(key, (0.0, {}))
            if time.monotonic() > until:
                found = _properties(*assume_role(role, region, _reading(folders)))
                self._given[key] = time.monotonic() + _SECONDS / 2, found
        return found


def _location() -> dict[str, str]:
    endpoint, region = storage.s3_endpoint(), storage.s3_region() or "us-east-1"
    found = {"s3.region": region, "client.region": region}
    if endpoint is not None:
        whole = endpoint if "://" in endpoint else f"https://{endpoint}"
        found |= {"s3.endpoint": whole, "s3.path-style-access": "true"}
    return found


def _own() -> tuple[str, str, str]:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key, secret, token = (os.environ.get(name, "") for name in names)
    if not key or not secret:
        raise PgError("55000", "the server has no credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return key, secret, token


def _properties(key: str, secret: str, token: str) -> dict[str, str]:
    found = {"s3.access-key-id": key, "s3.secret-access-key": secret}
    return {**found, "s3.session-token": token} if token else found


def _reading(folders: Sequence[str]) -> str:
    """A policy that allows no more than to read what is in the folders."""
    inside = [folder.partition("://")[2].rstrip("/") for folder in folders]
    statements = [
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{each}/*" for each in inside]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket", "s3:GetBucketLocation"],
            "Resource": sorted({f"arn:aws:s3:::{each.partition('/')[0]}" for each in inside}),
        },
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


# --- STS --------------------------------------------------------------------------------------------------------------


def assume_role(role: str, region: str, policy: str) -> tuple[str, str, str]:
    """Key, secret and token of a role, with no more rights than the policy."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_STS") or storage.s3_endpoint() or f"https://sts.{region}.amazonaws.com"
    given = {"Action": "AssumeRole", "Version": "2011-06-15", "RoleSessionName": "pgrepl",
             "DurationSeconds": str(_SECONDS), "Policy": policy}  # fmt: skip
    if role:
        given["RoleArn"] = role
    url = endpoint if "://" in endpoint else f"https://{endpoint}"
    body = urlencode(given).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/", body, _signed(url, region, body), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            found = ElementTree.fromstring(answer.read())
        texts = [found.findtext(f".//{{*}}{name}") for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    except urllib.error.HTTPError as refused:
        raise PgError("58030", f"STS has given no credentials: HTTP status {refused.code}") from None
    except (OSError, ElementTree.ParseError) as problem:
        raise PgError("58030", f"STS has given no credentials: {problem}") from None
    key, secret, token = (text or "" for text in texts)
    return key, secret, token


def _signed(url: str, region: str, body: bytes) -> dict[str, str]:
    """The head of a request to STS, signed with the server's credentials (AWS Signature Version 4)."""
    key, secret, token = _own()
    moment = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    head = {"content-type": "application/x-www-form-urlencoded; charset=utf-8", "host": urlsplit(url).netloc,
            "x-amz-date": moment}  # fmt: skip
    if token:
        head["x-amz-security-token"] = token
    lines = "".join(f"{name}:{head[name]}\n" for name in sorted(head))
    names = ";".join(sorted(head))
    asked = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/sts/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = _hmac(signing, part)
    signature = _hmac(signing, text).hex()
    given = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**head, "Authorization": given}


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
