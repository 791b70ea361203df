"""Decision logs: one chained line for each answer, so that whoever changes the log afterwards leaves traces."""
