"""What the speech benches play: recordings in sets, each with what was said where that is known.

- ``sample``: the talk of two that the demo plays.
- ``people``: the recordings of people in the wheel of moonshine-voice, from PyPI. Their words are
  not given there, so they have delays and no error rate.
- ``corpus``: English recordings listed in the manifest.jsonl of the folder AMBIENT_BENCH_AUDIO.
- ``no-speech``: what this file makes, and the recordings of that folder without speech.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import soundfile
import soxr

RATE_HZ = 16_000
GAP_S = 1.5
"""Silence behind each recording when a set is played as one talk."""

DATA = Path(__file__).parents[1] / "data"
WHEELS = Path(__file__).parents[2] / ".bench"
PEOPLE_WHEEL = "moonshine-voice==0.1.5"
PEOPLE = ("beckett.wav", "endgame_nagg_nell.wav", "two_cities.wav")


class Recording(NamedTuple):
    """One recording.

    Attributes:
        name: what it is called in tables.
        samples: 16-bit samples at RATE_HZ, as the spool has them.
        text: what is said in it; empty for no speech; None if that is not known.
    """

    name: str
    samples: numpy.ndarray
    text: str | None


def load(name: str) -> list[Recording]:
    """Return a set; empty if it is not on this machine."""
    return SETS[name]()


def join(recordings: list[Recording]) -> tuple[numpy.ndarray, list[tuple[int, int]]]:
    """Return a set as one talk, and where each recording lies in it, in milliseconds."""
    gap = numpy.zeros(int(GAP_S * RATE_HZ), dtype=numpy.int16)
    pieces, spans, position = [], [], 0
    for recording in recordings:
        pieces += [recording.samples, gap]
        end = position + len(recording.samples)
        spans.append((position * 1000 // RATE_HZ, (end + len(gap)) * 1000 // RATE_HZ))
        position = end + len(gap)
    return numpy.concatenate(pieces), spans


def _sample() -> list[Recording]:
    said = json.loads((DATA / "standup.json").read_text(encoding="utf-8"))
    text = " ".join(line["text"] for line in said["lines"])
    return [Recording("standup", _read(DATA / "standup.flac"), text)]


def _people() -> list[Recording]:
    if not any(WHEELS.glob("moonshine_voice-*.whl")):
        WHEELS.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        done = subprocess.run([*pip, "--dest", str(WHEELS), PEOPLE_WHEEL], check=False)
        if done.returncode:
            return []
    (wheel,) = WHEELS.glob("moonshine_voice-*.whl")
    if not zipfile.is_zipfile(wheel):
        raise SystemExit(f"{wheel} is damaged; remove it")
    with zipfile.ZipFile(wheel) as archive:
        inside = {Path(name).name: name for name in archive.namelist()}
        found = []
        for name in PEOPLE:
            with archive.open(inside[name]) as file:
                samples, rate_hz = soundfile.read(file, dtype="float32", always_2d=True)
            found.append(Recording(name, _to_spool(samples.mean(axis=1), rate_hz), None))
    return found


def _corpus() -> list[Recording]:
    found = []
    for path, entry in _manifest():
        if entry["language"] != "en" or entry["score"] != "wer":
            continue
        by_channel: list[str] = entry.get("channel_text", [])
        for channel, text in enumerate(by_channel):
            found.append(Recording(f"{path.name} {channel}", _read(path, channel), text))
        if not by_channel:
            found.append(Recording(path.name, _read(path), entry["text"]))
    return found


def _no_speech() -> list[Recording]:
    made = [
        Recording(name, (numpy.clip(samples, -1, 1) * 32767).astype(numpy.int16), "")
        for name, samples in _noises().items()
    ]
    recorded = [
        Recording(path.name, _read(path), "")
        for path, entry in _manifest()
        if entry["kind"] == "nonspeech"
    ]
    return made + recorded


def _noises() -> dict[str, numpy.ndarray]:
    random = numpy.random.default_rng(1)
    seconds = numpy.arange(20 * RATE_HZ) / RATE_HZ
    hum = numpy.zeros_like(seconds)
    for harmonic in (1, 2, 3, 5, 7):
        hum += numpy.sin(2 * numpy.pi * 50 * harmonic * seconds) / harmonic
    clicks = numpy.zeros_like(seconds)
    clicks[random.integers(0, len(clicks), 60)] = random.uniform(-0.9, 0.9, 60)
    tones = numpy.sin(2 * numpy.pi * numpy.repeat([440, 1000, 300, 2500], 5 * RATE_HZ) * seconds)
    return {
        "zeros": numpy.zeros_like(seconds),
        **{
            f"white {level} dBFS": random.normal(0, 10 ** (level / 20), len(seconds))
            for level in (-60, -40, -30)
        },
        "hum": 0.1 * hum,
        "clicks": clicks,
        "tones": 0.3 * tones,
        "music": _music(),
    }


def _music() -> numpy.ndarray:
    """Return half a minute of plucked chords over a bass."""
    random = numpy.random.default_rng(2)
    out = numpy.zeros(32 * RATE_HZ)
    note = numpy.arange(int(1.8 * RATE_HZ)) / RATE_HZ
    for beat in range(60):
        root = 110 * 2 ** (random.choice([0, 3, 5, 7]) / 12)
        for step in (0, 4, 7, 12):
            hertz = root * 2 ** (step / 12) * (2 if beat % 4 else 1)
            tone = sum(numpy.sin(2 * numpy.pi * hertz * n * note) / n**1.5 for n in range(1, 6))
            start = beat * RATE_HZ // 2
            end = min(len(out), start + len(note))
            out[start:end] += 0.05 * (tone * numpy.exp(-3 * note))[: end - start]
    return out


def _manifest() -> list[tuple[Path, dict[str, Any]]]:
    folder = Path(os.environ.get("AMBIENT_BENCH_AUDIO", ""))
    if not (folder / "manifest.jsonl").is_file():
        return []
    lines = (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    return [(folder / entry["file"], entry) for entry in entries]


def _read(path: Path, channel: int | None = None) -> numpy.ndarray:
    try:
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        from faster_whisper.audio import decode_audio  # for what libsndfile does not know

        samples, rate_hz = decode_audio(str(path), sampling_rate=RATE_HZ)[:, None], RATE_HZ
    mono = samples.mean(axis=1) if channel is None else samples[:, channel]
    return _to_spool(mono, rate_hz)


def _to_spool(mono: numpy.ndarray, rate_hz: int) -> numpy.ndarray:
    resampled = mono if rate_hz == RATE_HZ else soxr.resample(mono, rate_hz, RATE_HZ)
    return numpy.clip(numpy.round(resampled * 32768), -32768, 32767).astype(numpy.int16)


SETS = {"sample": _sample, "people": _people, "corpus": _corpus, "no-speech": _no_speech}

WHERE = {
    "people": f"pip could not download {PEOPLE_WHEEL}",
    "corpus": "name a folder with a manifest.jsonl by AMBIENT_BENCH_AUDIO",
}
"""What to do about a set that is not here."""
