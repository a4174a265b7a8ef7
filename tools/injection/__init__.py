"""Faults for a real server with the real model, and what must hold around them."""
