// What a runtime of ExecuTorch has in xpwc's cache: its session, its constants and its packed weights.
#ifndef XPWC_EXECUTORCH_RUNTIME_H
#define XPWC_EXECUTORCH_RUNTIME_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <xpwc_executorch.hpp>

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

// The memory of an unpacked constant. Runtimes that keep the same constant share it.
struct Unpacked {
  explicit Unpacked(FreeableBuffer&& from) : buffer(std::move(from)) {}

  FreeableBuffer buffer;
  const NamedDataMap* named_data_map{nullptr};
  const void* data{nullptr};
  size_t size{0};
};

// A constant as one runtime loaded it.
struct Constant {
  std::string name;
  std::shared_ptr<Unpacked> unpacked; // until the session releases it
  const void* address{nullptr};
  size_t size{0};
  size_t loads{0};
  size_t packings{0}; // as a kernel
  bool packing_given{false}; // the host called set_packing
};

// Of xpwc_digest.
using Digest = std::array<uint8_t, 16>;

// Addresses of packed weights, or of constants.
using Memory = std::set<const void*>;

// A runtime, from initialize_for_runtime to delete_packed_data.
struct Runtime {
  xpwc_session session{};
  xnn_weights_cache_provider* provider{nullptr};
  const NamedDataMap* named_data_map{nullptr};
  std::unordered_map<std::string, Constant> constants;
  std::unordered_map<const void*, Constant*> addresses;
  std::string first_name;
  const void* announced{nullptr}; // kernel of the last look-up
  std::optional<Digest> program; // of the bytes that the host gave
  std::set<std::string> packed_only; // constants that the program does not read at inference
  std::optional<Digest> identity; // of the program and its constants, once it is known

  std::map<std::string, Memory> packed; // by name; without one: ""
  std::map<const void*, PackedDataMeta> metas; // of packed, by address
  Memory held; // unpacked constants that stay

  bool has_names(const std::vector<std::string>& sorted) const;
  std::vector<std::string> names() const;
};

using RuntimeList = std::vector<std::unique_ptr<Runtime>>;

// Returns the error of a status. libxpwc has logged it already.
Error error_of(xpwc_status status);

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
