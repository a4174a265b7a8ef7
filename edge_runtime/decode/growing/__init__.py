"""Models whose encoder streams and whose decoder reads all of a growing memory at each update."""
