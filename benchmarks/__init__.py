"""Measurements of speed and memory: commands with recorded output, not tests."""
