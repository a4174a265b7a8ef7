"""True streaming models: audio goes in chunk by chunk, state stays on the device in between."""
