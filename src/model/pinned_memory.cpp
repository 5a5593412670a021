// Tensor in page-locked memory. tch asks for it with an argument that libtorch warns of in each batch.

#include <ATen/ATen.h>

// Returns a new tensor of `count` f32 zeros in page-locked memory, or null if there is no memory or no GPU.
extern "C" at::Tensor* pairloom_pinned_zeros(std::int64_t count) noexcept {
  try {
    return new at::Tensor(at::zeros({count}, at::TensorOptions().dtype(at::kFloat).pinned_memory(true)));
  } catch (...) {
    return nullptr;
  }
}
