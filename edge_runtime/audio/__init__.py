"""What is heard: 16 kHz mono float32 samples from any source, and where the speech in them is."""

RATE = 16000
"""Samples per second of all audio inside."""

FRAME = 512
"""Samples of one verdict of the voice detector (32 ms)."""
