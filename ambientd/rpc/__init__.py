"""The daemon's socket: listening, connections, and the order of answers."""
