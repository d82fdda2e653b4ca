"""Faults are brought about with what Linux has."""

from __future__ import annotations

import pytest

from tests import running


@pytest.fixture(autouse=True)
def needs_proc() -> None:
    if not running.PROC.exists():
        pytest.skip("needs /proc to find processes and their files")
