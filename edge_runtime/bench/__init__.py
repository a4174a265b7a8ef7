"""The figures we publish, always measured the same way (docs/benchmarks)."""
