"""A daemon that dies in a session is started again: the session goes on, or it is finished."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests import accounts, running

SAMPLE = Path(__file__).parents[1] / "data" / "standup.flac"
SOURCE = ("--source", str(SAMPLE))


@pytest.fixture
def place(at: running.Place) -> running.Place:
    at.environ["AMBIENT_SESSION_CONTINUE_WITHIN_S"] = "60"
    return at


def meta_of(place: running.Place, session: str) -> dict[str, Any]:
    path = place.root / session / "session.json"
    meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return meta


def begin_and_kill(place: running.Place, *verbs: tuple[str, ...], call: bool = False) -> str:
    """Record until a turn is published, run verbs, and kill the daemon; return the session's id."""
    sources = (*SOURCE, "--call-source", str(SAMPLE)) if call else SOURCE
    with running.daemon(place, *sources) as daemon:
        session = place.ctl("record", *(["--call"] if call else [])).stdout.strip()
        running.wait_until(lambda: place.status()["session"]["turns"] > 0)
        for verb in verbs:
            place.ctl(*verb)
            running.wait_until(lambda: place.events(session, "paused", "track_muted"))
        daemon.kill()
    return session


def test_the_session_goes_on_with_a_gap_and_neither_loses_nor_doubles_a_line(
    place: running.Place,
) -> None:
    with running.daemon(place, *SOURCE) as daemon, running.client(place) as client:
        session = place.ctl("record", "--name", "standup").stdout.strip()
        running.wait_until(lambda: place.status()["session"]["turns"] > 1)
        seen = client.tool("transcript", session=session)
        daemon.kill()
        with running.daemon(place, *SOURCE):
            running.wait_until(lambda: place.status()["state"] == "recording")
            status = place.status()
            assert status["session"]["id"] == session
            assert client.tool("status")["live"] == {"id": session}
            running.wait_until(lambda: place.track()["input"] == "ok")
            running.wait_until(lambda: place.status()["state"] == "deaf", 60)
            running.wait_until((place.root / session / "transcript.md").exists)
            later = client.tool("transcript", session=session, since=seen["next"])
    lines = place.lines(session)
    assert [line["text"] for line in seen["lines"] + later["lines"]] == [
        line["text"] for line in lines
    ]
    starts_ms = [line["start_ms"] for line in lines]
    assert starts_ms == sorted(set(starts_ms))
    assert "please tell me when it works" in lines[-1]["text"].lower()
    (gap,) = place.events(session, "gap")
    assert gap["reason"] == "daemon_restarted"
    assert [one["start_ms"] for one in place.events(session, "daemon_restarted")] == [
        gap["start_ms"]
    ]
    meta = meta_of(place, session)
    assert (meta["name"], meta["recovered"]) == ("standup", False)
    accounts.check_files(place.root / session)


def test_what_a_person_had_closed_stays_closed(place: running.Place) -> None:
    session = begin_and_kill(place, ("pause",))
    with running.daemon(place, *SOURCE):
        running.wait_until(lambda: place.status()["state"] == "paused")
        frames = place.track()["captured_frames"]
        time.sleep(1)
        assert place.track()["captured_frames"] == frames
        place.ctl("resume")
        running.wait_until(lambda: place.track()["input"] == "ok")
        place.ctl("stop", "--wait")
    reasons = {gap["reason"] for gap in place.events(session, "gap")}
    assert reasons <= {"paused", "daemon_restarted"}
    accounts.check_files(place.root / session)


def test_a_muted_track_stays_muted_and_the_other_goes_on(place: running.Place) -> None:
    session = begin_and_kill(place, ("mute", "call"), call=True)
    with running.daemon(place, *SOURCE, "--call-source", str(SAMPLE)):
        running.wait_until(lambda: place.status()["state"] == "recording")
        running.wait_until(lambda: place.track("room")["input"] == "ok")
        assert place.track("call")["input"] == "track_muted"
        place.ctl("stop", "--wait")
    accounts.check_files(place.root / session)


def is_finished(place: running.Place, session: str) -> None:
    with running.daemon(place, *SOURCE):
        running.wait_until((place.root / session / "transcript.md").exists)
        assert place.status()["state"] == "deaf"
    assert meta_of(place, session)["recovered"] is True
    assert place.events(session, "daemon_restarted") == []


def test_after_another_start_of_the_machine_it_is_finished(place: running.Place) -> None:
    session = begin_and_kill(place)
    meta = meta_of(place, session)
    meta["boot"]["id"] = "another"
    (place.root / session / "session.json").write_text(json.dumps(meta), encoding="utf-8")
    is_finished(place, session)


def test_after_a_while_it_is_finished(place: running.Place) -> None:
    place.environ["AMBIENT_SESSION_CONTINUE_WITHIN_S"] = "1"
    session = begin_and_kill(place)
    time.sleep(1.5)
    is_finished(place, session)


def test_when_the_time_that_was_asked_for_is_over_it_is_finished(place: running.Place) -> None:
    with running.daemon(place, *SOURCE) as daemon:
        session = place.ctl("record", "--seconds", "4").stdout.strip()
        running.wait_until(lambda: place.status()["session"]["turns"] > 0)
        daemon.kill()
    time.sleep(4)
    is_finished(place, session)


@pytest.mark.parametrize("damage", ["{", '{"recorder": "ambientd/0", "boot": 7, "ended_at": null}'])
def test_a_damaged_session_does_not_keep_the_daemon_from_starting(
    place: running.Place, damage: str
) -> None:
    session = begin_and_kill(place)
    (place.root / session / "session.json").write_text(damage, encoding="utf-8")
    with running.daemon(place, *SOURCE):
        assert place.status()["state"] == "deaf"
        assert place.ctl("record").stdout.strip() != session
