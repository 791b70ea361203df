"""Volumes of Pods."""
