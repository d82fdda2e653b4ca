"""The service files are well-formed and keep what the daemon relies on."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from ambientd import daemon

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "systemd" / "ambientd.service"
AGENT = ROOT / "launchd" / "dev.ambient.ambientd.plist"


def test_the_unit_is_one_that_systemd_accepts(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / UNIT.name
    # The program is looked for, so it must be one that is there.
    text = UNIT.read_text(encoding="utf-8").replace("%h/.local/bin/ambientd", "/bin/true")
    unit.write_text(text, encoding="utf-8")
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stop_has_more_time_than_the_drain_takes() -> None:
    unit = dict(
        line.split("=", 1) for line in UNIT.read_text(encoding="utf-8").splitlines() if "=" in line
    )
    agent = plistlib.loads(AGENT.read_bytes())
    assert int(unit["TimeoutStopSec"]) > daemon.DRAIN_S
    assert agent["ExitTimeOut"] > daemon.DRAIN_S
    assert agent["Umask"] == 0o077
    assert unit["UMask"] == "0077"
