"""Fixtures that tests of several kinds share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests import pulse, running

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background has them ignore it, and all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
