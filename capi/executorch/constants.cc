#include "constants.h"

#ifdef __linux__
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <algorithm>

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

namespace {

bool is_sha256(const char* text, size_t length) {
  return length == 64 && std::all_of(text, text + length, [](char digit) {
           return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
         });
}

Digest digest_of(const void* bytes, size_t size) {
  Digest digest{};
  xpwc_digest(bytes, size, digest.data());
  return digest;
}

// Returns what the program's bytes and the constants are that it does not name by their content: all that decides how
// its kernels are packed.
Digest identity_of_program(const Runtime& runtime) {
  std::map<std::string, const Constant*> named_otherwise;
  for (const auto& [name, constant] : runtime.constants) {
    if (!is_exported(name)) {
      named_otherwise[name] = &constant;
    }
  }
  std::vector<Digest> all = {*runtime.program};
  for (const auto& [name, constant] : named_otherwise) {
    all.push_back(digest_of(name.data(), name.size()));
    all.push_back(digest_of(constant->address, constant->size));
  }
  return digest_of(all.data(), all.size() * sizeof(Digest));
}

} // namespace

bool is_exported_scale(const std::string& name) {
  static constexpr char prefix[] = "scale_";
  static constexpr size_t length = sizeof(prefix) - 1;
  return name.compare(0, length, prefix) == 0 && is_sha256(name.data() + length, name.size() - length);
}

bool is_exported(const std::string& name) {
  return is_sha256(name.data(), name.size()) || is_exported_scale(name);
}

Error add_packing(Runtime& runtime, const std::string& name, const void* bytes, size_t size) {
  xpwc_packing packing{};
  packing.struct_size = sizeof(packing);
  packing.opaque = bytes;
  packing.opaque_size = size;
  xpwc_load_options options{};
  options.struct_size = sizeof(options);
  options.flags = XPWC_LOAD_BELIEVE; // set_program and set_packing vouch for their bytes
  options.packing = &packing;
  const void* address = nullptr;
  return error_of(xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr));
}

void identify_packing(Runtime& runtime, const Constant& kernel) {
  if (kernel.packing_given || !runtime.program) { // without either it is compared
    return;
  }
  if (!runtime.identity) {
    runtime.identity = identity_of_program(runtime);
  }
  add_packing(runtime, kernel.name, runtime.identity->data(), runtime.identity->size());
}

// Of the constants that were packed as kernels, inference does not read those that the program only packs. Another name
// of the same memory could be read.
void retain_what_inference_may_read(Runtime& runtime) {
  xpwc_load_options options{};
  options.struct_size = sizeof(options);
  options.flags = XPWC_LOAD_RETAIN;
  std::map<const void*, size_t> names; // by address
  for (const auto& [name, constant] : runtime.constants) {
    names[constant.address]++;
  }
  for (const auto& [name, constant] : runtime.constants) {
    const bool is_free = constant.packings > 0 && names[constant.address] == 1 && runtime.packed_only.count(name) > 0;
    if (!is_free && !is_exported_scale(name)) {
      const void* address = nullptr;
      xpwc_session_load(runtime.session, name.c_str(), &options, &address, nullptr);
    }
  }
}

void drop_pages(const Unpacked& constant) {
#ifdef __linux__
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t address = reinterpret_cast<uintptr_t>(constant.data);
  const uintptr_t begin = (address + page - 1) / page, end = (address + constant.size) / page; // whole pages
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (begin < end && pagemap >= 0) {
    std::vector<uint64_t> entries(end - begin);
    const size_t size = entries.size() * sizeof(uint64_t);
    const ssize_t read_size = pread(pagemap, entries.data(), size, static_cast<off_t>(begin * sizeof(uint64_t)));
    const bool restorable = std::all_of(entries.begin(), entries.end(), [](uint64_t entry) {
      const bool is_file_page = (entry >> 61 & 1) != 0, is_absent = entry >> 62 == 0;
      return is_file_page || is_absent;
    });
    if (read_size == static_cast<ssize_t>(size) && restorable) {
      madvise(reinterpret_cast<void*>(begin * page), (end - begin) * page, MADV_DONTNEED);
    }
  }
  if (pagemap >= 0) {
    close(pagemap);
  }
#else
  (void)constant;
#endif
}

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
