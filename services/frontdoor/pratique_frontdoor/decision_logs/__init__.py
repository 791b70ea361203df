"""Decision logs: one chained line for each response, so that later changes to the log are detected."""
