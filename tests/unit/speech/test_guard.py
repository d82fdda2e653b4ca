import pytest

from ambientd.speech.engine import Decode
from ambientd.speech.guard import Verdict, judge


def decode(
    text: str = "Good morning.",
    mean_logprob: float = -0.3,
    no_speech: float = 0.1,
    compression: float = 1.1,
) -> Decode:
    return Decode(text, "en", mean_logprob, no_speech, compression)


@pytest.mark.parametrize("text", ["yes", "No.", "да", "7", "はい"])
def test_one_syllable_answers_survive(text: str) -> None:
    assert judge(decode(text, compression=0.4), is_redo=False) is Verdict.ACCEPT


@pytest.mark.parametrize("text", ["", " ", ".", "... !", "♪", "-"])
def test_text_without_a_letter_or_digit_is_empty(text: str) -> None:
    assert judge(decode(text), is_redo=False) is Verdict.EMPTY


def test_no_speech_needs_both_signs() -> None:
    assert judge(decode(no_speech=0.9, mean_logprob=-1.5), is_redo=False) is Verdict.NO_SPEECH
    assert judge(decode(no_speech=0.9), is_redo=False) is Verdict.ACCEPT
    assert judge(decode(mean_logprob=-1.5), is_redo=False) is Verdict.ACCEPT


def test_a_loop_is_decoded_once_more_and_then_rejected() -> None:
    loop = decode("Do you hear me? " * 20, compression=9.0)
    assert judge(loop, is_redo=False) is Verdict.REDO
    assert judge(loop, is_redo=True) is Verdict.LOOP
