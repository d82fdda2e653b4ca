"""Containment: directories as open descriptors, and files below them that are what they seem.

Nothing below the root is ever opened by a joined path. Links are not followed, and what was opened
is checked on its own descriptor, so that a swap between check and use changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat

from ambientd.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO would wait for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_DENIED = {errno.EACCES, errno.EPERM}


class RefusedFileError(StoreError):
    """A name that is there and is no regular file, or no real directory."""

    code = "refused_file"


class DiskError(StoreError):
    """The system could not look: no descriptor or memory left, or a disk that fails.

    Says nothing of what is there, so it must never end in an answer that does.
    """

    code = "disk_failed"


def _error(doing: str, path: str, error: OSError) -> StoreError:
    """Return the error for a name that is there and could not be used."""
    kind = StoreError if error.errno in _DENIED | _NOT_THERE else DiskError
    return kind(f"cannot {doing} {path}: {error.strerror}")


class Folder:
    """An open directory. Use it in a ``with`` block.

    Attributes:
        fd: its descriptor.
        path: what people know it as; only for messages and rows.
    """

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self.fd)

    def subfolder(self, name: str) -> Folder | None:
        """Open a directory below this one.

        Returns:
            The folder; None if there is nothing of that name.

        Raises:
            RefusedFileError: it is a link, or no directory.
            StoreError: it may not be opened.
        """
        path = os.path.join(self.path, name)
        try:
            return Folder(os.open(name, _DIRECTORY, dir_fd=self.fd), path)
        except (FileNotFoundError, UnicodeEncodeError):
            return None  # a name that the filesystem cannot even spell is not there
        except OSError as error:
            if self.is_there(name) and not self.is_folder(name):
                raise RefusedFileError(f"refusing symlink {path}") from None
            raise _error("open", path, error) from None

    def try_subfolder(self, name: str) -> Folder | None:
        """Open a real directory below this one; None for anything else, or one we may not open.

        Raises:
            DiskError: it could not be looked at.
        """
        try:
            return self.subfolder(name)
        except DiskError:
            raise
        except StoreError:
            return None

    def read(self, name: str, limit_bytes: int) -> bytes | None:
        """Return a regular file's content; None if there is nothing of that name.

        Raises:
            RefusedFileError: it is anything but a regular file.
            StoreError: it may not be read, or is longer than ``limit_bytes``.
            DiskError: it could not be read.
        """
        found = self.read_from(name, lambda _: 0, limit_bytes)
        return None if found is None else found[1]

    def read_from(
        self, name: str, offset_of: Callable[[os.stat_result], int | None], limit_bytes: int
    ) -> tuple[os.stat_result, bytes | None] | None:
        """Return the status of a regular file as it was opened, and its content from an offset on.

        Args:
            name: the file's name.
            offset_of: takes the status and returns where to start, or None to read nothing.
            limit_bytes: the longest file that is read: nothing of ours is longer, and a sparse file
                of any length takes no room on the disk.

        Returns:
            The status, and the content or None if nothing was to be read; None if there is nothing
            of that name.

        Raises:
            RefusedFileError: it is anything but a regular file.
            StoreError: it may not be read, or is longer than ``limit_bytes``.
            DiskError: it could not be read.
        """
        path = os.path.join(self.path, name)
        try:
            fd = os.open(name, _FILE, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if self.is_there(name) and not self.is_file(name):
                raise RefusedFileError(f"refusing symlink {path}") from None
            raise _error("read", path, error) from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise RefusedFileError(f"refusing symlink {path}")
            offset = offset_of(status)
            if offset is None:
                return status, None
            if status.st_size > limit_bytes:
                raise StoreError(f"{path}: longer than {limit_bytes} bytes")
            with open(fd, "rb", closefd=False) as file:
                file.seek(offset)
                return status, file.read(limit_bytes)
        except OSError as error:
            raise _error("read", path, error) from None
        finally:
            os.close(fd)

    def status(self, name: str) -> os.stat_result | None:
        """Return what a name itself is, links not followed; None if there is nothing.

        Nothing, too, if this directory may not be searched.

        Raises:
            DiskError: it could not be looked at; so do the three below.
        """
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except ValueError:  # a name with a NUL, or one that cannot be spelt
            return None
        except OSError as error:
            if error.errno in _NOT_THERE | _DENIED:
                return None
            path = os.path.join(self.path, name)
            raise DiskError(f"cannot look at {path}: {error.strerror}") from None

    def is_there(self, name: str) -> bool:
        """Tell whether there is anything of that name."""
        return self.status(name) is not None

    def is_file(self, name: str) -> bool:
        """Tell whether a name is a regular file."""
        status = self.status(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def is_folder(self, name: str) -> bool:
        """Tell whether a name is a real directory."""
        status = self.status(name)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def names(self) -> list[str]:
        """Return the names in this directory, in no order.

        Raises:
            StoreError: it may not be listed.
            DiskError: it could not be.
        """
        try:
            return os.listdir(self.fd)
        except OSError as error:
            raise _error("list", self.path, error) from None

    def folders(self) -> list[str]:
        """Return the names of the real directories in this one; raises as ``names``."""
        try:
            with os.scandir(self.fd) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise _error("list", self.path, error) from None


def open_root(path: str) -> Folder | None:
    """Open the sessions folder; it may itself be a link.

    Returns:
        The folder; None if there is none yet.

    Raises:
        StoreError: it cannot be opened.
    """
    try:
        resolved = os.path.realpath(path)
        return Folder(os.open(resolved, _DIRECTORY), resolved)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error("open", path, error) from None
