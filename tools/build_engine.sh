#!/bin/sh
# Build the engine in the tree: scalify_dl/pysouffle/_engine*.so, replaced atomically (who has it open keeps the old one).
# Usage: tools/build_engine.sh            PYTHON=… picks the interpreter, BUILD_DIR=… the build folder.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
build=${BUILD_DIR:-build/dev}
case $python in */*) PATH=$(dirname "$python"):$PATH ;; esac
generator=""
command -v ninja >/dev/null 2>&1 && generator="-G Ninja"
[ -f "$build/CMakeCache.txt" ] || cmake -S . -B "$build" $generator -DCMAKE_BUILD_TYPE=Release \
    -DPython_EXECUTABLE="$(command -v "$python")" >"/tmp/cmake.$$.log" 2>&1 || { cat "/tmp/cmake.$$.log"; exit 1; }
rm -f "/tmp/cmake.$$.log"
cmake --build "$build"
for so in "$build"/_engine*.so; do
    cp "$so" "scalify_dl/pysouffle/.$(basename "$so").$$"
    mv "scalify_dl/pysouffle/.$(basename "$so").$$" "scalify_dl/pysouffle/$(basename "$so")"
done
