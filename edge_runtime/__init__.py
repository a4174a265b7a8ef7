"""Live speech to text on an NVIDIA Jetson, a desktop GPU or any CPU."""

__version__ = "0.1.0"
