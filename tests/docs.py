"""Writes the generated reference pages: `python -m tests.docs`. A test compares them."""

from __future__ import annotations

from pathlib import Path

from ambientd import settings

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

HEAD = """\
# Settings

A flag of `ambientd` beats its environment variable, which beats the file, which beats the default.
The file is `~/.config/ambient/config.toml`, or what `AMBIENT_CONFIG` names. An unknown key and a
value of the wrong kind or out of bounds are named with file and line, and nothing starts. Whether
there is such a device or such a model is seen when a recording starts.

```toml
[capture]
device = "USB Microphone"

[speech]
threads = 4
```

| key | default | meaning | variable | flag |
|---|---|---|---|---|
"""

TAIL = """
Where things are is chosen by three more variables: `AMBIENT_SOCKET` (the socket, then the only
one that is tried), `AMBIENT_STATE` (`~/.local/state/ambient`), `AMBIENT_CONFIG` (the file). The
sessions are in `~/.local/share/ambient`, on macOS in
`~/Library/Application Support/Ambient/Sessions`.
"""


def settings_page() -> str:
    """Return docs/reference/settings.md."""
    rows = []
    for setting in settings.SETTINGS:
        default = "" if setting.default is None else f"`{setting.default}`"
        meaning = setting.doc
        if setting.choices:
            meaning += " One of " + ", ".join(f"`{choice}`" for choice in setting.choices) + "."
        elif setting.low is not None:
            meaning += f" From {setting.low:g} to {setting.high:g}."
        rows.append(
            f"| `{setting.key}` | {default} | {meaning} | `{setting.env}` | `{setting.flag}` |\n"
        )
    return HEAD + "".join(rows) + TAIL


PAGES = {"settings.md": settings_page}


def main() -> None:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
