"""Fixtures that tests of several kinds share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import pulse, running


@pytest.fixture(scope="session")
def audio_server() -> Iterator[pulse.Server]:
    missing = pulse.missing_packages()
    if missing:
        pytest.skip(f"needs the system packages {' '.join(missing)}")
    with pulse.server() as server:
        yield server


@pytest.fixture
def at() -> Iterator[running.Place]:
    """A root, a socket and a state folder for one test."""
    with running.place() as place:
        yield place
