// Linear layer y = x · wᵀ that libtorch differentiates, and whose products this project's kernels compute.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Kernel of a product: its number (0: x · wᵀ, 1: d · w, 2: dᵀ · x), factors, result, sizes of the result and the common
// size of the factors, and whether factors are rounded to bf16.
using Kernel = void (*)(int, const float*, const float*, float*, const std::int64_t*, bool);

at::Tensor multiply(Kernel kernel, int product, const at::Tensor& a, const at::Tensor& b,
                    std::array<std::int64_t, 3> sizes, bool bf16) {
  at::Tensor out = at::empty({sizes[0], sizes[1]}, a.options().requires_grad(false));
  kernel(product, a.const_data_ptr<float>(), b.const_data_ptr<float>(), out.mutable_data_ptr<float>(), sizes.data(), bf16);
  return out;
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const Variable& x, const Variable& w, std::int64_t kernel,
                            bool bf16) {
    context->save_for_backward({x, w});
    context->saved_data["kernel"] = kernel;
    context->saved_data["bf16"] = bf16;
    return multiply(reinterpret_cast<Kernel>(kernel), 0, x, w, {x.size(0), w.size(0), x.size(1)}, bf16);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Kernel kernel = reinterpret_cast<Kernel>(context->saved_data["kernel"].toInt());
    const bool bf16 = context->saved_data["bf16"].toBool();
    const at::Tensor d = gradients[0].contiguous();
    const Variable &x = saved[0], &w = saved[1];
    at::Tensor dx, dw;
    if (context->needs_input_grad(0)) {
      dx = multiply(kernel, 1, d, w, {x.size(0), x.size(1), w.size(0)}, bf16);
    }
    if (context->needs_input_grad(1)) {
      dw = multiply(kernel, 2, d, x, {w.size(0), w.size(1), x.size(0)}, bf16);
    }
    return {dx, dw, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

// Output of the layer for matrices of f32 that are contiguous and in main memory. Null if libtorch fails.
extern "C" at::Tensor* pairloom_linear(const at::Tensor* x, const at::Tensor* w, Kernel kernel, bool bf16) noexcept {
  try {
    return new at::Tensor(Linear::apply(*x, *w, reinterpret_cast<std::int64_t>(kernel), bf16));
  } catch (...) {
    return nullptr;
  }
}
