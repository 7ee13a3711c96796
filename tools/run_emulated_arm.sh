#!/usr/bin/env bash
# Builds the core and the CPU backend for 64-bit Arm and runs the C programs on an emulated processor.
#
#   tools/run_emulated_arm.sh [BUILD_FOLDER]
#
# Needs aarch64-linux-gnu-g++, qemu-aarch64, meson and pip; OpenBLAS for Arm comes from the package registry.
# Emulation shows that the NEON build is right, not how fast it is.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-${TMPDIR:-/tmp}/mlxc-arm}
jobs=${JOBS:-2}

mkdir -p "$folder"
cat > "$folder/aarch64.ini" <<'INI'
[binaries]
c = 'aarch64-linux-gnu-gcc'
cpp = 'aarch64-linux-gnu-g++'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
INI

pip download -q --no-deps --only-binary=:all: --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 \
  -d "$folder/blas" scipy-openblas32
python3 -m zipfile -e "$folder"/blas/*.whl "$folder/blas"
MLXC_OPENBLAS=$(find "$folder/blas" -name 'libscipy_openblas*.so' | head -1)
export MLXC_OPENBLAS
# Left to itself OpenBLAS picks kernels for SVE, which the emulator computes wrongly.
export OPENBLAS_CORETYPE=ARMV8

[ -d "$folder/build/meson-private" ] ||
  meson setup "$folder/build" "$root" --cross-file "$folder/aarch64.ini" -Dpython=false -Dtests=true
ninja -C "$folder/build" -j "$jobs"
ninja -C "$folder/build" -j "$jobs" abi_tests
meson test -C "$folder/build" --no-rebuild --num-processes "$jobs" --timeout-multiplier 10 --print-errorlogs
