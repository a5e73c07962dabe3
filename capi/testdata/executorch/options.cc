#include "scenarios.hpp"

namespace {

xpwc_options options_with(uint32_t flags, uint32_t verify = XPWC_VERIFY_BACKGROUND) {
  xpwc_options options{};
  options.struct_size = sizeof(options);
  options.flags = flags;
  options.verify = verify;
  return options;
}

xpwc_status open_with(const std::string& path, const xpwc_options* options) {
  xpwc_cache cache{};
  const xpwc_status status = xpwc_open(path.c_str(), options, &cache);
  if (status == XPWC_STATUS_OK) {
    REQUIRE(xpwc_close(cache) == XPWC_STATUS_OK);
  }
  return status;
}

// All options reach the cache: its path can be opened once more with the same ones only.
void options_reach_the_cache(const std::string& directory) {
  const std::string path = path_in(directory);
  std::vector<xpwc_options> all = {
      options_with(XPWC_OPEN_PREFETCH), options_with(0, XPWC_VERIFY_ON_USE), options_with(0), options_with(0)};
  all[2].writer_wait_ms = -1;
  all[3].max_bytes = 1 << 30;
  for (const xpwc_options& options : all) {
    auto cache = cache_of(path);
    cache->set_options(options);
    REQUIRE(cache->initialize_for_runtime(nullptr, nullptr) == Error::Ok);
    REQUIRE(open_with(path, &options) == XPWC_STATUS_OK);
    REQUIRE(open_with(path, nullptr) == XPWC_STATUS_OTHER_OPTIONS);
  }
}

// A host that may only read gets what is in the file, and packs the rest in memory.
void read_only(const std::string& directory) {
  const std::string path = path_in(directory);
  const Constants constants = two_layers();
  {
    auto cache = cache_of(path);
    Method method;
    REQUIRE(method.init(cache, constants, {linear("w0", "b0")}) == Error::Ok);
  }
  const size_t size = file_size(path);
  auto cache = cache_of(path);
  cache->set_options(options_with(XPWC_OPEN_READ_ONLY));
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, kFirst));
  REQUIRE(cache->get_stats()->reused.entries == 1);
  REQUIRE(cache->get_stats()->private_read_only.entries == 1);
  REQUIRE(cache->save_packed_index() == Error::Ok);
  REQUIRE(file_size(path) == size);
}

// With XPWC_VERIFY_ON_USE damaged packed weights are found before they are used.
void damage_is_found_on_use(const std::string& directory) {
  const std::string path = path_in(directory);
  const Constants constants = two_layers();
  {
    auto cache = cache_of(path);
    Method method;
    REQUIRE(method.init(cache, constants, kFirst, kProgram) == Error::Ok);
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 1000);
  file << "damage";
  file.close();
  auto cache = cache_of(path);
  cache->set_options(options_with(0, XPWC_VERIFY_ON_USE));
  Method method;
  REQUIRE(method.init(cache, constants, kFirst, kProgram) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, kFirst));
  REQUIRE(cache->get_stats()->damaged_payloads == 1);
  REQUIRE(cache->get_stats()->verified.entries == 1);
}

// What is compared is never a damaged one, however the file is checked.
void damage_is_found_by_comparing(const std::string& directory) {
  const Constants constants = two_layers();
  for (uint32_t verify : {XPWC_VERIFY_BACKGROUND, XPWC_VERIFY_ON_USE, XPWC_VERIFY_STRUCTURE}) {
    const std::string path = path_in(directory) + std::to_string(verify);
    {
      auto cache = cache_of(path);
      Method method;
      REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    }
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 1000);
    file << "damage";
    file.close();
    for (const bool mended : {false, true}) {
      auto cache = cache_of(path);
      cache->set_options(options_with(0, verify));
      Method method;
      REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
      REQUIRE(method.execute() == expected(constants, kFirst));
      REQUIRE(cache->get_stats()->packed.entries == (mended ? 0 : 1));
      REQUIRE(cache->get_stats()->reused.entries == (mended ? 2 : 1));
    }
  }
}

// Options take effect while there are no runtimes, like the path.
void options_wait_for_runtimes_to_go(const std::string& directory) {
  const Constants constants = two_layers();
  auto cache = cache_of(path_in(directory));
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  cache->set_options(options_with(XPWC_OPEN_READ_ONLY));
  const Constants others({{"w0", float_weights(5)}, {"b0", channels(6)}});
  Method second;
  REQUIRE(second.init(cache, others, {linear("w0", "b0")}) == Error::Ok);
  REQUIRE(cache->get_stats()->packed.entries == 3);
  second.destroy();
  method.destroy();
  const Constants more({{"w0", float_weights(7)}, {"b0", channels(8)}});
  REQUIRE(second.init(cache, more, {linear("w0", "b0")}) == Error::Ok);
  REQUIRE(cache->get_stats()->private_read_only.entries == 1);
}

void options_that_make_no_sense(const std::string& directory) {
  auto cache = cache_of(path_in(directory));
  xpwc_options options = options_with(0);
  options.flags = 1u << 31;
  cache->set_options(options);
  REQUIRE(cache->initialize_for_runtime(nullptr, nullptr) == Error::InvalidArgument);
  options.flags = 0;
  options.struct_size = 0;
  cache->set_options(options);
  REQUIRE(cache->initialize_for_runtime(nullptr, nullptr) == Error::InvalidArgument);
  cache->set_options(options_with(0));
  REQUIRE(cache->initialize_for_runtime(nullptr, nullptr) == Error::Ok);
}

// A host with a log of its own gets the messages.
void messages_go_to_the_host(const std::string& directory) {
  std::atomic<int> messages{0};
  xpwc_options options = options_with(0);
  options.context = &messages;
  options.log = [](void* context, uint32_t, const char*) { ++*static_cast<std::atomic<int>*>(context); };
  const Constants constants = two_layers();
  {
    auto cache = cache_of(path_in(directory));
    cache->set_options(options);
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  }
  REQUIRE(messages >= 3); // opened, committed, closed
}

// Figures are there as soon as the cache is open.
void figures(const std::string& directory) {
  const Constants constants = two_layers();
  auto cache = cache_of(path_in(directory));
  REQUIRE(cache->get_stats().error() == Error::InvalidState);
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(cache->get_stats()->packed.entries == 2);
  REQUIRE(cache->get_stats()->misses == 2);
  REQUIRE(cache->get_stats()->mapped_bytes > 0);
}

// The manager's options apply to caches that it makes later.
void manager_sets_options(const std::string& directory) {
  XNNWeightsCacheManager caches;
  auto before = caches.get_or_create(path_in(directory)).get();
  caches.set_options(options_with(XPWC_OPEN_READ_ONLY));
  auto after = caches.get_or_create(path_in(directory) + "2").get();
  const Constants constants = two_layers();
  Method first, second;
  REQUIRE(first.init(before, constants, kFirst) == Error::Ok);
  REQUIRE(second.init(after, constants, kFirst) == Error::Ok);
  REQUIRE(before->get_stats()->private_read_only.entries == 0);
  REQUIRE(after->get_stats()->private_read_only.entries == 2);
}

} // namespace

Scenarios option_scenarios() {
  return {
      {"options_reach_the_cache", options_reach_the_cache},
      {"read_only", read_only},
      {"damage_is_found_on_use", damage_is_found_on_use},
      {"damage_is_found_by_comparing", damage_is_found_by_comparing},
      {"options_wait_for_runtimes_to_go", options_wait_for_runtimes_to_go},
      {"options_that_make_no_sense", options_that_make_no_sense},
      {"messages_go_to_the_host", messages_go_to_the_host},
      {"figures", figures},
      {"manager_sets_options", manager_sets_options},
  };
}
