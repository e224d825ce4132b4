"""What readers of Iceberg are told of an object store, and the credentials that they get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pgrepl
from pgrepl.ground.errors import PgError
from pgrepl.server import iceberg_access as access
from tests.harness.serving import serving
from tests.iceberg.readers import Row, duck, plain
from tests.lake.conftest import Bucket
from tests.lake.conftest import bucket as bucket
from tests.lake.conftest import s3 as s3
from tests.postgres.server import free_port
from tests.server.test_iceberg_access import NEAR, Asking

pytest.importorskip("moto")
ROLE = "arn:aws:iam::123456789012:role/reader"


@pytest.fixture
def asking(tmp_path: Path, bucket: Bucket) -> Asking:
    made = Asking(
        tmp_path, f"host all all {NEAR}/32 trust\n", str(tmp_path / "catalog.db"), f"s3://{bucket.name}/lake/"
    )
    sql(made, "CREATE TABLE t (a int, b text)", "INSERT INTO t SELECT g, 'b' || g FROM generate_series(1, 300) g")
    sql(made, "DELETE FROM t WHERE a > 290", "INSERT INTO t VALUES (1000, NULL)")
    return made


def sql(asking: Asking, *texts: str) -> list[Row]:
    with pgrepl.connect(str(asking.log.parent / "catalog.db"), autocommit=True) as con:
        cursor = con.cursor()
        for text in texts:
            cursor.execute(text)
        return (
            []
            if cursor.description is None
            else sorted((tuple(map(plain, row)) for row in cursor.fetchall()), key=repr)
        )


def loaded(asking: Asking, way: str) -> dict[str, Any]:
    sql(asking, f"ALTER SYSTEM SET pgrepl.iceberg_storage = '{way}'")
    sql(asking, f"ALTER SYSTEM SET pgrepl.iceberg_storage_role = '{ROLE}'")
    asking.desk.renew()
    status, answer = asking.ask("postgres/namespaces/public/tables/t")
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def read(answer: dict[str, Any], **more: str) -> list[Row]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(answer["metadata-location"], {**answer["config"], **more})
    return sorted((tuple(map(plain, row.values())) for row in table.scan().to_arrow().to_pylist()), key=repr)


def test_what_a_reader_is_told(asking: Asking, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg")
    rows = sql(asking, "SELECT a, b FROM t")
    assert len(rows) == 291
    assert loaded(asking, "none")["config"] == {}
    place = {"s3.region": "us-east-1", "client.region": "us-east-1", "s3.endpoint": s3, "s3.path-style-access": "true"}
    assert loaded(asking, "location")["config"] == place
    with_keys = loaded(asking, "credentials")
    assert with_keys["config"] == {**place, "s3.access-key-id": "key", "s3.secret-access-key": "secret"}
    by_sts = loaded(asking, "sts")
    assert by_sts["config"].keys() - with_keys["config"].keys() == {"s3.session-token"}
    assert loaded(asking, "sts")["config"] == by_sts["config"], "they hold for a while"
    status, answer = asking.ask("postgres/namespaces/public/tables/t/credentials")
    assert (status, [each["config"] for each in answer["storage-credentials"]]) == (200, 2 * [by_sts["config"]])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PGREPL_S3_ENDPOINT"):
        monkeypatch.delenv(name)
    for each in (with_keys, by_sts):
        assert read(each) == rows, "with nothing but what was told"


def test_a_server_without_credentials_says_so(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    sql(asking, "ALTER SYSTEM SET pgrepl.iceberg_storage = 'credentials'")
    asking.desk.renew()
    status, answer = asking.ask("postgres/namespaces/public/tables/t")
    assert status == 500
    assert answer["error"]["message"].startswith("the server has no credentials in AWS_ACCESS_KEY_ID")


def test_credentials_of_sts_are_for_reading(bucket: Bucket, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    key, secret, token = access.assume_role(ROLE, "us-east-1", "{}")
    given = {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}
    who = boto3.client("sts", endpoint_url=s3, region_name="us-east-1", **given).get_caller_identity()["Arn"]
    assert who == "arn:aws:sts::123456789012:assumed-role/reader/pgrepl"
    policy = access._reading([f"s3://{bucket.name}/lake/", f"s3://{bucket.name}/lake.iceberg/"])
    assert f'"arn:aws:s3:::{bucket.name}/lake/*"' in policy
    assert "Put" not in policy
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    with pytest.raises(PgError, match="STS has given no credentials"):
        access.assume_role(ROLE, "us-east-1", "{}")


@pytest.mark.slow
def test_duckdb_reads_with_credentials_that_it_was_given(tmp_path: Path, bucket: Bucket) -> None:
    port = free_port()
    made = ("--data-path", f"s3://{bucket.name}/other/", "-c", "pgrepl.iceberg_storage=credentials")
    with serving(tmp_path, "--iceberg", str(port), *made) as served:
        served.ask("CREATE TABLE t (a int)")
        served.ask("INSERT INTO t SELECT generate_series(1, 300)")
        link = duck().cursor()
        at = f"ENDPOINT 'http://127.0.0.1:{port}', AUTHORIZATION_TYPE 'none'"
        link.execute(f"ATTACH 'postgres' AS store (TYPE iceberg, {at})")
        try:
            assert link.sql("SELECT count(*), sum(a) FROM store.public.t").fetchall() == [(300, 45150)]
        finally:
            link.execute("DETACH store")
