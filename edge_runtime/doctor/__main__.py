"""The process that runs probes for `survey`: root, configuration and names of probes."""

from __future__ import annotations

import sys

from edge_runtime.doctor.survey import serve

if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3:])
