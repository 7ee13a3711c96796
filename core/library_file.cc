// Implements library_file.h for ELF; other systems' loaders check for themselves.
#include "core/library_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/error.h"

#if defined(__linux__)
#include <elf.h>
#include <link.h>

#include <fstream>
#endif

namespace mlxc {

namespace {

#if defined(__linux__)
// How many bytes of the file its segments need; 0 if it is not ELF of this machine's word size.
uint64_t needed_bytes(std::ifstream& file) {
  ElfW(Ehdr) header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return 0;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr))) return 0;
  uint64_t needed = header.e_phoff + uint64_t{header.e_phnum} * sizeof(ElfW(Phdr));
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum; i++) {
    ElfW(Phdr) segment;
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return needed;
    if (segment.p_type != PT_LOAD) continue;
    const uint64_t end = segment.p_offset + segment.p_filesz;
    needed = end < segment.p_offset ? UINT64_MAX : std::max(needed, end);
  }
  return needed;
}
#endif

}  // namespace

void check_library_file(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) fail(MLXC_ERROR_OS, path, ": ", std::strerror(errno));
#if defined(__linux__)
  std::ifstream file(path, std::ios::binary);
  const uint64_t needed = needed_bytes(file);
  if (needed > static_cast<uint64_t>(facts.st_size))
    fail(MLXC_ERROR_OS, path, ": the file has ", facts.st_size, " bytes, its headers say at least ", needed,
         ": it is damaged");
#endif
}

}  // namespace mlxc
