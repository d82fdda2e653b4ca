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

CALL = "call"
"""What the speakers play."""

TRACKS = (ROOM, CALL)

# The longest of each that is read. A talk of a whole day is a few megabytes.
MAX_SESSION_BYTES = 1 << 20
MAX_LOCK_BYTES = 64
MAX_RAW_BYTES = 64 << 20
MAX_EDITS_BYTES = 16 << 20


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
    """Tell whether a name is a single path segment that cannot lead anywhere else.

    None is longer than 255 bytes on any filesystem of Linux or macOS (NAME_MAX).
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        return False
    return len(name.encode("utf-8", errors="surrogatepass")) <= 255
