"""Published streaming models become graphs that the runner drives."""
