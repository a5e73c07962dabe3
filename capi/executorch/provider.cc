#include "provider.h"

#include <type_traits>

#include "constants.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {
namespace xpwc_executorch {

namespace {

constexpr size_t kNotFound = SIZE_MAX;

Runtime* current_of(void* context) {
  return static_cast<const std::unique_ptr<Runtime>*>(context)->get();
}

void count_packing(Runtime& runtime, const void* kernel) {
  auto known = runtime.addresses.find(kernel);
  if (known != runtime.addresses.end() && known->second->packings++ == 0) {
    identify_packing(runtime, *known->second);
  }
}

// Notes packed weights of the runtime, and returns their offset. size is 0 if they were found.
size_t note(Runtime& runtime, const xnn_weights_cache_look_up_key& key, const void* packed, size_t size) {
  std::string name;
  if (auto kernel = runtime.addresses.find(key.kernel); kernel != runtime.addresses.end()) {
    name = kernel->second->name;
    if (auto bias = runtime.addresses.find(key.bias); key.bias != nullptr && bias != runtime.addresses.end()) {
      name += bias->second->name;
    }
  }
  const size_t offset = reinterpret_cast<uintptr_t>(packed);
  runtime.packed[name].insert(packed);
  PackedDataMeta meta;
  meta.offset = offset;
  meta.data_size = size;
  meta.from_load = size == 0;
  meta.seed = key.seed;
  runtime.metas.emplace(packed, meta);
  return offset;
}

size_t look_up(void* context, const xnn_weights_cache_look_up_key* key) {
  Runtime* runtime = current_of(context);
  if (runtime == nullptr) {
    return kNotFound;
  }
  count_packing(*runtime, key->kernel);
  runtime->announced = key->kernel;
  const size_t offset = runtime->provider->look_up(runtime->provider->context, key);
  if (offset == kNotFound) {
    return kNotFound;
  }
  return note(*runtime, *key, runtime->provider->offset_to_addr(runtime->provider->context, offset), 0);
}

void* reserve_space(void* context, size_t n) {
  Runtime* runtime = current_of(context);
  return runtime == nullptr ? nullptr : runtime->provider->reserve_space(runtime->provider->context, n);
}

size_t look_up_or_insert(void* context, const xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  Runtime* runtime = current_of(context);
  if (runtime == nullptr) {
    return packed == nullptr ? kNotFound : reinterpret_cast<uintptr_t>(packed);
  }
  if (runtime->announced != key->kernel) { // an operator that packs without looking up
    count_packing(*runtime, key->kernel);
  }
  runtime->announced = nullptr;
  const xnn_weights_cache_provider& of = *runtime->provider;
  const size_t offset = of.look_up_or_insert(of.context, key, packed, size);
  void* address = offset == kNotFound ? packed : of.offset_to_addr(of.context, offset);
  return address == nullptr ? kNotFound : note(*runtime, *key, address, size);
}

bool is_finalized(void* context) {
  (void)context;
  return true;
}

void* offset_to_addr(void* context, size_t offset) {
  (void)context;
  return offset == kNotFound ? nullptr : reinterpret_cast<void*>(offset);
}

// The host owns the cache.
xnn_status delete_cache(void* context) {
  (void)context;
  return xnn_status_success;
}

// XNNPACK of March 2026 and later has alias_data, and reports constants that it converted.
template <typename Provider, typename = void>
struct Alias {
  static void set(Provider&) {}
};

template <typename Provider>
struct Alias<Provider, std::void_t<decltype(std::declval<Provider>().alias_data)>> {
  static void set(Provider& provider) {
    provider.alias_data = forward;
  }

  static xnn_status forward(void* context, void* alias, void* original) {
    Runtime* runtime = current_of(context);
    if (runtime == nullptr) {
      return xnn_status_success;
    }
    if (auto known = runtime->addresses.find(original); known != runtime->addresses.end()) {
      runtime->addresses[alias] = known->second;
    }
    const Provider* provider = runtime->provider;
    return provider->alias_data == nullptr ? xnn_status_success
                                           : provider->alias_data(provider->context, alias, original);
  }
};

template <typename Provider>
void set_alias_data(Provider& provider) {
  Alias<Provider>::set(provider);
}

} // namespace

xnn_weights_cache_provider provider_of(const std::unique_ptr<Runtime>* current) {
  xnn_weights_cache_provider provider{};
  provider.context = const_cast<std::unique_ptr<Runtime>*>(current);
  provider.look_up = look_up;
  provider.reserve_space = reserve_space;
  provider.look_up_or_insert = look_up_or_insert;
  provider.is_finalized = is_finalized;
  provider.offset_to_addr = offset_to_addr;
  provider.delete_cache = delete_cache;
  set_alias_data(provider);
  return provider;
}

} // namespace xpwc_executorch
} // namespace delegate
} // namespace xnnpack
} // namespace backends
} // namespace executorch
