"""Session directories: their layout, their logs, and everything that reads or writes them.

Standard library only, because `ambient mcp` reads sessions by itself while no daemon answers.
"""
