"""Large texts are read in a process of their own, so that nobody waits for the interpreter meanwhile."""
