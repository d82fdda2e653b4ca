"""The reading verbs of `ambient`, with and without a daemon."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ambientd import mcp, wire
from tests import running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
IDS = ("2026-09-05-1200-stand-up", "2026-09-05-1300", "2026-09-06-0900-broken")


@pytest.fixture(params=[False, True], ids=["without a daemon", "with a daemon"])
def filled(at: running.Place, request: pytest.FixtureRequest) -> Iterator[running.Place]:
    at.root.mkdir(mode=0o700)
    for number, name in enumerate(IDS):
        folder = at.root / name
        folder.mkdir()
        meta = {"name": "Stand-up\x1b[31m" if number == 0 else None, "duration_s": 61.5}
        meta["started_at"] = f"2026-09-0{5 + number // 2}T1{number}:00:00+00:00"
        (folder / "session.json").write_text(json.dumps(meta), encoding="utf-8")
    lines = [
        {"track": "room", "start_ms": 61_000, "end_ms": 62_000, "text": "Grüße \x07 an alle"},
        {"track": "call", "start_ms": 2_000, "end_ms": 3_000, "text": "Hello."},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (at.root / IDS[0] / "raw.jsonl").write_text(text, encoding="utf-8")
    (at.root / IDS[0] / "transcript.md").write_text("", encoding="utf-8")
    (at.root / IDS[2] / "session.json").write_text("{", encoding="utf-8")
    if request.param:
        with running.daemon(at):
            yield at
    else:
        yield at


def ambient(at: running.Place, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(running.BIN / "ambient"), *arguments],
        env={**at.environ, "TZ": "UTC", **environ},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=20,
    )


def tool_text(at: running.Place, tool: str, **arguments: object) -> str:
    params = {"name": tool, "arguments": arguments}
    line = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    answer = mcp.handle(line, at.root)
    assert answer is not None
    text: str = answer["result"]["content"][0]["text"]
    return text


def test_json_is_the_tools_text_and_a_newline(filled: running.Place) -> None:
    for arguments, tool, values in (
        (("sessions", "--json"), "sessions", {}),
        (("status", "--json"), "status", {}),
        (("show", IDS[0], "--json"), "transcript", {"session": IDS[0]}),
        (
            ("show", IDS[0], "--json", "--since", "1", "--verbatim"),
            "transcript",
            {"session": IDS[0], "since": 1, "verbatim": True},
        ),
    ):
        done = ambient(filled, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == tool_text(filled, tool, **values) + "\n"


def test_people_get_tables_wall_clock_times_and_the_order_of_speaking(
    filled: running.Place,
) -> None:
    rows = ambient(filled, "sessions").stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["ID", IDS[1], IDS[0], IDS[2]]
    assert "2026-09-05 10:00" in rows[2]
    assert "0:01:01" in rows[2]
    assert "done" in rows[2]
    assert "pending" in rows[1]
    assert "broken" in rows[3]
    shown = ambient(filled, "show", IDS[0]).stdout.splitlines()
    assert shown[0] == "[10:00:02] call: Hello."
    assert shown[1].startswith("[10:01:01] room: Grüße")
    assert ambient(filled, "status").stdout == "nobody is being recorded\n3 session(s)\n"


def test_what_was_said_cannot_control_a_terminal(filled: running.Place) -> None:
    for arguments in (("show", IDS[0]), ("sessions",)):
        shown = ambient(filled, *arguments).stdout
        assert "\x07" not in shown
        assert "\x1b" not in shown


def test_a_locale_without_umlauts_is_no_obstacle(filled: running.Place) -> None:
    done = ambient(filled, "show", IDS[0], LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0
    assert "an alle" in done.stdout


def test_an_id_may_be_latest_live_or_a_unique_beginning(filled: running.Place) -> None:
    for wanted, found in (("latest", IDS[1]), ("2026-09-05-12", IDS[0]), (IDS[1], IDS[1])):
        done = ambient(filled, "show", wanted, "--json")
        assert json.loads(done.stdout)["session"] == found
    for wanted, says in (
        ("2026-09-05", "fits 2 sessions"),
        ("live", "nobody is being recorded"),
        ("nope", "no session nope"),
        ("../x", "no session"),
    ):
        done = ambient(filled, "show", wanted)
        assert (done.returncode, done.stdout) == (1, "")
        assert says in done.stderr


def test_an_empty_root_is_no_fault(at: running.Place) -> None:
    assert "no sessions yet" in ambient(at, "sessions").stdout
    assert ambient(at, "sessions", "--json").stdout == "[]\n"
    assert ambient(at, "show", "latest").returncode == 1


def test_follow_prints_lines_as_they_come_and_ends_with_the_session(at: running.Place) -> None:
    with running.daemon(at, "--source", str(SAMPLE), "--source-speed", "4"):
        session = at.ctl("record").stdout.strip()
        following = ambient(at, "show", "live", "--follow")
        raw = (at.root / session / "raw.jsonl").read_text(encoding="utf-8").splitlines()
    assert following.returncode == 0
    shown = following.stdout.splitlines()
    assert [line.split("room: ")[1] for line in shown] == [json.loads(one)["text"] for one in raw]
    assert len(shown) > 5


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "x", "--since", "-1"),
        ("show", "x", "--since", "1.0"),
        ("show", "x", "--json", "--follow"),
        ("sessions", "x"),
    ],
)
def test_usage_errors_exit_2(at: running.Place, arguments: tuple[str, ...]) -> None:
    assert ambient(at, *arguments).returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_ones_their_shell_accepts(at: running.Place, shell: str) -> None:
    script = ambient(at, "completion", shell).stdout
    for verb in ("sessions", "show", "record", "devices"):
        assert verb in script
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_verbs_and_options(at: running.Place) -> None:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    script = ambient(at, "completion", "bash").stdout
    for words, cursor, expected in (
        ("ambient s", 1, {"sessions", "status", "show"}),
        ("ambient show --f", 2, {"--follow"}),
        ("ambientctl re", 1, {"record", "resume"}),
    ):
        command = words.split()[0]
        code = f"{script}\nCOMP_WORDS=({words}); COMP_CWORD={cursor}\n_{command}_complete\n"
        code += 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == expected


def test_completion_knows_every_verb_and_option() -> None:
    code = "from ambient_cli import completion; print(completion.VERBS)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    known = ast.literal_eval(done.stdout)
    for command, verbs in known.items():
        page = subprocess.run(
            [str(running.BIN / command), "--help"], capture_output=True, text=True, check=True
        ).stdout
        rows = page.partition("verbs:")[2].partition("\n\n")[0].splitlines()
        listed_verbs = {row.split()[0] for row in rows if row[:4] == "    " and row[4:5].strip()}
        assert listed_verbs - {"VERB"} == set(verbs), command
        for verb, words in verbs.items():
            usage = subprocess.run(
                [str(running.BIN / command), verb, "--help"],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "COLUMNS": "200"},
            ).stdout
            options = {word for word in words if word.startswith("--")}
            listed = {
                word.strip("[],") for word in usage.split() if word.strip("[],").startswith("--")
            }
            assert listed - {"--help"} == options, f"{command} {verb}"
