"""Makes standup.flac and standup.json anew: a made-up talk of two, about half a minute.

Ann is spoken by hibari-tts (PyPI, Apache-2.0, voice "heart"), Ben by espeak-ng (voice "en-us+m3").
Text and recording belong to this project. Needs `pip install hibari-tts` beside the project's own
dependencies, and espeak-ng.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy
import soundfile
import soxr

RATE_HZ = 24_000
BETWEEN_SPEAKERS_S = 1.0
BETWEEN_SENTENCES_S = 0.6
LEVEL = 0.07
NOISE_DBFS = -80
EDGE = 0.004

TALK = (
    ("ann", "Good morning. Did the build finish last night?"),
    ("ben", "Yes, it passed, but the upload took very long."),
    ("ann", "How long?"),
    ("ben", "About forty minutes. I think the server was busy."),
    ("ann", "Then let us move the upload to the new server before Thursday."),
    ("ben", "Good idea. I will test it this afternoon and send you the results."),
    ("ann", "Thank you. Please tell me when it works."),
)


def speak(who: str, text: str, out: Path) -> Any:
    """Return one sentence, cut to its speech, at RATE_HZ and LEVEL."""
    if who == "ann":
        command = ["hibari", text, "-o", str(out), "--seed", "7"]
    else:
        command = ["espeak-ng", "-v", "en-us+m3", "-s", "150", "-p", "38", "-w", str(out), text]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    samples, rate_hz = soundfile.read(out, dtype="float32")
    samples = soxr.resample(samples, rate_hz, RATE_HZ)
    loud = numpy.flatnonzero(numpy.abs(samples) > EDGE)
    samples = samples[max(0, loud[0] - 240) : loud[-1] + 240]
    return samples / numpy.sqrt(numpy.mean(samples**2)) * LEVEL


def main() -> None:
    folder = Path(__file__).parent
    parts = [numpy.zeros(RATE_HZ * 6 // 10, dtype=numpy.float32)]
    lines = []
    position = len(parts[0])
    with tempfile.TemporaryDirectory() as temporary:
        for who, text in TALK:
            sentences = [part.strip() + text[-1] for part in text[:-1].split(". ")]
            sentences = [*(part[:-1] + "." for part in sentences[:-1]), sentences[-1]]
            for sentence in sentences:
                samples = speak(who, sentence, Path(temporary) / "sentence.wav")
                end = position + len(samples)
                lines.append(
                    {
                        "speaker": who,
                        "start_ms": position * 1000 // RATE_HZ,
                        "end_ms": end * 1000 // RATE_HZ,
                        "text": sentence,
                    }
                )
                pause_s = BETWEEN_SPEAKERS_S if sentence == sentences[-1] else BETWEEN_SENTENCES_S
                pause = numpy.zeros(int(pause_s * RATE_HZ), dtype=numpy.float32)
                parts += [samples, pause]
                position = end + len(pause)
    talk = numpy.concatenate(parts)
    noise = numpy.random.default_rng(1).normal(0, 10 ** (NOISE_DBFS / 20), len(talk))
    soundfile.write(folder / "standup.flac", talk + noise, RATE_HZ, subtype="PCM_16")
    reference = {"about": (__doc__ or "").splitlines()[2], "lines": lines}
    text = json.dumps(reference, indent=1) + "\n"
    (folder / "standup.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
