"""The names in a session directory, and which names a session may have."""

SESSION = "session.json"
RAW = "raw.jsonl"
EDITS = "edits.jsonl"
EVENTS = "events.jsonl"
TRANSCRIPT = "transcript.md"
LOCK = "transcribing.lock"
AUDIO = "audio"

ROOM = "room"
"""The microphone's track."""

TRACKS = (ROOM, "call")


def native_wav(track: str) -> str:
    """Return the name of a capture that is open, below ``audio``."""
    return f"{track}.native.wav"


def final_wav(track: str) -> str:
    """Return the name of a capture that was closed, below ``audio``."""
    return f"{track}.wav"


def spool(track: str) -> str:
    """Return the name of the 16 kHz queue, below ``audio``."""
    return f"{track}.live.pcm"


def is_session_id(name: str) -> bool:
    """Tell whether a name is a single path segment that cannot lead anywhere else."""
    return bool(name) and name not in (".", "..") and "/" not in name and "\0" not in name
