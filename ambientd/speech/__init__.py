"""From audio on disk to turns of text: VAD, segmenter, engine, and the worker that runs them."""
