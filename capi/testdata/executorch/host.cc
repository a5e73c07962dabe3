#include <thread>

#include "scenarios.hpp"

namespace {

// A name that is wildly counted down does not mix up the runtimes that have it.
void wild_deletions_are_harmless(const std::string&) {
  const Constants one = two_layers();
  const Constants other({{"w0", float_weights(11)}, {"b0", channels(12)}, {"w1", float_weights(3)}, {"b1", channels(4)}});
  auto cache = cache_of("");
  REQUIRE(cache->delete_packed_data({}) == Error::InvalidArgument); // nothing was finalized yet
  REQUIRE(cache->delete_packed_data({"w0b0"}) == Error::InvalidArgument);
  Method first;
  REQUIRE(first.init(cache, one, kFirst) == Error::Ok);
  REQUIRE(cache->delete_packed_data({"w0b0", "nothing"}) == Error::InvalidArgument);
  REQUIRE((cache->get_packed_data_names() == Names{"w0b0", "w1b1"}));
  REQUIRE(cache->delete_packed_data({"w0b0", "w0b0", "w0b0"}) == Error::Ok);
  REQUIRE((cache->get_packed_data_names() == Names{"w1b1"}));
  Method second;
  REQUIRE(second.init(cache, other, kFirst) == Error::Ok);
  REQUIRE(second.names() != first.names());
  second.destroy();
  REQUIRE(first.execute() == expected(one, kFirst));
  first.destroy();
  REQUIRE(one.live_bytes() + other.live_bytes() == 0);
}

// A compilation that fails on the way leaves nothing.
void failed_compilation(const std::string& directory) {
  const Constants constants = two_layers();
  const Constants incomplete({{"w0", float_weights(1)}, {"b0", channels(2)}});
  for (const std::string& path : {path_in(directory), std::string()}) {
    auto cache = cache_of(path);
    Method running;
    REQUIRE(running.init(cache, constants, kFirst) == Error::Ok);
    Method broken;
    REQUIRE(broken.init(cache, incomplete, kFirst) == Error::InvalidExternalData);
    REQUIRE(running.execute() == expected(constants, kFirst));
    Method next;
    REQUIRE(next.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(incomplete.live_bytes() == 0);
    REQUIRE(broken.init(cache, incomplete, kFirst) == Error::InvalidExternalData);
    running.destroy(); // while the remains of the broken one are still there
    REQUIRE(next.execute() == expected(constants, kFirst));
  }
  REQUIRE(incomplete.live_bytes() == 0);
}

// Calls in the wrong order, and pointers that are not there.
void misuse_gets_errors(const std::string&) {
  const Constants constants = two_layers();
  XNNWeightsCache cache;
  REQUIRE(cache.load_unpacked_data("w0").error() == Error::InvalidState);
  REQUIRE(cache.finalize_for_runtime().ok());
  REQUIRE(cache.save_packed_index() == Error::Ok);
  REQUIRE(cache.initialize_for_runtime(nullptr, nullptr) == Error::Ok);
  REQUIRE(cache.load_unpacked_data("w0").error() == Error::InvalidExternalData);
  REQUIRE(cache.delete_packed_data({"w0b0"}) == Error::InvalidArgument);
  REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
  REQUIRE(cache.load_unpacked_data("nothing").error() == Error::InvalidExternalData);
  REQUIRE(cache.load_unpacked_data("").error() == Error::InvalidExternalData);
  Result<Names> names = cache.finalize_for_runtime();
  REQUIRE(names.ok() && names.get().empty());
}

// A provider that is used when no runtime is being created fails the creation, and nothing else.
void provider_outside_of_creation(const std::string&) {
  XNNWeightsCache cache;
  xnn_weights_cache_t provider = cache.get();
  const xnn_weights_cache_look_up_key key{};
  char packed[64];
  REQUIRE(provider == cache.get());
  REQUIRE(provider->look_up(provider->context, &key) == SIZE_MAX);
  REQUIRE(provider->reserve_space(provider->context, 64) == nullptr);
  const size_t offset = provider->look_up_or_insert(provider->context, &key, packed, sizeof(packed));
  REQUIRE(provider->offset_to_addr(provider->context, offset) == packed);
  REQUIRE(provider->offset_to_addr(provider->context, SIZE_MAX) == nullptr);
  REQUIRE(provider->is_finalized(provider->context));
  REQUIRE(provider->delete_cache(provider->context) == xnn_status_success);
}

// A file that is no cache stays what it is; the model runs in memory. Once it is out of the way, the file is used.
void foreign_file_is_left_alone(const std::string& directory) {
  const std::string path = path_in(directory);
  const std::string words = "These are somebody's notes.";
  std::ofstream(path) << words;
  const Constants constants = two_layers();
  auto cache = cache_of(path);
  {
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, kFirst));
    REQUIRE((cache->get_packed_data_names() == Names{"w0b0", "w1b1"}));
    REQUIRE(cache->save_packed_index() == Error::Ok);
  }
  REQUIRE(cache->get_packed_data_names().empty());
  std::string found;
  std::getline(std::ifstream(path), found);
  REQUIRE(found == words);
  REQUIRE(std::remove(path.c_str()) == 0);
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, kFirst));
  REQUIRE(stats_of(path).packed.entries == 2);
}

// Without its directory, the cache is in memory.
void missing_directory(const std::string& directory) {
  const Constants constants = two_layers();
  auto cache = cache_of(directory + "/missing/model.xpwc");
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, kFirst));
}

// Two caches of one path, which ExecuTorch's manager prevents, use the same file.
void two_caches_of_a_path(const std::string& directory) {
  const Constants constants = two_layers();
  auto one = cache_of(path_in(directory));
  auto two = cache_of(path_in(directory));
  Method first;
  Method second;
  REQUIRE(first.init(one, constants, kFirst) == Error::Ok);
  REQUIRE(second.init(two, constants, kFirst) == Error::Ok);
  REQUIRE(stats_of(path_in(directory)).packed.entries == 2);
  first.destroy();
  one.reset();
  REQUIRE(second.execute() == expected(constants, kFirst));
}

// Runtimes are executed, without the mutex, while others are created and destroyed.
void executing_while_creating(const std::string& directory) {
  const Constants constants = two_layers();
  const Output want = expected(constants, kFirst);
  auto cache = cache_of(path_in(directory));
  Method running[3];
  for (Method& method : running) {
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  }
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (Method& method : running) {
    threads.emplace_back([&] {
      do {
        REQUIRE(method.execute_unlocked(1) == want);
      } while (!done);
    });
  }
  for (uint32_t i = 0; i < 30; i++) {
    const Constants others(
        {{"w0", float_weights(100 + i)}, {"b0", channels(2)}, {"w1", float_weights(3)}, {"b1", channels(4)}});
    Method method;
    REQUIRE(method.init(cache, others, kFirst) == Error::Ok);
    REQUIRE(method.execute() == expected(others, kFirst));
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// The manager has one cache for each path, as long as someone holds it.
void manager(const std::string& directory) {
  XNNWeightsCacheManager caches;
  const std::string path = path_in(directory);
  REQUIRE(caches.save_all() == Error::Ok);
  auto one = caches.get_or_create(path).get();
  REQUIRE(caches.get_or_create(path).get() == one);
  auto other = caches.get_or_create(path + "2").get();
  REQUIRE(other != one);
  auto in_memory = caches.get_or_create("").get();
  REQUIRE(caches.get_or_create("").get() == in_memory);
  REQUIRE(caches.live_count() == 2);

  const Constants constants = two_layers();
  Method method;
  REQUIRE(method.init(one, constants, kFirst) == Error::Ok);
  REQUIRE(caches.save_all() == Error::Ok);
  REQUIRE(stats_of(path).generation == 1);

  other.reset();
  REQUIRE(caches.live_count() == 1);
  REQUIRE(caches.save_all() == Error::Ok);
  one.reset();
  REQUIRE(caches.live_count() == 1); // the method holds it
  method.destroy();
  REQUIRE(caches.live_count() == 0);

  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<XNNWeightsCache>> got(8);
  for (auto& cache : got) {
    threads.emplace_back([&] { cache = caches.get_or_create(path).get(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  REQUIRE(std::all_of(got.begin(), got.end(), [&](const auto& cache) { return cache == got[0]; }));
}

} // namespace

Scenarios host_scenarios() {
  return {
      {"wild_deletions_are_harmless", wild_deletions_are_harmless},
      {"failed_compilation", failed_compilation},
      {"misuse_gets_errors", misuse_gets_errors},
      {"provider_outside_of_creation", provider_outside_of_creation},
      {"foreign_file_is_left_alone", foreign_file_is_left_alone},
      {"missing_directory", missing_directory},
      {"two_caches_of_a_path", two_caches_of_a_path},
      {"executing_while_creating", executing_while_creating},
      {"manager", manager},
  };
}
