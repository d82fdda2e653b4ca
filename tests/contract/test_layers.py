"""What may import what, checked on the real modules of fresh processes and on the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THIRD_PARTY = {
    "anyio",
    "ctranslate2",
    "faster_whisper",
    "numpy",
    "onnxruntime",
    "pulsectl",
    "rich",
    "sounddevice",
    "soundfile",
    "soxr",
    "watchfiles",
}
LAYERS = (
    {"wire", "units", "descriptors", "dial", "clock"},
    {"errors"},
    {"consent", "guards"},
    {"settings", "paths", "logs", "pipe", "child"},
    {"audio", "speech", "store"},
    {"tools"},
    {"mcp"},
    {"rpc"},
    {"finishing", "capture", "notify"},
    {"track"},
    {"inputs", "standing"},
    {"recording", "recovery", "storage", "standby"},
    {"arming", "continuing", "soundcheck"},
    {"daemon"},
    {"report"},
    {"control"},
    {"assistant"},
    {"main"},
    {"__main__"},
)


def modules_after(code: str) -> set[str]:
    """Return the names of all modules that a fresh process has loaded after running code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    ["import ambient_cli.main, ambient_cli.shim, ambient_cli.link", "import ambientctl.main"],
)
def test_clients_load_the_standard_library_and_the_wire_alone(code: str) -> None:
    loaded = modules_after(code)
    assert not loaded & (THIRD_PARTY | {"asyncio"})
    ours = {name for name in loaded if name.split(".")[0] == "ambientd"}
    assert ours - {"ambientd.units"} == {
        "ambientd",
        "ambientd.descriptors",
        "ambientd.dial",
        "ambientd.wire",
    }


def test_reading_without_a_daemon_needs_the_standard_library_alone() -> None:
    loaded = modules_after("import ambientd.mcp, ambientd.store.reading, ambientd.tools.sessions")
    assert not loaded & (THIRD_PARTY | {"asyncio"})


def test_the_daemon_loads_no_audio_and_no_model_library() -> None:
    loaded = modules_after("import ambientd.main")
    assert loaded & THIRD_PARTY == {"anyio"}


def test_importing_every_module_needs_no_portaudio(tmp_path: Path) -> None:
    (tmp_path / "sounddevice.py").write_text("raise OSError('not found')", encoding="utf-8")
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "ambientd").rglob("*.py"))
        if path.stem not in {"__main__", "__init__"}
    ]
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {', '.join(names)}"
    assert {"ambientd.audio.portaudio", "ambientd.speech.worker"} <= modules_after(code)


def test_only_one_file_imports_the_device_library() -> None:
    users = [
        path.name
        for path in (ROOT / "ambientd").rglob("*.py")
        if "sounddevice" in imported_names(path)
    ]
    assert users == ["portaudio.py"]


def imported_names(path: Path) -> set[str]:
    """Return the dotted names a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_imports_point_down_only() -> None:
    level = {name: depth for depth, layer in enumerate(LAYERS) for name in layer}
    wrong = []
    for path in sorted((ROOT / "ambientd").rglob("*.py")):
        parts = path.relative_to(ROOT / "ambientd").with_suffix("").parts
        if parts == ("__init__",):
            continue
        for name in imported_names(path):
            words = name.split(".")
            if words[0] == "ambientd" and len(words) > 1 and words[1] in level:
                target = words[1]
                same_package = target == parts[0]
                if not same_package and level[target] > level[parts[0]]:
                    wrong.append(f"{'/'.join(parts)} imports {name}")
    assert not wrong
