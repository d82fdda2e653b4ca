from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ambientd.speech.segmenter import FRAME_MS, Rules, Segmenter, Turn

RULES = Rules(
    on=0.5,
    off=0.35,
    min_speech_ms=96,
    end_silence_ms=128,
    pad_before_ms=96,
    pad_after_ms=64,
    max_turn_ms=1600,
)


def run(probabilities: list[float], rules: Rules = RULES, start_ms: int = 0) -> list[Turn]:
    segmenter = Segmenter(rules, start_ms)
    turns = [turn for value in probabilities if (turn := segmenter.push(value)) is not None]
    last = segmenter.finish(start_ms + len(probabilities) * FRAME_MS)
    return turns + ([last] if last is not None else [])


def voice(pattern: str) -> list[float]:
    """Read a picture of probabilities: ``#`` voice, ``-`` between the thresholds, ``.`` silence."""
    return [{"#": 0.9, "-": 0.4, ".": 0.1}[sign] for sign in pattern]


def test_speech_with_its_padding_is_one_turn() -> None:
    # Speech from 320 to 480 ms; 96 ms before and 64 ms after it belong to the turn.
    assert run(voice("..........#####..........")) == [Turn(224, 544)]


def test_a_turn_is_out_as_soon_as_its_silence_has_lasted() -> None:
    segmenter = Segmenter(RULES)
    for value in voice("#####..."):
        assert segmenter.push(value) is None
    assert segmenter.push(0.1) == Turn(0, 224)


def test_speech_shorter_than_the_minimum_makes_no_turn() -> None:
    assert run(voice("..........##..........")) == []
    assert len(run(voice("..........###.........."))) == 1


def test_only_a_voice_above_on_ends_a_silence() -> None:
    assert len(run(voice("....####...####.........."))) == 1
    # Between off and on the silence goes on counting.
    assert run(voice("....####.---....####......"))[0] == Turn(32, 320)


def test_padding_never_reaches_into_the_turn_before() -> None:
    first, second = run(voice("....####....####.........."))
    assert first.end_ms <= second.start_ms


def test_no_turn_starts_before_the_position_at_which_work_goes_on() -> None:
    (turn,) = run(voice("#####......"), start_ms=5000)
    assert turn.start_ms == 5000


def test_the_end_of_the_track_ends_the_open_turn() -> None:
    assert run(voice("....####")) == [Turn(32, 256)]


def test_a_hole_ends_the_open_turn_and_nothing_spans_it() -> None:
    segmenter = Segmenter(RULES)
    for value in voice("....####"):
        segmenter.push(value)
    assert segmenter.finish(250) == Turn(32, 250)
    segmenter.skip_to(9000)
    for value in voice("####"):
        segmenter.push(value)
    assert segmenter.finish(9128) == Turn(9000, 9128)


def test_a_long_turn_is_cut_at_its_least_voiced_frame_and_goes_on_there() -> None:
    talk = [0.9] * 100
    talk[20] = 0.5  # too early: the turn before the cut would be needlessly short
    talk[45] = 0.6  # 1440 ms, in the last quarter of the first 1600 ms
    first, second, *rest = run([*talk, *voice(".......")])
    assert first == Turn(0, 1440)
    assert second.start_ms == 1440
    assert second.end_ms - second.start_ms <= 1600
    assert (rest or [second])[-1].end_ms == 3200 + RULES.pad_after_ms


def test_what_follows_a_cut_has_no_minimum_length() -> None:
    talk = [0.9] * 50
    talk[48] = 0.5
    first, second = run([*talk, *voice("......")])
    assert second.start_ms == first.end_ms == 48 * FRAME_MS
    assert second.end_ms - second.start_ms <= 3 * FRAME_MS + RULES.pad_after_ms


def test_a_silence_that_runs_at_a_cut_goes_on_counting_behind_it() -> None:
    talk = [0.9] * 48
    talk[42] = 0.1
    # Quiet from 1536 ms on, but less so than the dip at 1344 ms, where the cut is made.
    assert run([*talk, *[0.3] * 6]) == [Turn(0, 1344), Turn(1344, 1536 + RULES.pad_after_ms)]


def test_a_cut_in_the_closing_silence_ends_the_speech() -> None:
    # A click behind it is no speech that went on.
    assert run([*[0.9] * 48, *voice("..#......")]) == [Turn(0, 48 * FRAME_MS)]


SHORT = Rules(
    on=0.5,
    off=0.35,
    min_speech_ms=64,
    end_silence_ms=64,
    pad_before_ms=96,
    pad_after_ms=32,
    max_turn_ms=192,
)


@pytest.mark.parametrize("filled_up_ms", [0, 5, FRAME_MS])
@pytest.mark.parametrize("length", range(10))
def test_every_short_talk_gives_turns_that_keep_the_rules(length: int, filled_up_ms: int) -> None:
    start_ms = 7
    for signs in itertools.product("#-.", repeat=length):
        pattern = "".join(signs)
        segmenter = Segmenter(SHORT, start_ms)
        turns = [turn for value in voice(pattern) if (turn := segmenter.push(value)) is not None]
        assert not (pattern.endswith("..") and segmenter.open_turn), pattern
        end_ms = start_ms + max(0, length * FRAME_MS - filled_up_ms)
        last = segmenter.finish(end_ms)
        turns += [last] if last is not None else []
        position_ms = start_ms
        for turn in turns:
            assert position_ms <= turn.start_ms < turn.end_ms, pattern
            assert turn.end_ms - turn.start_ms <= SHORT.max_turn_ms, pattern
            position_ms = turn.end_ms
        assert position_ms <= start_ms + length * FRAME_MS, pattern
        for index in range(length):
            if "###" in (pattern[max(0, index - 2) : index + 1], pattern[index : index + 3]):
                middle_ms = start_ms + index * FRAME_MS + FRAME_MS // 2
                assert middle_ms > end_ms or any(
                    one.start_ms <= middle_ms < one.end_ms for one in turns
                ), pattern


@st.composite
def talks(draw: st.DrawFn) -> list[float]:
    runs = draw(
        st.lists(
            st.tuples(st.sampled_from([0.05, 0.3, 0.4, 0.6, 0.95]), st.integers(1, 70)), max_size=25
        )
    )
    return [value for value, count in runs for _ in range(count)]


@given(talks(), st.integers(0, 10_000))
def test_turns_are_in_order_apart_bounded_and_within_what_was_heard(
    talk: list[float], start_ms: int
) -> None:
    position_ms = start_ms
    for turn in run(talk, start_ms=start_ms):
        assert turn.start_ms >= position_ms
        assert 0 < turn.end_ms - turn.start_ms <= RULES.max_turn_ms
        position_ms = turn.end_ms
    assert position_ms <= start_ms + len(talk) * FRAME_MS


@given(talks())
def test_no_voice_is_left_out_but_for_speech_below_the_minimum(talk: list[float]) -> None:
    covered = run(talk)
    run_start: int | None = None
    # Frames above "on" in a row at least as long as the minimum must lie in turns.
    for index, value in enumerate([*talk, 0.0]):
        if value >= RULES.on:
            run_start = index if run_start is None else run_start
        elif run_start is not None:
            if (index - run_start) * FRAME_MS >= RULES.min_speech_ms:
                for frame in range(run_start, index):
                    middle_ms = frame * FRAME_MS + FRAME_MS // 2
                    assert any(turn.start_ms <= middle_ms < turn.end_ms for turn in covered)
            run_start = None


@given(talks())
def test_what_is_settled_never_goes_back_and_never_passes_a_turn_to_come(
    talk: list[float],
) -> None:
    segmenter = Segmenter(RULES)
    settled_ms = 0
    for value in talk:
        turn = segmenter.push(value)
        if turn is not None:
            # All of its speech was still unsettled; only its padding had been found silent.
            assert turn.end_ms > settled_ms - RULES.pad_before_ms
        assert segmenter.settled_ms >= settled_ms
        settled_ms = segmenter.settled_ms
    assert settled_ms <= segmenter.position_ms


@given(talks())
def test_a_turn_that_silence_ends_was_foretold_exactly(talk: list[float]) -> None:
    segmenter = Segmenter(RULES)
    foretold: tuple[Turn, int] | None = None
    for probability in talk:
        turn = segmenter.push(probability)
        longest_ms = RULES.max_turn_ms - 2 * FRAME_MS
        if turn is not None and segmenter.position_ms - turn.start_ms <= longest_ms:
            # Not one that was cut for its length.
            assert foretold is not None
            assert foretold[0] == turn
        foretold = segmenter.closing()
        if foretold is not None:
            closing, silence_ms = foretold
            assert closing.end_ms <= segmenter.position_ms, "all of it was heard"
            assert RULES.pad_after_ms <= silence_ms < RULES.end_silence_ms


def test_a_silence_is_foretold_from_the_padding_on() -> None:
    segmenter = Segmenter(RULES)
    said = [segmenter.push(value) or segmenter.closing() for value in voice("####....")]
    # Two frames of padding, four of silence.
    assert said == [None] * 5 + [(Turn(0, 192), 64), (Turn(0, 192), 96), Turn(0, 192)]
