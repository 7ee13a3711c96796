#!/usr/bin/env bash
# Runs the C and C++ test programs under sanitizers: address and undefined behaviour, then threads.
#
#   tools/run_sanitizers.sh [address|kit|thread|all] [BUILD_FOLDER]
#
# kit runs the conformance kit of the mlxc that is installed in the current Python on libraries with the address
# and undefined-behaviour sanitizers.
#
# It builds the core, the CPU backend, the test backends and the programs in folders of its own, without
# Python, and the CPU's kernels for the baseline only: the variants are the same sources. Rule it keeps: a
# report of a sanitizer makes the program that caused it fail, and so this script.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
which=${1:-all}
folder=${2:-${TMPDIR:-/tmp}/mlxc-sanitizers}
jobs=${JOBS:-2}

# build NAME SANITIZERS
build() {
  local name=$1 sanitizers=$2
  local options=(-Dpython=false -Dtests=true -Dcpu_variants=false -Doptimization=1 -Ddebug=true
    "-Db_sanitize=$sanitizers" -Db_lundef=false)
  if [ -d "$folder/$name/meson-private" ]; then
    meson configure "$folder/$name" "${options[@]}"
  else
    meson setup "$folder/$name" "$root" "${options[@]}"
  fi
  ninja -C "$folder/$name" -j "$jobs" abi_tests
}

run_address() {
  build address address,undefined
  # An allocation that is too large must return NULL, as it does without the sanitizer.
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  meson test -C "$folder/address" --no-rebuild --num-processes "$jobs" --timeout-multiplier 4 --print-errorlogs
}

# The installed package with its two libraries exchanged; Python itself has no sanitizer, so theirs are preloaded.
run_kit() {
  build address address,undefined
  local package openblas runtimes
  package=$(cd / && python3 -c 'import mlxc, os; print(os.path.dirname(mlxc.get_include()))')
  openblas=$(python3 -c 'import glob, scipy_openblas32 as b; print(glob.glob(b.get_lib_dir() + "/libscipy_openblas*")[0])')
  runtimes="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
  rm -rf "$folder/kit" && mkdir -p "$folder/kit" && cp -r "$package" "$folder/kit/mlxc"
  cp "$folder/address/core/libmlxc.so" "$folder/address/backends/cpu/libmlxc_cpu.so" "$folder/kit/mlxc/lib/"
  (
    cd "$folder/kit"
    export PYTHONPATH=$folder/kit MLXC_OPENBLAS=$openblas
    export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    LD_PRELOAD=$runtimes python3 -m mlxc.testing > kit.log 2>&1 || { tail -50 kit.log; exit 1; }
    tail -1 kit.log
  )
}

# Address randomisation in recent kernels puts mappings where the thread sanitizer has its shadow.
without_randomisation() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

run_thread() {
  build thread thread
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  without_randomisation meson test -C "$folder/thread" --no-rebuild --num-processes "$jobs" \
    --timeout-multiplier 4 --print-errorlogs threads 'far ordering late' 'far ordering paused' 'far poison late' embed
}

case "$which" in
  address) run_address ;;
  kit) run_kit ;;
  thread) run_thread ;;
  all)
    run_address
    run_kit
    run_thread
    ;;
  *)
    echo "usage: tools/run_sanitizers.sh [address|kit|thread|all] [BUILD_FOLDER]" >&2
    exit 2
    ;;
esac
echo "no report from the sanitizers"
