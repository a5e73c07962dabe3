// The drop-in class inside of the stock ExecuTorch: a library for LD_PRELOAD, of a host that links the backend of
// ExecuTorch's wheel 1.5.1 for x86-64. That was not compiled against xpwc_executorch.hpp, and reads three members of
// its own class in inlined code. So the class here has those where the wheel's class has them, and passes everything
// else on. With XPWC_SET_PROGRAM set, the class is also given each delegate's bytes: the one line of docs/executorch.md.
//
// The drop-in's sources are compiled with -DXNNWeightsCache=DropIn, and with -DON_READER in place of them the class on the
// reader of sealed files.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#ifdef ON_READER
#include <xpwc_reader_executorch.hpp>
#else
#include <xpwc_executorch.hpp>
#endif

#ifndef XNNWeightsCache
#error "compile it as it says above"
#endif
#undef XNNWeightsCache

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {

class XNNWeightsCache {
 public:
  XNNWeightsCache();
  ~XNNWeightsCache();

  void set_packed_cache_path(const std::string& path);
  Error initialize_for_runtime(MemoryAllocator* runtime_allocator, const NamedDataMap* named_data_map);
  Result<std::vector<std::string>> finalize_for_runtime();
  Result<const uint8_t*> load_unpacked_data(const std::string& name);
  Error delete_packed_data(const std::vector<std::string>& packed_names);
  Error save_packed_index();

  std::unique_ptr<DropIn> drop_in;

 private:
  char before_unpacked_[0xd0 - sizeof(drop_in)];
  const void* unpacked_begin_ = nullptr;  // of a vector, which is asked whether it is empty
  const void* unpacked_end_ = nullptr;
  char before_provider_[0xe8 - 0xe0];
  xnn_weights_cache_provider provider_;
  char before_mutex_[0x200 - 0xe8 - sizeof(provider_)];
  std::mutex mutex_;

  static void check_layout();
};

void XNNWeightsCache::check_layout() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  static_assert(offsetof(XNNWeightsCache, unpacked_begin_) == 0xd0);
  static_assert(offsetof(XNNWeightsCache, provider_) == 0xe8);
  static_assert(offsetof(XNNWeightsCache, mutex_) == 0x200);
  static_assert(sizeof(XNNWeightsCache) == 0x228);
#pragma GCC diagnostic pop
}

XNNWeightsCache::XNNWeightsCache() : drop_in(std::make_unique<DropIn>()), provider_(*drop_in->get()) {}

XNNWeightsCache::~XNNWeightsCache() {
#ifdef ON_READER
  std::fprintf(stderr, "drop-in: found %zu, compared %zu, packed %zu\n", drop_in->found(), drop_in->compared(),
               drop_in->packed());
#endif
}

void XNNWeightsCache::set_packed_cache_path(const std::string& path) { drop_in->set_packed_cache_path(path); }

Error XNNWeightsCache::initialize_for_runtime(MemoryAllocator* runtime_allocator, const NamedDataMap* named_data_map) {
  unpacked_end_ = unpacked_begin_;
  return drop_in->initialize_for_runtime(runtime_allocator, named_data_map);
}

Result<std::vector<std::string>> XNNWeightsCache::finalize_for_runtime() {
  unpacked_end_ = unpacked_begin_;
  return drop_in->finalize_for_runtime();
}

Result<const uint8_t*> XNNWeightsCache::load_unpacked_data(const std::string& name) {
  Result<const uint8_t*> loaded = drop_in->load_unpacked_data(name);
  unpacked_end_ = static_cast<const char*>(unpacked_begin_) + drop_in->get_num_unpacked_data();
  return loaded;
}

Error XNNWeightsCache::delete_packed_data(const std::vector<std::string>& packed_names) {
  return drop_in->delete_packed_data(packed_names);
}

Error XNNWeightsCache::save_packed_index() { return drop_in->save_packed_index(); }

class XNNExecutor;

class XNNCompiler {
 public:
  static Error compileModel(
      const void* bytes, size_t size, XNNExecutor* executor, XNNWeightsCache* cache, xnn_workspace_t workspace,
      const NamedDataMap* named_data_map, bool use_weight_cache);
};

Error XNNCompiler::compileModel(
    const void* bytes, size_t size, XNNExecutor* executor, XNNWeightsCache* cache, xnn_workspace_t workspace,
    const NamedDataMap* named_data_map, bool use_weight_cache) {
  if (use_weight_cache && std::getenv("XPWC_SET_PROGRAM") != nullptr) {
    if (Error error = cache->drop_in->set_program(bytes, size); error != Error::Ok) {
      return error;
    }
  }
  static const auto compile = reinterpret_cast<decltype(&compileModel)>(dlsym(
      RTLD_NEXT,
      "_ZN10executorch8backends7xnnpack8delegate11XNNCompiler12compileModelEPKvmPNS2_11XNNExecutorEPNS2_15XNNWeightsCacheE"
      "P13xnn_workspacePKNS_7runtime12NamedDataMapEb"));
  return compile == nullptr ? Error::NotFound
                            : compile(bytes, size, executor, cache, workspace, named_data_map, use_weight_cache);
}

} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
