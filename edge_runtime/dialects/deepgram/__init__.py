"""Deepgram's speech-to-text interface, `/v1/listen`: live audio and recordings."""
