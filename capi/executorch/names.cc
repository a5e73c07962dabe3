#include "names.h"

#include <algorithm>

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

namespace {

bool is_other_memory(const std::string& name, const Memory& memory, const RuntimeList& others) {
  return std::any_of(others.begin(), others.end(), [&](const auto& other) {
    auto same_name = other->packed.find(name);
    return same_name != other->packed.end() && same_name->second != memory;
  });
}

bool has_other_constants(const Runtime& runtime, const RuntimeList& others) {
  const std::vector<std::string> names = runtime.names();
  return std::any_of(others.begin(), others.end(), [&](const auto& other) {
    return other->held != runtime.held && other->has_names(names);
  });
}

std::string unique_name(
    const Runtime& runtime, const std::string& name, const Memory& memory, const RuntimeList& others) {
  std::string unique = name;
  for (size_t n = 2; runtime.packed.count(unique) > 0 || is_other_memory(unique, memory, others); n++) {
    unique = name + "#" + std::to_string(n);
  }
  return unique;
}

// What has no name goes with any of the runtime's names.
void name_the_unnamed(const Runtime& runtime, std::map<std::string, Memory>& packed) {
  auto unnamed = packed.find("");
  if (unnamed == packed.end() && !packed.empty()) {
    return;
  }
  Memory memory;
  if (unnamed != packed.end()) {
    memory.swap(unnamed->second);
    packed.erase(unnamed);
  }
  const std::string any = runtime.first_name.empty() ? "unnamed" : runtime.first_name;
  packed[packed.empty() ? any : packed.begin()->first].merge(memory);
}

} // namespace

bool Runtime::has_names(const std::vector<std::string>& sorted) const {
  return std::equal(
      packed.begin(), packed.end(), sorted.begin(), sorted.end(),
      [](const auto& entry, const std::string& name) { return entry.first == name; });
}

std::vector<std::string> Runtime::names() const {
  std::vector<std::string> all;
  for (const auto& [name, memory] : packed) {
    all.push_back(name);
  }
  return all;
}

void give_names(Runtime& runtime, const RuntimeList& others) {
  std::map<std::string, Memory> packed;
  packed.swap(runtime.packed);
  name_the_unnamed(runtime, packed);
  for (auto& [name, memory] : packed) {
    runtime.packed[unique_name(runtime, name, memory, others)] = std::move(memory);
  }
  const std::string first = runtime.packed.begin()->first;
  std::string renamed = first;
  for (size_t n = 2; has_other_constants(runtime, others); n++) {
    auto node = runtime.packed.extract(renamed);
    renamed = unique_name(runtime, first + "#" + std::to_string(n), node.mapped(), others);
    node.key() = renamed;
    runtime.packed.insert(std::move(node));
  }
}

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
