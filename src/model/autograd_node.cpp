// Node of libtorch's graph of gradients. A closure of Rust computes the gradients in its inputs.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace {

using torch::autograd::variable_list;

// Calls a closure and frees it. The closure gets the gradient in the output, and for each input whether its gradient is
// wanted. It stores new tensors, or null. It returns false after a failure, whose text it writes to `message`, with a 0
// at its end.
using Backward = bool (*)(void* closure, const at::Tensor* d, const bool* expected, at::Tensor** found, std::size_t count,
                          char* message, std::size_t capacity);
// Frees a closure that was not called.
using Drop = void (*)(void* closure);

struct Node : torch::autograd::Node {
  Node(void* closure, Backward backward, Drop drop) : closure_(closure), backward_(backward), drop_(drop) {}

  ~Node() override { release_variables(); }

  void release_variables() override {
    if (closure_ != nullptr) drop_(std::exchange(closure_, nullptr));
  }

  variable_list apply(variable_list&& gradients) override {
    const std::size_t count = num_outputs();
    variable_list found(count);
    if (!gradients[0].defined()) return found;
    TORCH_CHECK(closure_ != nullptr, "a graph is differentiated once");
    const std::unique_ptr<bool[]> expected(new bool[count]);
    for (std::size_t i = 0; i < count; ++i) expected[i] = task_should_compute_output(i);
    std::vector<at::Tensor*> made(count, nullptr);
    std::array<char, 4096> message{};
    const bool done = backward_(std::exchange(closure_, nullptr), &gradients[0], expected.get(), made.data(), count,
                                message.data(), message.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::unique_ptr<at::Tensor> owned(made[i]);
      if (owned) found[i] = *owned;
    }
    TORCH_CHECK(done, message.data());
    return found;
  }

 private:
  void* closure_;
  Backward backward_;
  Drop drop_;
};

}  // namespace

// The values of `output` as a function of the inputs whose gradients the closure computes. The node owns the closure,
// and frees it if no gradient is wanted. Null if libtorch fails.
extern "C" at::Tensor* pairloom_autograd_node(const at::Tensor* output, const at::Tensor* const* inputs, std::size_t count,
                                              void* closure, Backward backward, Drop drop) noexcept {
  try {
    const auto node = std::shared_ptr<Node>(new Node(closure, backward, drop), torch::autograd::deleteNode);
    variable_list all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(*inputs[i]);
    at::Tensor result = output->detach();
    if (torch::autograd::compute_requires_grad(all)) {
      node->set_next_edges(torch::autograd::collect_next_edges(all));
      torch::autograd::set_history(result, node);
    }
    return new at::Tensor(result);
  } catch (...) {
    return nullptr;
  }
}
