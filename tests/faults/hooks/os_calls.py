"""Puts a fault around functions of ``os`` that are called for files below a folder."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

_readlink = os.readlink


def put_around(
    names: Iterable[str], folder: str, fault: Callable[[str, str, Callable[..., Any], Any], Any]
) -> None:
    """Have ``fault(name, path, call, arguments)`` called in the place of each function.

    Args:
        names: functions of ``os`` whose first argument is a path or a descriptor.
        folder: calls for paths that do not begin with it are made as always.
        fault: makes the call, ``call(*arguments)``, or does not.
    """
    for name in names:
        setattr(os, name, _within(name, folder, fault))


def _within(name: str, folder: str, fault: Callable[..., Any]) -> Any:
    real = getattr(os, name)

    @functools.wraps(real)
    def call(target: Any = ".", *args: Any, **kwargs: Any) -> Any:
        try:
            path = _path_of(target, kwargs.get("dir_fd", kwargs.get("src_dir_fd")))
        except OSError:
            path = ""
        if not path.startswith(folder):
            return real(target, *args, **kwargs)
        return fault(name, path, functools.partial(real, **kwargs), (target, *args))

    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if real in able:
            able.add(call)
    return call


def _path_of(target: Any, dir_fd: int | None) -> str:
    if isinstance(target, int):
        return _readlink(f"/proc/self/fd/{target}")
    folder = os.getcwd() if dir_fd is None else _readlink(f"/proc/self/fd/{dir_fd}")
    return os.path.join(folder, os.fsdecode(target))
