"""One Spark session for all tests that need one, in the fast setting for short queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from streaming.session import build_session, job_conf

FAST = {
    # C1 alone and no whole-stage code: short queries end before better code would pay.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss8m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = str(tmp_path_factory.mktemp("spark"))
    session = build_session(job_conf("tests", place, "local[2,4]", 1, None, FAST))
    yield session
    session.stop()
