"""A private PulseAudio with virtual devices: a microphone that only hears what is played to it.

Nothing of it is a mock: PortAudio opens ALSA, ALSA's pulse plugin talks to a real server.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_TIMEOUT_S = 20.0

ALSA_CONFIG = """\
</usr/share/alsa/alsa.conf>
pcm.!default { type pulse }
ctl.!default { type pulse }
"""

NEEDED = {
    "pulseaudio": "pulseaudio",
    "pactl": "pulseaudio-utils",
    "paplay": "pulseaudio-utils",
}
LIBRARIES = {
    "libportaudio.so.2": "libportaudio2",
    "alsa-lib/libasound_module_pcm_pulse.so": "libasound2-plugins",
}


def missing_packages() -> list[str]:
    """Return the Debian packages that a virtual microphone needs and that are not there."""
    missing = {package for tool, package in NEEDED.items() if shutil.which(tool) is None}
    for file, package in LIBRARIES.items():
        folders = (Path("/usr/lib"), Path("/usr/local/lib"))
        if not any(list(folder.glob(f"**/{file}")) for folder in folders):
            missing.add(package)
    return sorted(missing)


class Server:
    """A running server with the sinks ``room`` and ``call`` and the source ``mic``.

    Attributes:
        environ: the variables that a child process needs to see only this server.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "pulse.sock"
        config = folder / "asound.conf"
        config.write_text(ALSA_CONFIG, encoding="utf-8")
        self.environ = {
            "PULSE_SERVER": f"unix:{self._socket}",
            "ALSA_CONFIG_PATH": str(config),
            "XDG_RUNTIME_DIR": str(folder),
            "PULSE_RUNTIME_PATH": str(folder),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return when it answers."""
        modules = (
            f"module-native-protocol-unix auth-anonymous=1 socket={self._socket}",
            "module-null-sink sink_name=room",
            "module-null-sink sink_name=call",
            "module-remap-source master=room.monitor source_name=mic",
        )
        with (self._folder / "pulse.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "pulseaudio",
                    "-n",
                    "--daemonize=no",
                    "--exit-idle-time=-1",
                    "--use-pid-file=no",
                    *(f"--load={module}" for module in modules),
                ],
                env={**os.environ, **self.environ},
                stdout=log,
                stderr=log,
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while self.control("set-default-source", "mic", check=False) != 0:
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                log_text = (self._folder / "pulse.log").read_text(encoding="utf-8")
                raise RuntimeError(f"pulseaudio did not start:\n{log_text}")
            time.sleep(0.05)

    def control(self, *arguments: str, check: bool = True) -> int:
        """Run pactl and return its exit code."""
        return subprocess.run(
            ["pactl", *arguments],
            env={**os.environ, **self.environ},
            check=check,
            capture_output=True,
            timeout=20,
        ).returncode

    def streams(self) -> int:
        """Return how many programs record at the moment."""
        listed = subprocess.run(
            ["pactl", "list", "short", "source-outputs"],
            env={**os.environ, **self.environ},
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        )
        # The server's own modules have streams, too.
        return sum("protocol-native.c" in row for row in listed.stdout.splitlines())

    def load(self, module: str, *arguments: str) -> str:
        """Load a module and return its index, for ``unload``."""
        done = subprocess.run(
            ["pactl", "load-module", module, *arguments],
            env={**os.environ, **self.environ},
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        )
        return done.stdout.strip()

    def unload(self, index: str) -> None:
        """Unload a module: what it made goes away as if it was unplugged."""
        self.control("unload-module", index)

    def speak(self, path: Path, sink: str = "room") -> subprocess.Popen[bytes]:
        """Start playing a file to a sink in real time; wait on the result for its end."""
        return subprocess.Popen(
            ["paplay", f"--device={sink}", str(path)], env={**os.environ, **self.environ}
        )

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the server's process until the end of the block: it is there and never answers."""
        if self._process is None:
            raise RuntimeError("the server does not run")
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the server, as a crash of the audio system would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._socket.unlink(missing_ok=True)


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Run a server until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pulse-") as folder:
        running = Server(Path(folder))
        running.start()
        try:
            yield running
        finally:
            running.kill()
