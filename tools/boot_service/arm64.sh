# What happens in the root that tools/install-on-arm64 makes.
set -euo pipefail
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels EDGE_RUNTIME_STORE=/srv/store
# An emulated processor takes twenty times as long and more: one lane, short segments.
export EDGE_RUNTIME_COMPUTING_LANES=1 EDGE_RUNTIME_LISTENING_CAP_MS=6000
cd /srv/checkout

step() { echo; echo "== $* [after $SECONDS s]"; }
trap 'echo "== FAILED in line $LINENO"' ERR

step "$(uname -m), $(python3 --version)"
step "install"
bin="$(tools/venv)/bin"
"$bin/pip" list --format freeze | grep -iE '^(edge|numpy|onnx|aiohttp|soxr|soundfile|msgspec)'
file="$("$bin/python" -c 'import numpy._core._multiarray_umath as it; print(it.__file__)')"
echo "$file"
step "doctor"
"$bin/edge-runtime" doctor || echo "exit status $?"
step "tools/demo --fast"
tools/demo --fast
step "all of it went well"
