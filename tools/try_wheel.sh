#!/bin/sh
# Builds a wheel and tries it as somebody without a compiler would: in a new environment, outside of this folder.
# Where auditwheel is (the extra `dev`), the wheel is made one for every Linux of the same age (manylinux), and that one is tried.
# Usage: tools/try_wheel.sh [FOLDER [pip options]]     where the wheel goes (default: dist). Each step has a time limit.
set -eu
exec </dev/null
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
into=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
[ $# -eq 0 ] || shift
here=$(pwd)
unset PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
timeout 3000 "$python" -m pip wheel --quiet --no-deps --wheel-dir "$work/plain" "$@" .
wheel=$(ls "$work"/plain/*.whl)
if "$python" -c "import auditwheel" 2>/dev/null; then
    PATH="$(dirname "$python"):$PATH" timeout 120 "$python" -m auditwheel repair --wheel-dir "$work/many" "$wheel"
    wheel=$(ls "$work"/many/*manylinux*.whl)
fi
cp "$wheel" "$into"
wheel="$into/$(basename "$wheel")"
"$python" -m venv "$work/venv"
CC=/nonexistent CXX=/nonexistent timeout 600 "$work/venv/bin/pip" install --quiet "$wheel"
cp -r "$here/facts/row_parallel_linear" "$here/examples/hlo" "$work"
cd "$work"
timeout 60 venv/bin/dlverify --version
timeout 60 venv/bin/dlverify run row_parallel_linear --output-format quiet
timeout 60 venv/bin/dlverify verify hlo/base.hlo hlo/dist.hlo --relate hlo/relations.yaml --mesh tp=2 --html report.html \
    --output-format quiet
timeout 60 venv/bin/dlverify schema relations >/dev/null
echo "$wheel: works without a compiler"
