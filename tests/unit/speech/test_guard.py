import pytest

from ambientd.speech.engine import Decode, Effort
from ambientd.speech.guard import (
    DOUBTFUL_COMPRESSION,
    LOOP_COMPRESSION,
    Verdict,
    compression,
    judge,
    repeats,
)


def decode(
    text: str = "Good morning.",
    mean_logprob: float = -0.3,
    no_speech: float = 0.1,
    tokens: int = 4,
    is_fitted: bool = False,
) -> Decode:
    return Decode(text, "en", mean_logprob, no_speech, tokens, is_fitted)


LOOP = decode("Do you hear me? " * 20)


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("text", ["yes", "No.", "да", "7", "はい"])
def test_one_syllable_answers_survive(text: str, is_fitted: bool) -> None:
    short = decode(text, tokens=2, is_fitted=is_fitted)
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
        decode("Do you hear me? " * 12, is_fitted=True),
        decode("Do you hear me? Do you hear me? Do you hear me?", is_fitted=True),
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


# The beginning of the Universal Declaration of Human Rights.
SCRIPTS = {
    "English": "All human beings are born free and equal in dignity and rights. They are endowed "
    "with reason and conscience and should act towards one another in a spirit of brotherhood.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। "
    "उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
    "Georgian": "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. მათ "
    "მინიჭებული აქვთ გონება და სინდისი და ერთმანეთის მიმართ უნდა იქცეოდნენ ძმობის სულისკვეთებით.",
    "Japanese": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて"
    "平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_a_loop_does_not_depend_on_the_script(script: str) -> None:
    text = SCRIPTS[script]
    assert compression(text) < DOUBTFUL_COMPRESSION
    assert compression(text * 8) > LOOP_COMPRESSION


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("do you hear me do you hear me do you hear me", True),
        ("Yes, it did. yes, it did. Yes, it did.", True),
        ("no no no no no no", True),
        ("no no no", False),
        ("Turn on the lamp. Turn on the lamp.", True),
        ("he said: turn on the lamp, turn on the lamp", True),
        ("I don't know. I don't know.", False),
        ("one two three four one two three five", False),
        ("", False),
    ],
)
def test_a_phrase_that_comes_again_at_once_is_a_repetition(text: str, expected: bool) -> None:
    assert repeats(text) is expected
