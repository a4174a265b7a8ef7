"""People who speak many languages, recorded for programs that Debian ships, as clips."""
