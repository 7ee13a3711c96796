// Programs as files: docs/dev/program-format.md describes the bytes. A file holds one or more traces of a
// function, their constants, and a text of the writer's own.
//
// Rule of reading: nothing in the bytes is believed. Counts are checked against the bytes that are left
// before anything is allocated, and every step is recorded anew like a call from outside, so that an op
// checks its inputs and parameters as always.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/program.h"

namespace mlxc {

// A trace with the names of its inputs: those that come by place first, then those by name, sorted by it.
struct NamedTrace {
  ProgramPtr program;
  size_t n_positional = 0;
  std::vector<std::string> keywords;
};

struct ProgramFile {
  std::vector<NamedTrace> traces;
  std::string metadata;
};

inline constexpr char program_magic[8] = {'M', 'L', 'X', 'C', 'P', 'R', 'O', 'G'};
inline constexpr uint32_t program_version = 1;
inline constexpr size_t program_header_size = 64, program_alignment = 64;

// Bytes, eight at a time, as docs/dev/program-format.md defines it.
uint64_t checksum(const char* data, size_t size) noexcept;

// Gives the bytes piece by piece. A program that cannot be written is MLXC_ERROR_VALUE, before the first.
void write_program_file(std::span<const NamedTrace> traces, const std::string& metadata,
                        const std::function<void(const void*, size_t)>& write);
// Constants share the bytes, which `owner` keeps.
ProgramFile read_program_file(const char* data, size_t size, const std::shared_ptr<const void>& owner);

// A file of the whole, in one step: it is written beside the path and renamed.
void replace_file(const std::string& path,
                  const std::function<void(const std::function<void(const void*, size_t)>&)>& write);
// All bytes of a regular file, aligned for any dtype.
struct FileBytes {
  std::shared_ptr<char> data;
  size_t size = 0;
};
FileBytes read_file(const std::string& path);

}  // namespace mlxc
