"""Checks every link in the documentation: `python -m tests.links` prints how many there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def links() -> list[tuple[Path, str]]:
    """Return every link to a file, as (page, target)."""
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    ]


def broken() -> list[str]:
    """Return the links that lead nowhere."""
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page, target in links()
        if not (page.parent / target).exists()
    ]


def main() -> int:
    for line in broken():
        print(line)
    print(f"{len(links())} links, {len(broken())} broken")
    return 1 if broken() else 0


if __name__ == "__main__":
    raise SystemExit(main())
