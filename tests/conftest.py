"""What every test may ask for, and the markers they carry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import postgresql, requirement_collector
from tests.support.browser import NOT_TESTED as NOT_TESTED_IN_BROWSER

pytest_plugins = ["tests.support.stores"]

REQUIRE_POSTGRESQL = "STEELYARD_TEST_REQUIRE_POSTGRESQL"
NOT_TESTED = "NOT TESTED ON POSTGRESQL"
_FOLDER = pytest.StashKey[Path]()
_CLAIMS = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Registers our markers."""
    config.addinivalue_line(
        "markers", "requirement(*ids): the rows of docs/requirements.csv that this test proves"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Notes who claims what before anything is deselected."""
    config.stash[_CLAIMS] = requirement_collector.claims(items)


@pytest.fixture(scope="session")
def requirement_claims(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Requirement id → tests that claim it, among all that this run collected."""
    return request.config.stash[_CLAIMS]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of xdist which folder the run's database server is, or will be, in."""
    node.workerinput["postgresql_folder"] = str(_folder(node.config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the database server, in the process that made its folder (which is no worker)."""
    if _FOLDER in config.stash:
        postgresql.stop(config.stash[_FOLDER])


def _folder(config: pytest.Config) -> Path:
    """The folder of this run's database server: whoever asks first starts the server in it."""
    given = getattr(config, "workerinput", {}).get("postgresql_folder")
    if given is not None:
        return Path(given)
    if _FOLDER not in config.stash:
        config.stash[_FOLDER] = postgresql.make_folder()
    return config.stash[_FOLDER]


@pytest.fixture(scope="session")
def postgresql_server(request: pytest.FixtureRequest) -> postgresql.Server:
    """The run's own PostgreSQL. Where none can be had the test is skipped, or fails if one is required."""
    try:
        postgresql.find_programs()
        return postgresql.shared_server(_folder(request.config))
    except postgresql.PostgresqlMissing as missing:
        text = f"{NOT_TESTED}: {missing}"
    if os.environ.get(REQUIRE_POSTGRESQL) == "1":
        pytest.fail(f"{text} ({REQUIRE_POSTGRESQL}=1 makes this a failure)", pytrace=False)
    pytest.skip(text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says loudly, once, that a database or the browser was left out: a skip is easily overlooked."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    for left_out in (NOT_TESTED, NOT_TESTED_IN_BROWSER):
        missing = [reason for reason in reasons if left_out in reason]
        if missing:
            terminalreporter.section(left_out, sep="!", red=True, bold=True)
            told = missing[0].removeprefix("Skipped: ")
            terminalreporter.line(f"{len(missing)} tests were left out. {told}")


@pytest.fixture(scope="session")
def postgresql_url(postgresql_server: postgresql.Server) -> str:
    """The address of the run's PostgreSQL, its maintenance database."""
    return postgresql_server.url()


@pytest.fixture
def postgresql_database(postgresql_server: postgresql.Server) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    with postgresql.fresh_database(postgresql_server) as url:
        yield url
