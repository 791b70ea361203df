"""Configurations: webhook configurations and the AdmissionConfiguration, read from files and checked."""
