// Linear layer of squared differences that libtorch differentiates, and that this project's kernels compute.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Inputs: weights [a, r, n], regions [a, r, d], words [n, d], layer [s, d], bias [s].
constexpr std::size_t kInputs = 5;

// Kernel of the output [a, n, s]: inputs, the sizes a, r, n, d, s, and whether factors are rounded to bf16.
using Forward = void (*)(const float* const*, const std::int64_t*, bool, float*);
// Kernel of the gradients: as above, the gradient in the output, and the gradients in the inputs.
using Backward = void (*)(const float* const*, const std::int64_t*, bool, const float*, float* const*);

std::array<const float*, kInputs> values(const variable_list& inputs) {
  std::array<const float*, kInputs> all{};
  for (std::size_t i = 0; i < kInputs; ++i) all[i] = inputs[i].const_data_ptr<float>();
  return all;
}

std::array<std::int64_t, 5> sizes(const variable_list& inputs) {
  return {inputs[0].size(0), inputs[0].size(1), inputs[0].size(2), inputs[1].size(2), inputs[3].size(0)};
}

struct DifferenceLayer : torch::autograd::Function<DifferenceLayer> {
  static at::Tensor forward(AutogradContext* context, const Variable& weights, const Variable& regions,
                            const Variable& words, const Variable& layer, const Variable& bias,
                            std::int64_t forward_kernel, std::int64_t backward_kernel, bool bf16) {
    const variable_list inputs{weights, regions, words, layer, bias};
    context->save_for_backward(inputs);
    context->saved_data["backward"] = backward_kernel;
    context->saved_data["bf16"] = bf16;
    const auto all = sizes(inputs);
    at::Tensor out = at::empty({all[0], all[2], all[4]}, weights.options().requires_grad(false));
    reinterpret_cast<Forward>(forward_kernel)(values(inputs).data(), all.data(), bf16, out.mutable_data_ptr<float>());
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list inputs = context->get_saved_variables();
    const Backward kernel = reinterpret_cast<Backward>(context->saved_data["backward"].toInt());
    const at::Tensor d = gradients[0].contiguous();
    variable_list found;
    std::array<float*, kInputs> out{};
    for (std::size_t i = 0; i < kInputs; ++i) {
      found.push_back(at::empty_like(inputs[i], inputs[i].options().requires_grad(false)));
      out[i] = found[i].mutable_data_ptr<float>();
    }
    kernel(values(inputs).data(), sizes(inputs).data(), context->saved_data["bf16"].toBool(), d.const_data_ptr<float>(),
           out.data());
    found.resize(kInputs + 3);
    return found;
  }
};

}  // namespace

// Output of the layer for inputs of f32 that are contiguous and in main memory. Null if libtorch fails.
extern "C" at::Tensor* pairloom_difference_layer(const at::Tensor* const* inputs, Forward forward, Backward backward,
                                                 bool bf16) noexcept {
  try {
    return new at::Tensor(DifferenceLayer::apply(*inputs[0], *inputs[1], *inputs[2], *inputs[3], *inputs[4],
                                                 reinterpret_cast<std::int64_t>(forward),
                                                 reinterpret_cast<std::int64_t>(backward), bf16));
  } catch (...) {
    return nullptr;
  }
}
