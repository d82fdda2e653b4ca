"""`ambientctl`: tells the daemon what to do, and what it is doing."""
