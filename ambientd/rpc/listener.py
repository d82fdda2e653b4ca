"""Binds the daemon's Unix socket and accepts connections on it.

The caller holds the root's lock. A socket file that is left over is removed only after a connection
to it was refused and it is known to be a socket of this user: a live daemon is never evicted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import stat
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.abc
from anyio.abc import SocketAttribute

from ambientd import logs, paths, wire
from ambientd.errors import AlreadyRunningError, RootError, SocketError
from ambientd.rpc.connection import Connection
from ambientd.rpc.service import Service

MAX_CONNECTIONS = 256
BACKLOG = 1024
"""A burst of clients waits here instead of being told to try again."""

ACCEPT_RETRY_S = 0.2

FIRST_INHERITED_FD = 3
"""SD_LISTEN_FDS_START."""


@contextlib.asynccontextmanager
async def listening(candidates: list[str]) -> AsyncIterator[tuple[anyio.abc.SocketListener, str]]:
    """Bind the first candidate that may be bound; removes the socket file at the end.

    With socket activation the inherited socket is used as it is.

    Yields:
        The listener and the path it listens on.

    Raises:
        AlreadyRunningError: a daemon answers there.
        SocketError: none can be bound.
    """
    inherited = _inherited()
    if inherited is not None:
        # A service manager's: it is not ours to probe, bind or remove.
        async with await anyio.abc.SocketListener.from_socket(inherited) as listener:
            yield listener, str(inherited.getsockname())
        return
    bound, path = _bind_first(candidates)
    made = os.lstat(path)
    bound.setblocking(False)
    async with await anyio.abc.SocketListener.from_socket(bound) as listener:
        try:
            yield listener, path
        finally:
            # While it still listens, so that it cannot be another daemon's that took our place.
            with contextlib.suppress(OSError):
                now = os.lstat(path)
                if (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino):
                    os.unlink(path)


def _inherited() -> socket.socket | None:
    """Return the socket of socket activation, if there is one (sd_listen_fds(3))."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    inherited = socket.socket(fileno=FIRST_INHERITED_FD)
    inherited.setblocking(False)
    os.set_inheritable(FIRST_INHERITED_FD, False)
    return inherited


def _bind_first(candidates: list[str]) -> tuple[socket.socket, str]:
    problems = []
    for path in candidates:
        try:
            _check_length(path)
            paths.prepare_private_folder(Path(path).parent)
            return _bind(path), path
        except AlreadyRunningError:
            raise
        except (SocketError, RootError) as error:
            problems.append(error)
    first = problems[0]
    raise SocketError(first.message, first.hint or "set AMBIENT_SOCKET to another path")


def _check_length(path: str) -> None:
    if len(os.fsencode(path)) > wire.MAX_SOCKET_PATH_BYTES:
        raise SocketError(
            f"socket path too long ({len(os.fsencode(path))} bytes, at most "
            f"{wire.MAX_SOCKET_PATH_BYTES}): {path}",
            "set AMBIENT_SOCKET to a shorter path",
        )


def _bind(path: str) -> socket.socket:
    with _only_one(path):
        return _bind_alone(path)


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Keep others from probing, removing and binding the same path in between.

    Daemons of different roots hold different locks and may be told the same socket.
    """
    name = f"{path}.lock"
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SocketError(f"cannot open {name}: {error.strerror}") from None
    try:
        # Held for a moment only, and the file stays: removing it would let a third bind meanwhile.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise AlreadyRunningError(
            f"another ambientd is about to listen on {path}", "stop it, or set AMBIENT_SOCKET"
        ) from None
    finally:
        os.close(fd)


def _bind_alone(path: str) -> socket.socket:
    _remove_dead_socket(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Created 0600 whatever the umask: chmod afterwards would leave a moment in between.
        mask = os.umask(0o177)
        try:
            bound.bind(path)
        finally:
            os.umask(mask)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise SocketError(f"cannot bind {path}: {error.strerror}") from None
    return bound


def _remove_dead_socket(path: str) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SocketError(f"cannot use {path}: {error.strerror}") from None
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        raise SocketError(f"{path} exists and is no socket of yours", "move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            # A full backlog or a stopped daemon: somebody is there.
        raise AlreadyRunningError(
            f"another ambientd answers on {path}", "stop it first, or set AMBIENT_SOCKET"
        )


async def serve(listener: anyio.abc.SocketListener, service: Service) -> None:
    """Accept connections until cancelled. Neither a connection nor accepting can end it."""
    open_connections = 0

    async def handle(stream: anyio.abc.SocketStream) -> None:
        try:
            await answer(stream)
        except Exception:  # noqa: BLE001 - a defect in one connection ends that connection
            logs.event("connection.failed", level=logging.ERROR, exc_info=True)
        finally:
            await anyio.aclose_forcefully(stream)

    async def answer(stream: anyio.abc.SocketStream) -> None:
        nonlocal open_connections
        if not _is_own_user(stream):
            logs.event("connection.refused", level=logging.WARNING, reason="other user")
            return
        if open_connections >= MAX_CONNECTIONS:
            await _turn_away(stream)
            return
        open_connections += 1
        try:
            await Connection(stream, service).serve()
        finally:
            open_connections -= 1

    async with anyio.create_task_group() as connections:
        while True:
            try:
                await listener.serve(handle, connections)
            except (OSError, anyio.BrokenResourceError) as error:
                # Too many open files, most likely: those who wait are accepted when some close.
                reason = error.__cause__ or error
                logs.event("accept.failed", level=logging.ERROR, reason=reason)
                await anyio.sleep(ACCEPT_RETRY_S)


def _is_own_user(stream: anyio.abc.SocketStream) -> bool:
    raw = stream.extra(SocketAttribute.raw_socket)
    if sys.platform == "linux":
        credentials = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _pid, uid, _gid = struct.unpack("3i", credentials)
        return bool(uid == os.getuid())
    # macOS: LOCAL_PEERCRED (sys/un.h) gives a struct xucred: version, then the uid.
    credentials = raw.getsockopt(0, 1, 76)
    return bool(struct.unpack_from("Ii", credentials)[1] == os.getuid())


async def _turn_away(stream: anyio.abc.SocketStream) -> None:
    fault = wire.Fault(
        wire.TOO_MANY_CONNECTIONS, f"more than {MAX_CONNECTIONS} connections; close some"
    )
    with anyio.move_on_after(1), contextlib.suppress(anyio.BrokenResourceError):
        await stream.send(wire.encode(wire.error(fault)))
