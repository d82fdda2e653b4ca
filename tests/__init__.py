"""Tests, benchmarks and the demo. Run them from the repository's root."""
