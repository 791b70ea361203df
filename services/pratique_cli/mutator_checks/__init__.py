"""Whether the mutators of a chain may run again, and in another order, without changing anything more."""
