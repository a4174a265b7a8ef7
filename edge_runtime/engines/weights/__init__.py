"""Readers of published weights, one file per form; all give the same names and shapes."""
