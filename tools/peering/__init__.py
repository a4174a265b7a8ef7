"""Other systems, played the same clips as ours; each runs in an environment of its own."""
