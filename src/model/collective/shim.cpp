// C functions for the parts of c10d (the collectives of libtorch) that Rust calls: a key-value store over TCP, and a
// process group over gloo.
//
// Functions return null, or the text of an exception, to be freed with `pairloom_text_free`. No exception leaves them.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace {

// Not `Store`, which within a class of stores is the base class.
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Work = c10::intrusive_ptr<c10d::Work>;

// A process group and its store, which must outlive it.
struct Group {
  StorePtr store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  std::chrono::milliseconds timeout;
};

// Message of the last error of this thread, cut after this many bytes. Its memory is there from the start, because the
// error may be that there is none.
thread_local char last_message[4096];

const char* text(const char* message) {
  // The last byte stays 0.
  return std::strncpy(last_message, message, sizeof(last_message) - 1);
}

constexpr size_t signature_bytes = 32;

// Writes the signature of a value of a key with a secret.
using Sign = void (*)(
    const uint8_t* secret,
    const char* key,
    size_t key_length,
    const uint8_t* value,
    size_t value_length,
    uint8_t* signature);

// Copies the value of a key. The bytes are valid for the call.
using Take = void (*)(void* context, const uint8_t* bytes, size_t length);

// Store whose values are signed: those of processes without the secret are refused. gloo's addresses go through it.
class SignedStore : public c10d::Store {
 public:
  SignedStore(StorePtr inner, Sign sign, const uint8_t* secret)
      : c10d::Store(inner->getTimeout()), inner_(std::move(inner)), sign_(sign), secret_(secret, secret + signature_bytes) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<SignedStore>(inner_->clone(), sign_, secret_.data());
  }

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    std::vector<uint8_t> content = signature(key, value.data(), value.size());
    content.insert(content.end(), value.begin(), value.end());
    inner_->set(key, content);
  }

  std::vector<uint8_t> get(const std::string& key) override {
    const std::vector<uint8_t> content = inner_->get(key);
    if (!is_signed(key, content)) {
      throw std::runtime_error("another process without the token of the ranks wrote `" + key + "`");
    }
    return std::vector<uint8_t>(content.begin() + signature_bytes, content.end());
  }

  int64_t add(const std::string& key, int64_t value) override {
    return inner_->add(key, value);
  }

  bool deleteKey(const std::string& key) override {
    return inner_->deleteKey(key);
  }

  bool check(const std::vector<std::string>& keys) override {
    return inner_->check(keys);
  }

  int64_t getNumKeys() override {
    return inner_->getNumKeys();
  }

  void wait(const std::vector<std::string>& keys) override {
    inner_->wait(keys);
  }

  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    inner_->wait(keys, timeout);
  }

  // The inner store waits.
  const std::chrono::milliseconds& getTimeout() const noexcept override {
    return inner_->getTimeout();
  }

  void setTimeout(const std::chrono::milliseconds& timeout) override {
    inner_->setTimeout(timeout);
  }

 private:
  // Whether the signature at the start of the content is that of the rest. Takes the same time for any signature.
  bool is_signed(const std::string& key, const std::vector<uint8_t>& content) const {
    if (content.size() < signature_bytes) {
      return false;
    }
    const std::vector<uint8_t> expected = signature(key, content.data() + signature_bytes, content.size() - signature_bytes);
    uint8_t difference = 0;
    for (size_t i = 0; i < signature_bytes; ++i) {
      difference |= expected[i] ^ content[i];
    }
    return difference == 0;
  }

  std::vector<uint8_t> signature(const std::string& key, const uint8_t* value, size_t length) const {
    std::vector<uint8_t> bytes(signature_bytes);
    sign_(secret_.data(), key.data(), key.size(), value, length, bytes.data());
    return bytes;
  }

  StorePtr inner_;
  Sign sign_;
  std::vector<uint8_t> secret_;
};

// Calls `function`, and returns the message of the exception that it throws, if any. It is valid until the next call of
// this thread.
template <typename Function>
const char* caught(Function&& function) noexcept {
  try {
    function();
    return nullptr;
    // Not `c10::Error`: naming that type here would link libtorch to programs that never call this.
  } catch (const std::exception& error) {
    return text(error.what());
  } catch (...) {
    return text("an exception without a message");
  }
}

// Turns off the flight recorder of c10d before anything uses it. It keeps a list of the last collective operations, one
// for the whole process and without a lock in this version: groups of several threads crash in it.
// TORCH_FR_BUFFER_SIZE, a number of operations, turns it on.
const bool recorder_is_set = setenv("TORCH_FR_BUFFER_SIZE", "0", 0) == 0;

// Turns off the warnings of c10d, which print a stack trace to stderr when a connection ends; Pairloom reports such
// errors itself. TORCH_CPP_LOG_LEVEL turns them on.
void hush() {
  static const bool hushed = [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr) {
      c10::initLogging();
    } else {
      FLAGS_caffe2_log_level = c10::GLOG_ERROR;
    }
    return true;
  }();
  (void)hushed;
}

at::Tensor& tensor(void* pointer) {
  return *static_cast<at::Tensor*>(pointer);
}

} // namespace

extern "C" {

// Opens a client of the store at host:port. If `listening` is not negative, it is a listening socket, which the
// function takes over, and the client is the server too.
const char* pairloom_store_open(
    const char* host, uint16_t port, int listening, int64_t timeout_ms, void** store) {
  return caught([&] {
    hush();
    c10d::TCPStoreOptions options;
    options.port = port;
    options.waitWorkers = false;
    options.timeout = std::chrono::milliseconds(timeout_ms);
    if (listening >= 0) {
      options.isServer = true;
      options.masterListenFd = listening;
    }
    *store = new StorePtr(c10::make_intrusive<c10d::TCPStore>(host, options));
  });
}

void pairloom_store_close(void* store) {
  caught([&] { delete static_cast<StorePtr*>(store); });
}

const char* pairloom_store_set(void* store, const char* key, const uint8_t* bytes, size_t length) {
  return caught([&] { (*static_cast<StorePtr*>(store))->set(key, std::vector<uint8_t>(bytes, bytes + length)); });
}

// Passes the value of `key` to `take`, unless the key is not set.
const char* pairloom_store_get(void* store, const char* key, Take take, void* context) {
  return caught([&] {
    StorePtr& at = *static_cast<StorePtr*>(store);
    if (at->check({key})) {
      const std::vector<uint8_t> value = at->get(key);
      take(context, value.data(), value.size());
    }
  });
}

// Joins a group as rank `rank` of `ranks`, with `name` as the prefix of its keys in the store. Returns when all ranks
// are connected. Listens at `address` only; unless that is a loopback address, GLOO_SOCKET_IFNAME may name another
// interface, as everywhere in c10d. If `secret`, of 32 bytes, is not null, addresses in the store are signed with it.
const char* pairloom_group_join(
    void* store,
    const char* name,
    const char* address,
    int rank,
    int ranks,
    int64_t timeout_ms,
    Sign sign,
    const uint8_t* secret,
    void** group) {
  return caught([&] {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->timeout = std::chrono::milliseconds(timeout_ms);
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    const bool loopback = std::strncmp(address, "127.", 4) == 0 || std::strcmp(address, "::1") == 0;
    if (interface != nullptr && !loopback) {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    } else {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    }
    StorePtr meeting = *static_cast<StorePtr*>(store);
    if (secret != nullptr) {
      meeting = c10::make_intrusive<SignedStore>(meeting, sign, secret);
    }
    StorePtr group_store = c10::make_intrusive<c10d::PrefixStore>(name, meeting);
    auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(group_store, rank, ranks, options);
    *group = new Group{group_store, std::move(gloo), options->timeout};
  });
}

const char* pairloom_group_set_timeout(void* group, int64_t timeout_ms) {
  return caught([&] {
    Group& of = *static_cast<Group*>(group);
    of.timeout = std::chrono::milliseconds(timeout_ms);
    of.gloo->setTimeout(of.timeout);
  });
}

void pairloom_group_leave(void* group) {
  caught([&] { delete static_cast<Group*>(group); });
}

// Gathers the rows of all ranks into `all`, in the order of ranks. `rows` has the same shape on all ranks, and `all`
// has space for the rows of all of them.
const char* pairloom_group_all_gather(void* group, void* rows, void* all) {
  return caught([&] {
    Group& of = *static_cast<Group*>(group);
    std::vector<at::Tensor> inputs{tensor(rows)};
    std::vector<std::vector<at::Tensor>> outputs{at::chunk(tensor(all), of.gloo->getSize())};
    of.gloo->allgather(outputs, inputs)->wait(of.timeout);
  });
}

// Starts to replace `content`, which must be contiguous, by its sum over all ranks. `pairloom_work_wait` waits for the
// end.
const char* pairloom_group_sum(void* group, void* content, void** work) {
  return caught([&] {
    Group& of = *static_cast<Group*>(group);
    std::vector<at::Tensor> tensors{tensor(content)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::SUM;
    *work = new Work(of.gloo->allreduce(tensors, options));
  });
}

// Waits for the end of `pairloom_group_sum`, and frees its handle.
const char* pairloom_work_wait(void* group, void* work) {
  const char* error = caught([&] { (*static_cast<Work*>(work))->wait(static_cast<Group*>(group)->timeout); });
  caught([&] { delete static_cast<Work*>(work); });
  return error;
}

} // extern "C"
