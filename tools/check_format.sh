#!/usr/bin/env bash
# Fails where clang-format would change a C or C++ file.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.c' '*.cc' '*.h' | xargs clang-format --dry-run -Werror
