/* Finds the LAPACK routines in the BLAS library: see lapack.h.
 *
 * OpenBLAS and Accelerate hold both. Looked up once, at the first op of linear algebra; a library without
 * LAPACK (a BLAS of the system's) still serves matmul.
 */
#include "lapack.h"

#include <string>

#include "blas.h"

namespace mlxc_cpu {
namespace {

/* Looks symbols up and remembers those that are missing. */
class Finder {
 public:
  explicit Finder(char letter) : letter_(letter) {}
  template <class F>
  void find(const char* name, F* function) {
    const std::string symbol = letter_ + std::string(name) + "_";
    *function = reinterpret_cast<F>(find_blas_symbol(symbol.c_str()));
    if (!*function) missing_ += (missing_.empty() ? "" : ", ") + symbol;
  }
  const std::string& missing() const { return missing_; }

 private:
  char letter_;
  std::string missing_;
};

template <class T, class R>
std::string fill_table(char letter, LapackTable<T, R>* table) {
  constexpr bool is_complex_type = !std::is_same_v<T, R>;
  Finder finder(letter);
  finder.find("getrf", &table->getrf);
  finder.find("getri", &table->getri);
  finder.find("getrs", &table->getrs);
  finder.find("potrf", &table->potrf);
  finder.find("trtri", &table->trtri);
  finder.find("trtrs", &table->trtrs);
  finder.find("geqrf", &table->geqrf);
  if constexpr (is_complex_type) {
    finder.find("ungqr", &table->orgqr);
    finder.find("gesdd", &table->gesdd_complex);
    finder.find("heevd", &table->heevd);
    finder.find("geev", &table->geev_complex);
  } else {
    finder.find("orgqr", &table->orgqr);
    finder.find("gesdd", &table->gesdd_real);
    finder.find("syevd", &table->syevd);
    finder.find("geev", &table->geev_real);
  }
  return finder.missing();
}

struct Found {
  Lapack lapack{};
  std::string missing;
};

Found find_routines(const Blas& blas) {
  Found found;
  found.lapack.runs_on_caller = blas.runs_on_caller;
  for (const std::string& missing : {fill_table('s', &found.lapack.s), fill_table('d', &found.lapack.d),
                                     fill_table('c', &found.lapack.c), fill_table('z', &found.lapack.z)}) {
    if (!missing.empty()) found.missing += (found.missing.empty() ? "" : ", ") + missing;
  }
  return found;
}

}  // namespace

mlxc_error* open_lapack(const char* op, const Lapack** lapack) {
  const Blas* blas = nullptr;
  if (mlxc_error* error = open_blas(op, &blas)) return error;
  try {
    static const Found* found = new Found(find_routines(*blas));
    if (!found->missing.empty()) {
      return make_error(MLXC_ERROR_OS, "%s: the library %s has no LAPACK; it lacks %.300s", op,
                        blas_description(), found->missing.c_str());
    }
    *lapack = &found->lapack;
    return nullptr;
  } catch (const std::bad_alloc&) {
    return make_memory_error(0);
  }
}

}  // namespace mlxc_cpu
