"""The errors a person can act on: what went wrong, and what to do about it.

Anything else that is raised is a defect of ours and ends in a traceback. Codes are part of the
contract with the control clients; sentences are not.
"""

from __future__ import annotations

import errno

from ambientd import wire


class AmbientError(Exception):
    """Base of every error that is reported as one line.

    Attributes:
        message: what went wrong, without a full stop.
        hint: what to do about it, or an empty string.
        code: a stable snake_case name.
        exit_code: what a command exits with when this ends it.
    """

    code = "failed"
    exit_code = wire.EXIT_FAILED

    def __init__(self, message: str, hint: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


def cause(error: Exception) -> Exception:
    """Return what failed in a task group: the first error in it that is no group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


class SettingsError(AmbientError):
    """A settings file, variable or flag that cannot be used."""

    code = "bad_settings"

    @classmethod
    def in_flag(cls, message: str, hint: str = "") -> SettingsError:
        """Return the error for a wrong flag, which is a wrong usage."""
        error = cls(message, hint)
        error.exit_code = wire.EXIT_USAGE
        return error


class RootError(AmbientError):
    """The sessions folder cannot be used."""

    code = "bad_root"


class SocketError(AmbientError):
    """The daemon's socket cannot be bound."""

    code = "bad_socket"


class AlreadyRunningError(AmbientError):
    """Another daemon serves this root or this socket."""

    code = "already_running"


class CaptureError(AmbientError):
    """The microphone, or the file that stands in for it, cannot be used."""

    code = "capture_failed"


class ModelError(AmbientError):
    """The speech model is missing, or is not the one it should be."""

    code = "model_missing"


class StoreError(AmbientError):
    """A session's files cannot be read or written."""

    code = "store_failed"


class WriteError(StoreError):
    """The disk did not take something.

    Attributes:
        state: what that makes of the disk, as ``disk_state`` says it.
        may_pass: whether the same write may succeed later.
    """

    code = "write_failed"

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"cannot write {what}: {error.strerror}", disk_advice(error))
        self.state = disk_state(error)
        self.may_pass = may_pass(error)


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def disk_state(error: OSError) -> str:
    """Return ``disk_full`` if there was no room for us, else ``disk_failing``."""
    return "disk_full" if error.errno in _NO_ROOM else "disk_failing"


def disk_advice(error: OSError) -> str:
    """Return what a person can do about a write that failed, or an empty string."""
    if error.errno in _NO_ROOM:
        return "free some room"
    if error.errno == errno.EROFS:
        return "its disk can only be read: mount it for writing"
    return "its disk fails: see the system's log" if error.errno == errno.EIO else ""


def may_pass(error: OSError) -> bool:
    """Tell whether the same call may succeed later: a full disk may get room."""
    return error.errno in _MAY_PASS


_MAY_PASS = {
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EROFS,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


class RefusedError(AmbientError):
    """A request that was understood and declined."""

    code = "refused"
    exit_code = wire.EXIT_REFUSED
