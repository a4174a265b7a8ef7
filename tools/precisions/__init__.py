"""A model in several precisions side by side, and whether its decoder could end early."""
