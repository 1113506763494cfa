// The only file that is compiled with OpenMP, which at::parallel_for needs in whoever instantiates it: without it that
// is a plain call on one thread.
#include "model/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

#ifndef INTRA_OP_PARALLEL
#error "compile this with OpenMP, or every loop of the kernels runs on one thread"
#endif

namespace tributary::model {

void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body) {
  if (count == 0) return;
  const std::size_t chunks = (count + grain - 1) / grain;
  at::parallel_for(0, static_cast<std::int64_t>(chunks), 1, [&](std::int64_t begin, std::int64_t end) {
    body(static_cast<std::size_t>(begin) * grain, std::min(count, static_cast<std::size_t>(end) * grain));
  });
}

void set_threads(int count) { at::set_num_threads(count); }
int threads() { return at::get_num_threads(); }

}  // namespace tributary::model
