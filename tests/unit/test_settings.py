from pathlib import Path

import pytest

from ambientd import settings
from ambientd.errors import SettingsError


def load(
    tmp_path: Path,
    text: str = "",
    environ: dict[str, str] | None = None,
    flags: dict[str, str] | None = None,
) -> settings.Settings:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    return settings.load(flags=flags, environ=environ or {}, file=file)


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    text = "[speech]\nthreads = 3\n"
    environ = {"AMBIENT_SPEECH_THREADS": "4"}
    flags = {"speech.threads": "5"}
    for values, expected, source in (
        (load(tmp_path), 1, "default"),
        (load(tmp_path, text), 3, "file"),
        (load(tmp_path, text, environ), 4, "environment"),
        (load(tmp_path, text, environ, flags), 5, "flag"),
    ):
        assert values.integer("speech.threads") == expected
        assert values.sources["speech.threads"] == source


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ('# one\n\n[speech]\nthreads = "x"\n', "line 4", "speech.threads"),
        ("[capture]\n[speech]\nvad_on = 1.5\n", "line 3", "speech.vad_on"),
        ("speech.threads = true\n", "line 1", "speech.threads"),
        ('\nlog_level = "loud"\n', "line 2", "log_level"),
        ("[speech]\nbeam_size = 0\n", "line 2", "speech.beam_size"),
        ("[speech]\nthreds = 2\n", "line 2", "did you mean speech.threads?"),
        ("[spech]\nthreads = 2\n", "line 1", "spech"),
        ("[speach]\nthreads = 2\n", "line 1", "did you mean speech?"),
        ("speech = 3\n", "line 1", "speech"),
        ("[speech]\nlanguage = 'german'\n", "line 2", "two-letter code"),
        ("[speech]\nengine = 'whisper'\n", "line 2", "module:Class"),
        ("[speech]\nthreads = \n", "line 2", "config.toml"),
    ],
)
def test_a_bad_file_names_file_line_and_key(tmp_path: Path, text: str, line: str, key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert str(tmp_path / "config.toml") in message
    assert line in message
    assert key in message


def test_bad_variables_and_flags_name_themselves(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="AMBIENT_SPEECH_THREADS"):
        load(tmp_path, environ={"AMBIENT_SPEECH_THREADS": "many"})
    with pytest.raises(SettingsError, match="--speech-vad-on"):
        load(tmp_path, flags={"speech.vad_on": "2"})


def test_thresholds_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="vad_off"):
        load(tmp_path, "[speech]\nvad_on = 0.2\n")


def test_a_relative_root_is_refused_but_for_a_flag(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no absolute path"):
        settings.sessions_root(load(tmp_path, 'root = "sessions"\n'))
    values = load(tmp_path, flags={"root": "sessions"})
    assert settings.sessions_root(values) == Path.cwd() / "sessions"


def test_unknown_variables_of_ours_are_found(tmp_path: Path) -> None:
    environ = {"AMBIENT_SPEECH_THREDS": "3", "AMBIENT_SOCKET": "/x", "OTHER": "1"}
    assert settings.unknown_variables(environ) == [
        ("AMBIENT_SPEECH_THREDS", "AMBIENT_SPEECH_THREADS")
    ]


def test_a_named_file_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(tmp_path / "none.toml")
    monkeypatch.setenv("AMBIENT_CONFIG", missing)
    with pytest.raises(SettingsError, match="AMBIENT_CONFIG"):
        settings.load(environ={"AMBIENT_CONFIG": missing})


def test_the_root_comes_from_ambient_home_and_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    values = load(tmp_path, environ={"AMBIENT_HOME": str(tmp_path / "link")})
    assert settings.sessions_root(values) == (tmp_path / "real").resolve()


def test_a_file_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    values = settings.load(environ={}, file=tmp_path / "none.toml")
    assert set(values.sources.values()) == {"default"}
