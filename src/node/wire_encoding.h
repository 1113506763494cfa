// Activations and gradients as they travel: bf16, fp32, or int8 by blocks. Encoding is a function of the values alone,
// whatever the number of threads, and part of what a node computes: a payload that is sent again is the same bytes.
// Plain functions. Internal to src/node.
//
// int8: of each 64 consecutive values (row by row; the last block may be shorter) the largest magnitude / 127 is the
// scale. First all scales as fp32, then the values, rounded to the nearest, ties to even.
#pragma once
#include <ATen/ATen.h>

#include "base/bytes.h"
#include "node/torch_compute.h"

namespace tributary::node {

inline constexpr std::size_t kInt8Block = 64;

std::uint64_t encoded_bytes(WireType type, std::uint64_t count);
// Of fp32 or bf16, contiguous. Errors: numbers that are not finite; they must not travel, the sender reports them.
Result<Payload> encode_tensor(const at::Tensor& tensor, WireType type);
// [rows, columns] of `scalar`, fp32 or bf16. May share the payload's memory and then keeps it alive; nothing may write
// to it. Errors: another size, numbers that are not finite; the message continues "the activation ...".
Result<at::Tensor> decode_tensor(const Payload& payload, WireType type, std::int64_t rows, std::int64_t columns,
                                 at::ScalarType scalar);

}  // namespace tributary::node
