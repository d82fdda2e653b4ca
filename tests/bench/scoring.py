"""Word error rates as the corpus of speech models has them: whisper-normalizer and jiwer."""

from __future__ import annotations

from typing import NamedTuple

FILLERS = {"um", "uh", "mm", "hmm", "mhm"}


class Errors(NamedTuple):
    """Counts that can be added up: a rate over files is that of all their words together.

    Attributes:
        wrong: substitutions, deletions and insertions.
        words: how many the reference has.
    """

    wrong: int
    words: int

    @property
    def rate(self) -> float:
        """The word error rate."""
        return self.wrong / self.words if self.words else 0.0


def errors(reference: str, heard: str) -> Errors:
    """Compare a text with its reference."""
    import jiwer

    said, found = words(reference), words(heard)
    if not found:
        return Errors(len(said), len(said))
    measures = jiwer.process_words(" ".join(said), " ".join(found))
    wrong = measures.substitutions + measures.deletions + measures.insertions
    return Errors(wrong, len(said))


def words(text: str) -> list[str]:
    """Return the words of an English text as they are compared."""
    from whisper_normalizer.english import EnglishTextNormalizer

    return [word for word in EnglishTextNormalizer()(text).split() if word not in FILLERS]
