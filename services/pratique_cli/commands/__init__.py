"""The commands, one file each: its flags, its help, and what it does."""
