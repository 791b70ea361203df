"""Child processes and threads: starting and ending them, and the frames exchanged with them."""
