import hashlib
from pathlib import Path

import pytest

from ambientd.errors import ModelError
from ambientd.speech import models


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"weights")
    return folder, {"model.bin": hashlib.sha256(b"weights").hexdigest()}


def test_a_changed_file_is_refused_by_name(
    model: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, hashes = model
    models.verify(folder, hashes, tmp_path / "state")
    (folder / "model.bin").write_bytes(b"Weights")
    with pytest.raises(ModelError, match=r"model\.bin") as caught:
        models.verify(folder, hashes, tmp_path / "state")
    assert caught.value.code == "model_mismatch"


def test_a_missing_file_is_refused(model: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    folder, hashes = model
    (folder / "model.bin").unlink()
    with pytest.raises(ModelError):
        models.verify(folder, hashes, tmp_path / "state")


def test_a_file_is_hashed_once_and_again_when_it_looks_different(
    model: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hashes = model
    hashed: list[Path] = []
    real = models._sha256

    def count(path: Path) -> str:
        hashed.append(path)
        return real(path)

    monkeypatch.setattr(models, "_sha256", count)
    for _ in range(3):
        models.verify(folder, hashes, tmp_path / "state")
    assert len(hashed) == 1
    (folder / "model.bin").write_bytes(b"weights")
    models.verify(folder, hashes, tmp_path / "state")
    assert len(hashed) == 2


@pytest.mark.parametrize("memory", [b"", b"[]", b"\xff", b'{"x":'])
def test_a_broken_memory_only_costs_another_look(
    model: tuple[Path, dict[str, str]], tmp_path: Path, memory: bytes
) -> None:
    folder, hashes = model
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / models.MEMORY).write_bytes(memory)
    models.verify(folder, hashes, tmp_path / "state")


def test_an_own_folder_must_hold_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.bin.*missing"):
        models.ready(str(tmp_path), tmp_path)
    for name in models.REQUIRED:
        (tmp_path / name).write_bytes(b"")
    assert models.ready(str(tmp_path), tmp_path) == tmp_path


def test_the_packaged_model_is_the_published_one(tmp_path: Path) -> None:
    folder = models.ready("tiny.en", tmp_path)
    assert {path.name for path in folder.iterdir()} >= set(models.SHA256)


def test_a_package_that_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(models, "PACKAGE", "no_such_package")
    with pytest.raises(ModelError, match="tiny-en"):
        models.ready("tiny.en", tmp_path)
