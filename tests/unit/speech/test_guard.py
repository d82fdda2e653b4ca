import pytest

from ambientd.speech.engine import Decode, Effort
from ambientd.speech.guard import Verdict, judge


def decode(
    text: str = "Good morning.",
    mean_logprob: float = -0.3,
    no_speech: float = 0.1,
    compression: float = 1.1,
    tokens: int = 4,
    is_fitted: bool = False,
) -> Decode:
    return Decode(text, "en", mean_logprob, no_speech, compression, tokens, is_fitted)


LOOP = decode("Do you hear me? " * 20, compression=9.0)


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("text", ["yes", "No.", "да", "7", "はい"])
def test_one_syllable_answers_survive(text: str, is_fitted: bool) -> None:
    short = decode(text, compression=0.4, tokens=2, is_fitted=is_fitted)
    assert judge(short, Effort.FITTED, 0.6) is Verdict.ACCEPT


@pytest.mark.parametrize("text", ["", " ", ".", "... !", "♪", "-"])
def test_text_without_a_letter_or_digit_is_empty_over_the_whole_window(text: str) -> None:
    assert judge(decode(text, is_fitted=True), Effort.FITTED, 2.0) is Verdict.REDO_WHOLE
    assert judge(decode(text), Effort.WHOLE, 2.0) is Verdict.EMPTY


@pytest.mark.parametrize(
    "doubtful",
    [
        decode(is_fitted=True, mean_logprob=-0.9),
        decode(is_fitted=True, no_speech=0.6),
        decode(is_fitted=True, compression=2.1),
        decode(is_fitted=True, tokens=30),
    ],
)
def test_a_fitted_decode_in_doubt_is_never_rejected_but_done_again(doubtful: Decode) -> None:
    assert judge(doubtful, Effort.FITTED, 2.0) is Verdict.REDO_WHOLE


@pytest.mark.parametrize("sure", [decode(no_speech=0.6), decode(mean_logprob=-1.1)])
def test_either_sign_of_no_speech_is_enough_over_the_whole_window(sure: Decode) -> None:
    assert judge(sure, Effort.WHOLE, 2.0) is Verdict.NO_SPEECH
    # A turn so long that its window is the whole one is judged at once.
    assert judge(sure, Effort.FITTED, 29.0) is Verdict.NO_SPEECH


def test_quiet_and_uncertain_speech_survives() -> None:
    assert judge(decode(mean_logprob=-0.95, no_speech=0.45), Effort.WHOLE, 2.0) is Verdict.ACCEPT


def test_a_loop_is_decoded_once_more_and_then_rejected() -> None:
    assert judge(LOOP, Effort.WHOLE, 20.0) is Verdict.REDO_LOOPLESS
    assert judge(LOOP, Effort.LOOPLESS, 20.0) is Verdict.LOOP
