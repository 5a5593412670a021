// Settings of arithmetic on GPUs, which tch does not offer. The functions throw nothing.

#include <ATen/Context.h>

// Allows or forbids TF32 in products of f32 matrices and in convolutions, overriding the environment where possible.
// Returns true if TF32 is allowed now.
extern "C" bool pairloom_allow_tf32(bool allow) noexcept {
  try {
    at::globalContext().setAllowTF32CuBLAS(allow);
    at::globalContext().setAllowTF32CuDNN(allow);
    return at::globalContext().allowTF32CuBLAS() || at::globalContext().allowTF32CuDNN();
  } catch (...) {
    return true;
  }
}

// Selects algorithms that give the same bits each time. An operation without one prints a warning. Memory that is not
// yet written is not filled, since nothing reads it. Returns true if they are selected now.
extern "C" bool pairloom_select_deterministic_algorithms() noexcept {
  try {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::globalContext().setDeterministicCuDNN(true);
    return at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicCuDNN();
  } catch (...) {
    return false;
  }
}
