"""The documentation says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import docs, links

ROOT = Path(__file__).parents[2]
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


@pytest.mark.parametrize("name", docs.PAGES)
def test_generated_pages_are_true_to_the_code(name: str) -> None:
    committed = (docs.REFERENCE / name).read_text(encoding="utf-8")
    assert committed == docs.PAGES[name](), "run: python -m tests.docs"


def test_links_lead_to_files() -> None:
    assert len(links.links()) > 10
    assert links.broken() == []


def test_every_decision_is_listed_has_a_status_and_names_a_test_that_exists() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")
    )
    numbers = [path.name[:4] for path in ADRS]
    assert len(set(numbers)) == len(numbers)
    for path in ADRS:
        text = path.read_text(encoding="utf-8")
        assert f"({path.name})" in index
        assert "Status: " in text
        guards = re.findall(r"`(test_\w+)`", text.split("**Confirmation.**")[1])
        assert guards, f"{path.name} names no test"
        assert [guard for guard in guards if f"def {guard}(" not in tests] == []
