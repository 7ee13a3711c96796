/* Reads what the CPU can do and picks the kernel variant (see isa.h).
 *
 * x86-64: base is SSE2, v3 adds AVX2, FMA and F16C, v4 adds AVX-512 F, BW, CD, DQ and VL; the operating
 * system must save the wide registers too, which the compiler's own test covers. Elsewhere there is one
 * build, called base.
 */
#include "isa.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "kernel.h"

#if defined(MLXC_CPU_X86_VARIANTS)
#include <cpuid.h>
#endif
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace mlxc_cpu {

namespace {

#if defined(MLXC_CPU_X86_VARIANTS)
bool has_v3() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  bool f16c = (c >> 29) & 1, movbe = (c >> 22) & 1;
  if (!__get_cpuid(0x80000001u, &a, &b, &c, &d)) return false;
  bool lzcnt = (c >> 5) & 1;
  __builtin_cpu_init();
  return f16c && movbe && lzcnt && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
bool has_v3() { return false; }
bool has_v4() { return false; }
#endif

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kV3: return "v3";
    case Isa::kV4: return "v4";
    default: return "base";
  }
}

mlxc_error* pick_isa(Isa* isa) {
  Isa best = has_v4() ? Isa::kV4 : has_v3() ? Isa::kV3 : Isa::kBase;
  *isa = best;
  const char* wanted = std::getenv("MLXC_CPU_ISA");
  if (wanted == nullptr || wanted[0] == '\0') return nullptr;
  for (Isa known : {Isa::kBase, Isa::kV3, Isa::kV4}) {
    if (std::strcmp(wanted, isa_name(known)) != 0) continue;
    if (known > best) {
      return make_error(MLXC_ERROR_VALUE,
                        "MLXC_CPU_ISA is \"%s\", but the best this CPU and build have is \"%s\"", wanted,
                        isa_name(best));
    }
    *isa = known;
    return nullptr;
  }
  return make_error(MLXC_ERROR_VALUE, "MLXC_CPU_ISA is \"%.64s\"; expected base, v3 or v4", wanted);
}

void describe_cpu(char* name, size_t name_size, char* architecture, size_t architecture_size) {
#if defined(__x86_64__)
  std::snprintf(architecture, architecture_size, "x86_64");
#elif defined(__aarch64__)
  std::snprintf(architecture, architecture_size, "aarch64");
#else
  std::snprintf(architecture, architecture_size, "unknown");
#endif
  std::snprintf(name, name_size, "CPU");
#if defined(__APPLE__)
  size_t size = name_size;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) != 0) {
    std::snprintf(name, name_size, "CPU");
  }
#elif defined(__linux__)
  std::FILE* file = std::fopen("/proc/cpuinfo", "r");
  if (file == nullptr) return;
  char line[512];
  while (std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, "model name", 10) != 0) continue;
    const char* value = std::strchr(line, ':');
    if (value == nullptr) break;
    value += 1 + std::strspn(value + 1, " \t");
    std::snprintf(name, name_size, "%.*s", static_cast<int>(std::strcspn(value, "\n")), value);
    break;
  }
  std::fclose(file);
#endif
}

void describe_features(Isa isa, char* text, size_t text_size) {
  const char* words = "";
#if defined(__x86_64__)
  words = isa == Isa::kV4   ? " avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma f16c"
          : isa == Isa::kV3 ? " avx2 fma f16c"
                            : " sse2";
#elif defined(__aarch64__)
  words = " neon";
#endif
  std::snprintf(text, text_size, "isa=%s%s", isa_name(isa), words);
}

}  // namespace mlxc_cpu
