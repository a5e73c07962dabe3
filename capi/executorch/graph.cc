#include "graph.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

namespace {

constexpr uint32_t kLongestName = 4096; // many constants could have one string, which is copied for each

// A flatbuffer of any content. A read beyond its end, or of an absent table, returns 0 and marks it as damaged.
class Flatbuffer {
 public:
  Flatbuffer(const void* data, size_t size) : data_(static_cast<const char*>(data)), size_(size) {}

  bool damaged() const {
    return damaged_;
  }

  template <typename T>
  T read(uint64_t offset) {
    T value{};
    if (const char* bytes = range(offset, sizeof(T)); bytes != nullptr) {
      std::memcpy(&value, bytes, sizeof(T));
    }
    return value;
  }

  // Returns null if the range is not inside of the bytes.
  const char* range(uint64_t offset, uint64_t size) {
    damaged_ = damaged_ || offset > size_ || size > size_ - offset;
    return damaged_ ? nullptr : data_ + offset;
  }

  // Returns the offset of a table's field, and 0 if the table lacks the field.
  uint64_t field(uint64_t table, size_t slot) {
    damaged_ = damaged_ || table == 0;
    const uint64_t vtable = table - static_cast<uint64_t>(int64_t{read<int32_t>(table)});
    const uint64_t entry = 4 + 2 * slot;
    const uint16_t offset = entry < read<uint16_t>(vtable) ? read<uint16_t>(vtable + entry) : uint16_t{0};
    return offset == 0 ? 0 : table + offset;
  }

  template <typename T>
  T number(uint64_t table, size_t slot) {
    const uint64_t offset = field(table, slot);
    return offset == 0 ? T{} : read<T>(offset);
  }

  // Returns the offset of the table, string or vector that a field refers to, and 0 if the table lacks the field.
  uint64_t object(uint64_t table, size_t slot) {
    const uint64_t offset = field(table, slot);
    return offset == 0 ? 0 : offset + read<uint32_t>(offset);
  }

  std::vector<uint64_t> tables(uint64_t table, size_t slot) {
    std::vector<uint64_t> offsets;
    const uint64_t vector = object(table, slot);
    const uint32_t count = vector == 0 ? 0 : read<uint32_t>(vector);
    for (uint64_t element = vector + 4; offsets.size() < count && !damaged_; element += 4) {
      offsets.push_back(element + read<uint32_t>(element));
    }
    return offsets;
  }

  // Returns "" for a string that is longer than any name.
  std::string text(uint64_t table, size_t slot) {
    const uint64_t string = object(table, slot);
    const uint32_t size = string == 0 ? 0 : read<uint32_t>(string);
    const char* bytes = string == 0 || size > kLongestName ? nullptr : range(string + 4, size);
    return bytes == nullptr ? std::string() : std::string(bytes, size);
  }

 private:
  const char* data_;
  uint64_t size_;
  bool damaged_{false};
};

// Slots of ExecuTorch's runtime_schema.fbs.
constexpr size_t kGraphNodes = 1, kGraphValues = 2, kGraphConstants = 8;
constexpr size_t kConstantName = 2;
constexpr size_t kUnionType = 0, kUnionTable = 1;
constexpr uint8_t kTensor = 1, kQuantizedTensor = 2;
constexpr size_t kQuantizedTensorTensor = 0;
constexpr size_t kTensorConstant = 3, kTensorId = 6;

// Slots with IDs of values.
struct Uses {
  std::vector<size_t> read;   // at inference
  std::vector<size_t> packed; // kernels
};

// Returns what a node of the schema's union uses, and nothing for an unknown kind. Biases and the operands of batch
// matrix multiplications count as read.
Uses uses_of(uint8_t kind) {
  switch (kind) {
    case 2: // fully connected
      return {{0, 2}, {1}};
    case 7: // convolutions
    case 13:
    case 39:
      return {{15, 17}, {16}};
    case 1: // binary operators
    case 8:
    case 12:
    case 15:
    case 16:
    case 26:
    case 31:
    case 37:
      return {{0, 1}, {}};
    case 3: // operators with the input in the first slot
    case 4:
    case 6:
    case 17:
    case 18:
    case 19:
    case 22:
    case 23:
    case 24:
    case 27:
    case 28:
    case 30:
    case 40:
    case 41:
    case 42:
    case 43:
    case 44:
    case 45:
    case 46:
    case 47:
      return {{0}, {}};
    case 25: // leaky ReLU, ELU
    case 29:
      return {{1}, {}};
    case 5: // transpose, resize, reshape
    case 9:
    case 20:
      return {{2}, {}};
    case 10: // pad, slice
    case 35:
      return {{3}, {}};
    case 11: // pooling
    case 14:
      return {{10}, {}};
    case 32: // concatenations
      return {{1, 2}, {}};
    case 33:
      return {{1, 2, 3}, {}};
    case 34:
      return {{1, 2, 3, 4}, {}};
    case 38:
      return {{1, 2, 3, 4, 7}, {}};
    default:
      return {};
  }
}

// Returns the flatbuffer in a delegate, which may have a header and constants.
Flatbuffer flatbuffer_in(const void* delegate, size_t size) {
  Flatbuffer bytes(delegate, size);
  const char* magic = bytes.range(4, 4);
  if (magic == nullptr || std::memcmp(magic, "XH00", 4) != 0) {
    return Flatbuffer(delegate, size);
  }
  const uint32_t offset = bytes.read<uint32_t>(10), flat_size = bytes.read<uint32_t>(14);
  const char* flat = bytes.range(offset, flat_size);
  return Flatbuffer(flat, flat == nullptr ? 0 : flat_size);
}

// Adds the values that a node uses in slots. A field that is absent has the ID 0.
void add_ids(std::set<uint32_t>& ids, Flatbuffer& flat, uint64_t node, const std::vector<size_t>& slots) {
  for (size_t slot : slots) {
    ids.insert(flat.number<uint32_t>(node, slot));
  }
}

} // namespace

std::set<std::string> packed_only(const void* delegate, size_t size) {
  Flatbuffer flat = flatbuffer_in(delegate, size);
  const char* identifier = flat.range(4, 4);
  if (identifier == nullptr || (std::memcmp(identifier, "XN00", 4) != 0 && std::memcmp(identifier, "XN01", 4) != 0)) {
    return {};
  }
  const uint64_t graph = flat.read<uint32_t>(0);
  std::set<uint32_t> read, packed;
  for (uint64_t entry : flat.tables(graph, kGraphNodes)) {
    const Uses uses = uses_of(flat.number<uint8_t>(entry, kUnionType));
    if (uses.read.empty()) {
      return {};
    }
    const uint64_t node = flat.object(entry, kUnionTable);
    add_ids(read, flat, node, uses.read);
    add_ids(packed, flat, node, uses.packed);
  }
  const std::vector<uint64_t> constants = flat.tables(graph, kGraphConstants);
  std::map<std::string, bool> only_packed; // by name
  for (uint64_t value : flat.tables(graph, kGraphValues)) {
    uint64_t tensor = flat.object(value, kUnionTable);
    switch (flat.number<uint8_t>(value, kUnionType)) {
      case kTensor:
        break;
      case kQuantizedTensor:
        tensor = flat.object(tensor, kQuantizedTensorTensor);
        break;
      default:
        return {};
    }
    const uint32_t constant = flat.number<uint32_t>(tensor, kTensorConstant);
    if (constant == 0 || constant >= constants.size()) {
      continue;
    }
    const uint32_t id = flat.number<uint32_t>(tensor, kTensorId);
    bool& only = only_packed.try_emplace(flat.text(constants[constant], kConstantName), true).first->second;
    only = only && packed.count(id) > 0 && read.count(id) == 0;
  }
  std::set<std::string> names;
  for (const auto& [name, only] : only_packed) {
    if (only && !flat.damaged()) {
      names.insert(name);
    }
  }
  return names;
}

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
