#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "model/kernels.h"

namespace tributary::model {

const Kernels* const* available_kernels(std::size_t& count) {
  static const Kernels* levels[3];
  static const std::size_t found = [] {
    std::size_t n = 0;
    levels[n++] = &kernels_baseline();
    if (__builtin_cpu_supports("avx2")) levels[n++] = &kernels_avx2();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      levels[n++] = &kernels_avx512();
    }
    return n;
  }();
  count = found;
  return levels;
}

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    std::size_t count = 0;
    const auto* levels = available_kernels(count);
    if (const char* wanted = std::getenv("TRIBUTARY_KERNELS")) {
      for (std::size_t i = 0; i < count; ++i) {
        if (std::strcmp(levels[i]->level, wanted) == 0) return *levels[i];
      }
    }
    return *levels[count - 1];
  }();
  return chosen;
}

}  // namespace tributary::model
