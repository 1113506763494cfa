// Loops over ranges on the threads that the matrix products use, so that there is one pool of them.
#pragma once
#include <cstddef>
#include <functional>

namespace tributary::model {

// Calls body(begin, end) for disjoint ranges that cover [0, count); ranges start at multiples of `grain`. The ranges
// depend on the thread count: results that must not do so may not depend on where ranges lie.
void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body);

// Threads of one process for tensor work; 1 to 256. Process-wide, like LibTorch's own.
void set_threads(int count);
int threads();

}  // namespace tributary::model
