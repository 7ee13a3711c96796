// Looks at a shared library's file before the system's loader does, which maps what the file says it has:
// a file that was cut short would kill the process with a bus error.
#pragma once

#include <string>

namespace mlxc {

// Throws MLXC_ERROR_OS, naming the file, where it is missing or shorter than its headers say. A file that
// is no library at all is left to the loader, which has words for it.
void check_library_file(const std::string& path);

}  // namespace mlxc
