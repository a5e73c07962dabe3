// Compiled with an xnnpack.h whose provider has alias_data: what XNNPACK packs from its own copy of a constant goes by
// the constant's name, and is found by it.
//
//   alias DIRECTORY
#include "backend.hpp"

#ifdef PLAYS_NEWER_XNNPACK // with what shows the age of one, where the program is linked with an older one
extern "C" {
void xnn_compute_fingerprint_id_value(void);
void xnn_weights_cache_alias_data(void);
void xnn_compute_fingerprint_id_value(void) {}
void xnn_weights_cache_alias_data(void) {}
}
#endif

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  executorch::runtime::runtime_init();
  const Constants constants({{"w", float_weights(1)}});
  const Bytes packed(constants.bytes("w").size(), 0x5a);
  XNNWeightsCache cache;
  cache.set_packed_cache_path(std::string(argv[1]) + "/model.xpwc");
  xnn_weights_cache_t provider = cache.get();
  REQUIRE(provider->alias_data(provider->context, nullptr, nullptr) == xnn_status_success); // no runtime is being created
  for (const bool found : {false, true}) {
    REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
    REQUIRE(cache.set_program("a program", 9) == Error::Ok);
    Result<const uint8_t*> weights = cache.load_unpacked_data("w");
    REQUIRE(weights.ok());
    Bytes copy(weights.get(), weights.get() + constants.bytes("w").size());
    uint8_t* original = const_cast<uint8_t*>(weights.get());
    REQUIRE(provider->alias_data(provider->context, copy.data(), original) == xnn_status_success);

    xnn_weights_cache_look_up_key key{};
    key.seed = 7;
    key.kernel = copy.data();
    size_t offset = provider->look_up(provider->context, &key);
    REQUIRE((offset != SIZE_MAX) == found);
    if (!found) {
      void* space = provider->reserve_space(provider->context, packed.size());
      REQUIRE(space != nullptr);
      std::memcpy(space, packed.data(), packed.size());
      offset = provider->look_up_or_insert(provider->context, &key, space, packed.size());
    }
    REQUIRE(std::memcmp(provider->offset_to_addr(provider->context, offset), packed.data(), packed.size()) == 0);
    Result<Names> names = cache.finalize_for_runtime();
    REQUIRE(names.ok());
    REQUIRE((names.get() == Names{"w"}));
    REQUIRE(cache.delete_packed_data(names.get()) == Error::Ok);
    REQUIRE(constants.live_bytes() == 0);
  }
  return 0;
}
