"""Child processes and threads: starting them, talking to them, and ending with their parent."""
