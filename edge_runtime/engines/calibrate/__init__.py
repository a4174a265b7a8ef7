"""Smaller engines, made on the device with its own audio, and refused where the text gets worse."""
