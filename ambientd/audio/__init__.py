"""From a microphone, or a file that stands in for one, to files on disk."""
