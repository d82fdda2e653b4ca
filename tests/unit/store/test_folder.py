"""Containment: nothing below the root leads out of it, whatever lies there."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
from pathlib import Path

import pytest

from ambientd.errors import StoreError
from ambientd.store.folder import DiskError, Folder, RefusedFileError, open_root

LIMIT = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    return tmp_path / "root"


def opened(root: Path) -> Folder:
    folder = open_root(str(root))
    assert folder is not None
    return folder


def test_the_root_may_be_a_link_and_is_resolved_once(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    with opened(root.parent / "link") as folder:
        assert folder.path == str(root)
        (root.parent / "link").unlink()
        (root.parent / "link").symlink_to(root.parent / "outside")
        assert folder.read("file", LIMIT) == b"inside"


def test_what_is_not_there_is_none(root: Path) -> None:
    with opened(root) as folder:
        assert folder.read("nothing", LIMIT) is None
        assert folder.subfolder("nothing") is None
        assert folder.subfolder("\udcff\ud800") is None
    assert open_root(str(root / "nothing")) is None


@pytest.mark.parametrize("target", ["../outside/secret", "file", "/etc/passwd", "nowhere"])
def test_a_link_in_a_files_place_is_refused_by_name(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    with opened(root) as folder, pytest.raises(RefusedFileError) as caught:
        folder.read("link", LIMIT)
    assert str(caught.value) == f"refusing symlink {root / 'link'}"


def test_a_link_in_a_folders_place_is_refused(root: Path) -> None:
    (root / "link").symlink_to("../outside")
    (root / "dot").symlink_to(".")
    with opened(root) as folder:
        for name in ("link", "dot", "file"):
            with pytest.raises(RefusedFileError):
                folder.subfolder(name)


def test_nothing_but_a_regular_file_is_read_and_nothing_is_waited_for(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    names = ["fifo", "folder"]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        names.append("socket")
        if os.geteuid() == 0:
            os.mknod(root / "device", 0o600 | 0o020000, os.makedev(1, 3))
            names.append("device")
        with opened(root) as folder:
            for name in names:
                with pytest.raises(RefusedFileError, match="refusing symlink"):
                    folder.read(name, LIMIT)


def test_a_hard_link_is_a_regular_file_of_the_users_own(root: Path) -> None:
    # It cannot be told from the file itself, and only the user can have made it in a folder that
    # is the user's alone to write.
    os.link(root.parent / "outside" / "secret", root / "hard")
    with opened(root) as folder:
        assert folder.read("hard", LIMIT) == b"secret"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_an_error_with_its_name(root: Path) -> None:
    (root / "file").chmod(0)
    with opened(root) as folder, pytest.raises(StoreError, match=r"cannot read .*file"):
        folder.read("file", LIMIT)


def test_a_file_longer_than_any_of_ours_is_not_read(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(8 << 30)
    with opened(root) as folder, pytest.raises(StoreError, match="sparse: longer than 1000 bytes"):
        folder.read("sparse", LIMIT)


def test_what_could_not_be_looked_at_is_never_taken_for_absent(root: Path) -> None:
    """With no descriptor left, as in a daemon that others flood."""
    (root / "folder").mkdir()
    with opened(root) as folder, contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # The lowest number that is free becomes the limit: nothing more can be opened.
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        for look in (
            lambda: folder.read("file", LIMIT),
            lambda: folder.subfolder("folder"),
            lambda: folder.try_subfolder("folder"),
            folder.names,
        ):
            with pytest.raises(DiskError, match="Too many open files"):
                look()
        assert folder.is_there("file")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000])
def test_a_name_no_filesystem_takes_is_an_error(root: Path, name: str) -> None:
    with opened(root) as folder, pytest.raises(StoreError):
        folder.subfolder(name)


def test_a_swap_between_check_and_use_never_shows_what_is_outside(root: Path) -> None:
    """A file and a folder are replaced by links and back as fast as possible during the reads."""
    (root / "session").mkdir()
    (root / "session" / "raw").write_bytes(b"inside")
    stop = threading.Event()

    def swap() -> None:
        real, away = root / "session", root / "away"
        while not stop.is_set():
            real.rename(away)
            real.symlink_to("../outside")
            real.unlink()
            away.rename(real)
            file, kept = real / "raw", real / "kept"
            file.rename(kept)
            file.symlink_to("../../outside/secret")
            file.unlink()
            kept.rename(file)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        with opened(root) as folder:
            for _ in range(3000):
                try:
                    session = folder.subfolder("session")
                    if session is None:
                        continue
                    with session:
                        seen.add(session.read("raw", LIMIT))
                        seen.add(session.read("secret", LIMIT))
                except StoreError:
                    pass
    finally:
        stop.set()
        swapper.join()
    assert b"secret" not in seen
    with opened(root) as folder, folder.subfolder("session") or folder as session:
        assert session.read("raw", LIMIT) == b"inside"


def test_a_renamed_folder_is_still_the_one_that_was_opened(root: Path) -> None:
    with opened(root) as folder:
        root.rename(root.parent / "moved")
        root.mkdir()
        (root / "file").write_bytes(b"another")
        assert folder.read("file", LIMIT) == b"inside"
