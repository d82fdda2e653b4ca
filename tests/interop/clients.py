"""Installs the official clients that the interop tests drive: `python -m tests.interop.clients`.

Each goes into a folder of its own below .interop, so that no version is in the way of another.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".interop"
PYTHON_1 = FOLDER / "python-1"
NODE = FOLDER / "node"

VERSIONS = {
    "python 1.x": "mcp==1.30.0",
    "typescript 2.x": "@modelcontextprotocol/client@2.4.0",
    "typescript 1.x": "@modelcontextprotocol/sdk@1.32.2",
}


def missing() -> list[str]:
    """Return which of the clients are not installed."""
    found = {
        "python 1.x": (PYTHON_1 / "bin" / "python").exists(),
        "typescript 2.x": (NODE / "node_modules/@modelcontextprotocol/client").exists(),
        "typescript 1.x": (NODE / "node_modules/@modelcontextprotocol/sdk").exists(),
    }
    return [name for name, there in found.items() if not there]


def main() -> int:
    lacking = missing()
    if "python 1.x" in lacking:
        subprocess.run([sys.executable, "-m", "venv", str(PYTHON_1)], check=True)
        pip = [str(PYTHON_1 / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, VERSIONS["python 1.x"]], check=True)
    packages = [VERSIONS[name] for name in lacking if name.startswith("typescript")]
    if packages:
        if shutil.which("npm") is None:
            print("npm is missing: the TypeScript clients are left out", file=sys.stderr)
            return 0
        NODE.mkdir(parents=True, exist_ok=True)
        (NODE / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages],
            cwd=NODE,
            check=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
