"""The one table of settings, and how a value is found: flag > environment > file > default.

A row of ``SETTINGS`` is all a setting needs: its key in the TOML file, its variable, its flag, its
check and its documentation follow from it. Standard library only, because `ambient mcp` asks for
the root.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ambientd import wire
from ambientd.errors import SettingsError

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    Attributes:
        key: dotted name in the file, for example ``capture.device``.
        kind: str, int or float.
        default: the value when nothing else names one; None means "not set".
        doc: one sentence for a person.
        low: smallest accepted number.
        high: largest accepted number.
        choices: accepted words, if only some are.
        pattern: regular expression that a string must match as a whole.
        shape: the same in words.
        variable: environment variable; derived from the key unless it has a name of its own.
    """

    key: str
    kind: type[str] | type[int] | type[float]
    default: Value
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    shape: str = ""
    variable: str = ""

    @property
    def env(self) -> str:
        """Return the environment variable's name."""
        return self.variable or "AMBIENT_" + self.key.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        """Return the command-line flag of ``ambientd``."""
        return "--" + self.key.replace(".", "-").replace("_", "-")


SETTINGS: tuple[Setting, ...] = (
    Setting("root", str, None, "Folder that holds the sessions.", variable="AMBIENT_HOME"),
    Setting(
        "log_level",
        str,
        "info",
        "How much is logged on stderr.",
        choices=("debug", "info", "warning", "error"),
    ),
    Setting(
        "notifications",
        str,
        "on",
        "Desktop notifications when listening starts and stops, by notify-send or osascript.",
        choices=("on", "off"),
    ),
    Setting(
        "capture.device",
        str,
        None,
        "Name of the input device; the system's default input when not set.",
    ),
    Setting(
        "capture.disk_floor_mb",
        int,
        500,
        "Free room on the disk of the sessions, in MB, below which no recording starts and a "
        "running one is ended; 0 for none.",
        low=0,
        high=100_000,
    ),
    Setting(
        "capture.call",
        str,
        "off",
        "Records what the speakers play as a second track, call: off, auto (the monitor of the "
        "default output; Linux), or the name of an input.",
    ),
    Setting(
        "session.max_minutes",
        float,
        480.0,
        "Longest session in minutes; then it is ended.",
        low=0.01,
        high=10_080,
    ),
    Setting(
        "session.silence_minutes",
        float,
        60.0,
        "Minutes without speech after which a session that `ambientctl record` began is ended; 0 "
        "for never.",
        low=0,
        high=10_080,
    ),
    Setting(
        "session.continue_within_s",
        int,
        60,
        "Seconds since the last audio within which a session goes on when its daemon died and is "
        "started again; later, or with 0, it is finished.",
        low=0,
        high=3600,
    ),
    Setting(
        "armed.silence_minutes",
        float,
        10.0,
        "Minutes without speech after which a session that began by itself is ended.",
        low=0.01,
        high=10_080,
    ),
    Setting(
        "armed.after_reboot",
        str,
        "off",
        "Whether standing consent holds when the machine was restarted.",
        choices=("on", "off"),
    ),
    Setting(
        "mcp.toolsets",
        str,
        "sessions",
        "What `ambient mcp` offers an assistant: sessions (reads), control (starts and stops "
        "recordings), or both with a comma between.",
        pattern=r"(sessions|control)(,(sessions|control))*",
        shape="sessions, control, or both with a comma between",
    ),
    Setting(
        "mcp.allow_control",
        str,
        "off",
        "Whether the daemon obeys the tools of the toolset control.",
        choices=("on", "off"),
    ),
    Setting(
        "speech.model",
        str,
        "tiny.en",
        "The packaged model tiny.en, or the path of a folder with a CTranslate2 Whisper model.",
    ),
    Setting(
        "speech.engine",
        str,
        "ambientd.speech.engines.faster_whisper:FasterWhisper",
        "Speech engine, as an import path module:Class.",
        pattern=r"[\w.]+:\w+",
        shape="an import path module:Class",
    ),
    Setting(
        "speech.language",
        str,
        None,
        "Spoken language as a two-letter code; detected when not set (always en for *.en models).",
        pattern=r"[a-z]{2,3}",
        shape="a two-letter code such as en",
    ),
    Setting(
        "speech.threads",
        int,
        1,
        "Threads of the speech engine; more help models larger than tiny.",
        low=1,
        high=64,
    ),
    Setting("speech.beam_size", int, 5, "Beams of a decode; 1 is greedy.", low=1, high=20),
    Setting(
        "speech.early_decode",
        str,
        "on",
        "Decode a turn while its closing silence runs, when a core is idle: quicker, at the cost "
        "of the decodes of turns that go on after all.",
        choices=("on", "off"),
    ),
    Setting(
        "speech.unload_after_s",
        int,
        300,
        "Seconds without speech after which the model leaves memory.",
        low=1,
        high=86_400,
    ),
    Setting(
        "speech.vad_on", float, 0.40, "Voice probability that starts a turn.", low=0.01, high=0.99
    ),
    Setting(
        "speech.vad_off",
        float,
        0.30,
        "Voice probability under which a turn's closing silence is counted.",
        low=0.01,
        high=0.99,
    ),
    Setting(
        "speech.min_speech_ms", int, 250, "Shortest speech that makes a turn.", low=32, high=5000
    ),
    Setting("speech.end_silence_ms", int, 400, "Silence that ends a turn.", low=100, high=10_000),
    Setting(
        "speech.pad_before_ms", int, 400, "Audio kept before a turn's speech.", low=0, high=2000
    ),
    Setting(
        "speech.pad_after_ms",
        int,
        300,
        "Audio kept after a turn's speech, at most the closing silence.",
        low=0,
        high=2000,
    ),
    Setting(
        "speech.max_turn_ms",
        int,
        30_000,
        "Longest turn with its padding; a longer one is cut where it is least voiced.",
        low=5000,
        high=30_000,
    ),
)

PLACES = ("AMBIENT_SOCKET", "AMBIENT_STATE", "AMBIENT_CONFIG")
"""Variables that are no settings: they say where settings, state and socket are."""

BY_KEY: dict[str, Setting] = {setting.key: setting for setting in SETTINGS}


class Settings:
    """The effective values, by key.

    Attributes:
        sources: for each key, where its value came from: ``flag``, ``environment``, ``file`` or
            ``default``.
    """

    def __init__(self, values: Mapping[str, Value], sources: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.sources = dict(sources)

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def text(self, key: str) -> str:
        """Return a setting that is never unset as a string."""
        return str(self._values[key])

    def optional_text(self, key: str) -> str | None:
        """Return a string setting, None when it is not set."""
        value = self._values[key]
        return None if value is None else str(value)

    def integer(self, key: str) -> int:
        """Return an integer setting."""
        value = self._values[key]
        if not isinstance(value, int):
            raise TypeError(f"{key} is no integer setting")
        return value

    def number(self, key: str) -> float:
        """Return a number setting."""
        value = self._values[key]
        if not isinstance(value, int | float):
            raise TypeError(f"{key} is no number setting")
        return float(value)


def load(
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Work out every setting.

    Args:
        flags: key to text, for the flags that were given.
        environ: the environment, ``os.environ`` by default.
        file: the TOML file, the user's own by default; it may be absent.

    Raises:
        SettingsError: a value or key that cannot be used; names where it stands.
    """
    environ = os.environ if environ is None else environ
    if file is None:
        file = Path(wire.config_file())
        if environ.get("AMBIENT_CONFIG") and not file.exists():
            raise SettingsError(f"{file}, named by AMBIENT_CONFIG, is not there", "create it")
    values: dict[str, Value] = {setting.key: setting.default for setting in SETTINGS}
    sources = dict.fromkeys(values, "default")
    for key, value in _read_file(file).items():
        values[key], sources[key] = value, "file"
    for setting in SETTINGS:
        text = environ.get(setting.env)
        if text:
            values[setting.key] = _parse(setting, text, f"environment variable {setting.env}")
            sources[setting.key] = "environment"
    for key, text in (flags or {}).items():
        try:
            values[key] = _parse(BY_KEY[key], text, f"flag {BY_KEY[key].flag}")
        except SettingsError as error:
            raise SettingsError.in_flag(error.message, error.hint) from None
        sources[key] = "flag"
    _check_together(values)
    return Settings(values, sources)


def _check_together(values: Mapping[str, Value]) -> None:
    on, off = values["speech.vad_on"], values["speech.vad_off"]
    if isinstance(on, float) and isinstance(off, float) and off > on:
        raise SettingsError(
            f"speech.vad_off ({off:g}) must not lie above speech.vad_on ({on:g})", "set both"
        )


def sessions_root(settings: Settings) -> Path:
    """Return the folder that holds the sessions, with ``~`` expanded and links resolved.

    Raises:
        SettingsError: it is relative, and a client started elsewhere would find another one.
    """
    root = Path(settings.optional_text("root") or wire.default_root()).expanduser()
    if not root.is_absolute() and settings.sources["root"] != "flag":
        raise SettingsError(
            f"root ({settings.sources['root']}): {root} is no absolute path", "start it with / or ~"
        )
    return root.resolve()


def unknown_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return AMBIENT_ variables that mean nothing, each with the nearest one that does."""
    known = {*PLACES, *(setting.env for setting in SETTINGS)}
    return [
        (name, "".join(get_close_matches(name, known, n=1)))
        for name in sorted(environ)
        if name.startswith("AMBIENT_") and name not in known
    ]


def _parse(setting: Setting, text: str, where: str) -> Value:
    value: Value = text
    if setting.kind is not str:
        try:
            value = setting.kind(text)
        except ValueError:
            raise SettingsError(
                f"{where}: {text!r} is not {_kind_name(setting)}", f"see {setting.key}"
            ) from None
    return _check(setting, value, where)


def _check(setting: Setting, value: object, where: str) -> Value:
    accepted = {str: str, int: int, float: int | float}[setting.kind]
    # A bool is an int to Python, and never what a setting means.
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise SettingsError(f"{where}: {setting.key} must be {_kind_name(setting)}")
    if isinstance(value, str):
        if setting.choices and value not in setting.choices:
            raise SettingsError(
                f"{where}: {setting.key} must be one of {', '.join(setting.choices)}"
            )
        if setting.pattern and not re.fullmatch(setting.pattern, value):
            raise SettingsError(f"{where}: {setting.key} must be {setting.shape}")
        return value
    number = float(value) if setting.kind is float else value
    low, high = setting.low, setting.high
    if low is not None and high is not None and not low <= number <= high:
        raise SettingsError(f"{where}: {setting.key} must lie between {low:g} and {high:g}")
    return number


def _kind_name(setting: Setting) -> str:
    return {str: "a string", int: "an integer", float: "a number"}[setting.kind]


def _read_file(file: Path) -> dict[str, Value]:
    try:
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: {error}", "mend the file or remove it") from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        line = place.split(",")[0] or "end"
        raise SettingsError(f"{file}, {line}: {message}", "mend the line") from None
    values: dict[str, Value] = {}
    _flatten(tables, "", file, text, values)
    return values


def _flatten(
    table: Mapping[str, object], prefix: str, file: Path, text: str, values: dict[str, Value]
) -> None:
    for name, value in table.items():
        key = prefix + name
        if key in BY_KEY:
            where = f"{file}, line {line_of(text, key)}"
            values[key] = _check(BY_KEY[key], value, where)
        elif isinstance(value, dict) and any(known.startswith(key + ".") for known in BY_KEY):
            _flatten(value, key + ".", file, text, values)
        else:
            tables = {known.split(".")[0] for known in BY_KEY}
            near = get_close_matches(key, [*BY_KEY, *tables], n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(tables))}"
            where = f"{file}, line {line_of(text, key)}"
            raise SettingsError(f"{where}: unknown key {key}", hint)


def line_of(text: str, key: str) -> int:
    """Return the line on which a dotted key stands in a TOML text, from 1.

    The standard parser keeps no positions. This reads table headers and keys only, which is all
    that a settings file uses; where it finds nothing it returns the line of the nearest table.
    """
    table = ""
    best = 1
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*([\w.\-\"' ]+?)\s*\]", line)
        if header:
            table = header.group(1).replace('"', "").replace("'", "") + "."
            if key + "." == table:
                return number
            if key.startswith(table):
                best = number
            continue
        entry = re.match(r"\s*([\w.\-\"' ]+?)\s*=", line)
        if entry:
            full = table + entry.group(1).replace('"', "").replace("'", "").replace(" ", "")
            if full == key or full.startswith(key + "."):
                return number
    return best


def add_flags(add_argument: Callable[..., object]) -> None:
    """Declare one flag a setting, by means of an argparse parser's ``add_argument``."""
    for setting in SETTINGS:
        default = setting.default
        if default is None:
            default = wire.default_root() if setting.key == "root" else "not set"
        limits = f" {setting.low:g} to {setting.high:g};" if setting.low is not None else ""
        add_argument(
            setting.flag,
            dest=f"setting:{setting.key}",
            metavar="VALUE" if not setting.choices else "{" + ",".join(setting.choices) + "}",
            help=f"{setting.doc} ({setting.env};{limits} default: {default})",
        )


def given_flags(parsed: Mapping[str, object]) -> dict[str, str]:
    """Return the settings among parsed arguments, as ``load`` takes them."""
    prefix = "setting:"
    return {
        name.removeprefix(prefix): str(value)
        for name, value in parsed.items()
        if name.startswith(prefix) and value is not None
    }
