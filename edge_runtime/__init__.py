"""Live speech to text on an NVIDIA Jetson, a desktop GPU or any CPU."""

import os

__version__ = "0.1.0"

# onnxruntime, from 1.29 on, writes down how it is used and sends that to its makers, unless this
# is set before it is loaded: so before anything else of ours is.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
