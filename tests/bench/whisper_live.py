"""Streams a recording to WhisperLive in real time and notes when text came. Run by its own Python.

    VENV/bin/python tests/bench/whisper_live.py MODEL_FOLDER TALK.wav

MODEL_FOLDER is the same model that the daemon has; the WAV is 16 kHz, 16 bit. Prints JSON:
``segments`` as they stood at the end; ``completed`` and ``shown``: start_s and end_s of each
stretch of text in the recording, and at_s since it began; and ``cpu_s`` of the server.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import wave
from pathlib import Path
from typing import Any

PORT = 9191
CHUNK_FRAMES = 1024
"""64 ms; its own client sends 256 ms, which would count against it."""

LAST_WORDS_S = 8.0

SERVER = """
import sys
from whisper_live.server import TranscriptionServer
TranscriptionServer().run(
    "127.0.0.1", port=int(sys.argv[1]), backend="faster_whisper",
    faster_whisper_custom_model_path=sys.argv[2],
)
"""


def main() -> None:
    model, path = sys.argv[1:]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(PORT), model], env=environ, stdout=sys.stderr
    )
    try:
        wait_for_port()
        print(json.dumps(stream(path, server.pid)))
    finally:
        server.kill()
        server.wait()


def wait_for_port() -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("WhisperLive did not start")


def stream(path: str, server_pid: int) -> dict[str, Any]:
    import numpy
    from websockets.sync.client import connect

    with wave.open(path) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), dtype=numpy.int16)
    audio = samples.astype(numpy.float32) / 32768
    seen: list[tuple[float, list[dict[str, Any]]]] = []
    ready = threading.Event()
    with connect(f"ws://127.0.0.1:{PORT}", max_size=None) as link:
        options = {"uid": "bench", "language": "en", "task": "transcribe", "model": "tiny.en"}
        link.send(json.dumps({**options, "use_vad": True, "send_last_n_segments": 1000}))

        def listen() -> None:
            for message in link:
                got = json.loads(message)
                if got.get("message") == "SERVER_READY":
                    ready.set()
                elif "segments" in got:
                    seen.append((time.monotonic(), got["segments"]))

        threading.Thread(target=listen, daemon=True).start()
        if not ready.wait(120):
            raise SystemExit("WhisperLive is not ready")
        used_s = cpu_s(server_pid)
        begun_s = time.monotonic()
        for start in range(0, len(audio), CHUNK_FRAMES):
            # A chunk can be sent when its last sample has been spoken.
            due_s = begun_s + (start + CHUNK_FRAMES) / 16_000
            time.sleep(max(0.0, due_s - time.monotonic()))
            link.send(audio[start : start + CHUNK_FRAMES].tobytes())
        time.sleep(LAST_WORDS_S)
        used_s = cpu_s(server_pid) - used_s
    return {
        "segments": seen[-1][1] if seen else [],
        "completed": firsts(seen, begun_s, only_completed=True),
        "shown": firsts(seen, begun_s, only_completed=False),
        "cpu_s": used_s,
    }


def firsts(
    seen: list[tuple[float, list[dict[str, Any]]]], begun_s: float, *, only_completed: bool
) -> list[tuple[float, float, float]]:
    """Return when each stretch of text was first there: its start and end, and that time."""
    found: dict[tuple[float, float], float] = {}
    for at_s, segments in seen:
        for segment in segments:
            if segment.get("completed") or not only_completed:
                span = float(segment["start"]), float(segment["end"])
                found.setdefault(span, at_s - begun_s)
    return [(*span, at_s) for span, at_s in found.items()]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
