"""Outputs: one file for each way in which ``pratique test`` writes results."""
