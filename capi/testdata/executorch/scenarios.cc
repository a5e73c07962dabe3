// What a user of ExecuTorch with xpwc_executorch.hpp relies on. One scenario a process:
//
//   scenarios NAME DIRECTORY
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "backend.hpp"

namespace {

std::string path_in(const std::string& directory) {
  return directory + "/model.xpwc";
}

size_t file_size(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return static_cast<size_t>(status.st_size);
}

int64_t modified(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
}

// Memory of this process that is not a file's.
size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) {
      return std::stoul(line.substr(8)) << 10;
    }
  }
  require_failed(__FILE__, __LINE__, "/proc/self/status has RssAnon");
}

Names sorted(Names names) {
  std::sort(names.begin(), names.end());
  return names;
}

std::string sha256_like(char digit) {
  return std::string(64, digit);
}

Constants two_layers() {
  return Constants({{"w0", float_weights(1)}, {"b0", channels(2)}, {"w1", float_weights(3)}, {"b1", channels(4)}});
}

const Graph kFirst = {linear("w0", "b0"), linear("w1", "b1")};
const Graph kSecond = {linear("w1", "b1"), linear("w0", "b0")};

// Two methods of a program that use the same weights have them packed once, in the file or in memory.
void methods_share_packed_weights(const std::string& directory) {
  for (const std::string& path : {path_in(directory), std::string()}) {
    const Constants constants = two_layers();
    auto cache = cache_of(path);
    Method first;
    Method second;
    REQUIRE(first.init(cache, constants, kFirst) == Error::Ok);
    const size_t entries = path.empty() ? 2 : stats_of(path).packed.entries;
    REQUIRE(second.init(cache, constants, kSecond) == Error::Ok);
    REQUIRE(entries == 2);
    if (!path.empty()) {
      REQUIRE(stats_of(path).packed.entries == 2);
      REQUIRE(stats_of(path).hits.entries == 2);
    }
    REQUIRE((first.names() == Names{"w0b0", "w1b1"}));
    REQUIRE(second.names() == first.names());
    REQUIRE(first.execute() == expected(constants, kFirst));
    REQUIRE(second.execute() == expected(constants, kSecond));
  }
}

// Loading and unloading a model again and again neither packs again nor grows the file.
void reloading_does_not_grow_the_file(const std::string& directory) {
  const std::string path = path_in(directory);
  const Constants constants = two_layers();
  auto cache = cache_of(path);
  size_t size = 0;
  for (int i = 0; i < 20; i++) {
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, kFirst));
    method.destroy();
    REQUIRE(cache->save_packed_index() == Error::Ok);
    size = i == 0 ? file_size(path) : size;
    REQUIRE(file_size(path) == size);
    REQUIRE(stats_of(path).packed.entries == 2);
    REQUIRE(stats_of(path).mapped_bytes == 0);
    REQUIRE(constants.live_bytes() == 0);
  }
}

// Saving a second time, with nothing new, does not touch the file.
void saving_nothing_new_leaves_the_file(const std::string& directory) {
  const std::string path = path_in(directory);
  const Constants constants = two_layers();
  auto cache = cache_of(path);
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(cache->save_packed_index() == Error::Ok);
  const int64_t time = modified(path);
  REQUIRE(cache->save_packed_index() == Error::Ok);
  REQUIRE(modified(path) == time);
}

void first_process_packs(const std::string& directory) {
  const Constants constants = two_layers();
  auto cache = cache_of(path_in(directory));
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, kFirst));
}

// The process after that finds everything and leaves the file as it is.
void next_process_packs_nothing(const std::string& directory) {
  const std::string path = path_in(directory);
  const int64_t time = modified(path);
  const Constants constants = two_layers();
  {
    auto cache = cache_of(path);
    REQUIRE(cache->get_packed_data_names().empty());
    REQUIRE(cache->initialize_for_runtime(nullptr, &constants) == Error::Ok);
    REQUIRE((cache->get_packed_data_names() == Names{"w0b0", "w1b1"}));
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, kFirst));
    REQUIRE(stats_of(path).packed.entries == 0);
    REQUIRE(stats_of(path).misses == 0);
  }
  REQUIRE(modified(path) == time);
}

// In memory, names are there until as many runtimes as use them were deleted.
void names_in_memory_are_counted(const std::string&) {
  const Constants constants = two_layers();
  auto cache = cache_of("");
  Method both;
  Method first;
  REQUIRE(both.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(first.init(cache, constants, {linear("w0", "b0")}) == Error::Ok);
  REQUIRE((cache->get_packed_data_names() == Names{"w0b0", "w1b1"}));
  REQUIRE((first.names() == Names{"w0b0"}));
  both.destroy();
  REQUIRE((cache->get_packed_data_names() == Names{"w0b0"}));
  REQUIRE(first.execute() == expected(constants, {linear("w0", "b0")}));
  REQUIRE(cache->delete_packed_data({"w1b1"}) == Error::InvalidArgument);
  first.destroy();
  REQUIRE(cache->get_packed_data_names().empty());
  REQUIRE(cache->delete_packed_data({"w0b0"}) == Error::InvalidArgument);
  REQUIRE(cache->delete_packed_data({}) == Error::Ok);
  REQUIRE(constants.live_bytes() == 0);
}

// What is in the file keeps its name, however often it is deleted.
void names_in_the_file_stay(const std::string& directory) {
  const Constants constants = two_layers();
  auto cache = cache_of(path_in(directory));
  Method method;
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  method.destroy();
  for (int i = 0; i < 3; i++) {
    REQUIRE((cache->get_packed_data_names() == Names{"w0b0", "w1b1"}));
    REQUIRE(cache->delete_packed_data(cache->get_packed_data_names()) == Error::Ok);
  }
  REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, kFirst));
  REQUIRE(stats_of(path_in(directory)).packed.entries == 2);
}

// The names of the constants being loaded are listed until the runtime is finalized.
void unpacked_names_are_listed(const std::string&) {
  const Constants constants = two_layers();
  XNNWeightsCache cache;
  REQUIRE(cache.get_num_unpacked_data() == 0);
  REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
  Result<const uint8_t*> loaded = cache.load_unpacked_data("w0");
  REQUIRE(loaded.ok());
  REQUIRE(std::memcmp(loaded.get(), constants.bytes("w0").data(), constants.bytes("w0").size()) == 0);
  REQUIRE(cache.load_unpacked_data("b0").ok());
  REQUIRE(cache.load_unpacked_data("w0").get() == loaded.get());
  REQUIRE(cache.get_num_unpacked_data() == 2);
  REQUIRE((sorted(cache.get_unpacked_data_names()) == Names{"b0", "w0"}));
  REQUIRE(cache.finalize_for_runtime().ok());
  REQUIRE(cache.get_num_unpacked_data() == 0);
  REQUIRE(cache.get_unpacked_data_names().empty());
}

// Kernels are freed as soon as they are packed.
void kernels_are_freed_by_finalize(const std::string& directory) {
  for (const std::string& path : {path_in(directory), std::string()}) {
    const Constants constants = two_layers();
    auto cache = cache_of(path);
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(constants.live_bytes() <= constants.bytes("b0").size() + constants.bytes("b1").size());
    method.destroy();
    REQUIRE(constants.live_bytes() == 0);
  }
}

// The slopes of a PReLU are read at inference: they stay until the runtime is deleted, though nothing packs them, and
// though their constant is a bias as well.
void slopes_stay_readable(const std::string&) {
  const Constants constants({{"w", float_weights(1)}, {"b", channels(2)}, {"slopes", channels(3)}});
  const std::vector<Graph> graphs = {{linear("w", "b"), prelu("slopes")}, {linear("w", "b"), prelu("b")}, {prelu("slopes")}};
  for (const Graph& graph : graphs) {
    auto cache = cache_of("");
    Method method;
    REQUIRE(method.init(cache, constants, graph) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, graph));
    method.destroy();
    REQUIRE(constants.live_bytes() == 0);
  }
}

// Of two runtimes with the same names, the one that is left computes what it did, whichever is destroyed.
void equal_names_one_destroyed(const std::string& directory) {
  const Graph graph = {linear("w", "b"), prelu("slopes")};
  const std::map<std::string, Bytes> contents = {{"w", float_weights(1)}, {"b", channels(2)}, {"slopes", channels(3)}};
  const Constants one(contents);
  const Constants same(contents);
  std::map<std::string, Bytes> changed = contents;
  changed["slopes"] = channels(4);
  const Constants other(changed); // the packed weights are the same, the slopes are not
  for (const std::string& path : {path_in(directory), std::string()}) {
    for (const Constants* second_constants : {&one, &same, &other}) {
      for (bool first_goes : {true, false}) {
        auto cache = cache_of(path);
        Method first;
        Method second;
        REQUIRE(first.init(cache, one, graph) == Error::Ok);
        REQUIRE(second.init(cache, *second_constants, graph) == Error::Ok);
        REQUIRE((first.names() == Names{"wb"}));
        if (second_constants == &one) {
          REQUIRE(second.names() == first.names());
        }
        (first_goes ? first : second).destroy();
        Method& left = first_goes ? second : first;
        const Constants& constants = first_goes ? *second_constants : one;
        REQUIRE(left.execute() == expected(constants, graph));
        REQUIRE(constants.live_bytes() > 0);
        left.destroy();
        REQUIRE(one.live_bytes() + same.live_bytes() + other.live_bytes() == 0);
      }
    }
  }
}

// Replacing a model by itself, the new one before the old one goes, piles nothing up.
void handing_over_piles_nothing_up(const std::string&) {
  const Graph graph = {linear("w", "b"), prelu("slopes")};
  const Constants constants({{"w", float_weights(1)}, {"b", channels(2)}, {"slopes", channels(3)}});
  auto cache = cache_of("");
  auto method = std::make_unique<Method>();
  REQUIRE(method->init(cache, constants, graph) == Error::Ok);
  const size_t live = constants.live_bytes();
  for (int i = 0; i < 50; i++) {
    auto next = std::make_unique<Method>();
    REQUIRE(next->init(cache, constants, graph) == Error::Ok);
    method = std::move(next);
    REQUIRE(constants.live_bytes() == live);
    REQUIRE(method->execute() == expected(constants, graph));
  }
}

// Two models that give the same names to other weights get each their own, and are told apart when they are destroyed.
void same_names_other_contents(const std::string& directory) {
  const Constants one = two_layers();
  const Constants other({{"w0", float_weights(11)}, {"b0", channels(12)}, {"w1", float_weights(3)}, {"b1", channels(4)}});
  for (const std::string& path : {path_in(directory), std::string()}) {
    for (bool first_goes : {true, false}) {
      auto cache = cache_of(path);
      Method first;
      Method second;
      REQUIRE(first.init(cache, one, kFirst) == Error::Ok);
      REQUIRE(second.init(cache, other, kFirst) == Error::Ok);
      REQUIRE((first.names() == Names{"w0b0", "w1b1"}));
      REQUIRE((second.names() == Names{"w0b0#2", "w1b1"}));
      REQUIRE(first.execute() == expected(one, kFirst));
      REQUIRE(second.execute() == expected(other, kFirst));
      if (first_goes) {
        first.destroy();
        REQUIRE(second.execute() == expected(other, kFirst));
      } else {
        second.destroy();
        REQUIRE(first.execute() == expected(one, kFirst));
      }
    }
  }
}

// Even if nothing but the packed weights tells them apart.
void same_names_nothing_else_to_tell_by(const std::string&) {
  const Graph graph = {linear("w")};
  const Constants one({{"w", float_weights(1)}});
  const Constants other({{"w", float_weights(2)}});
  for (bool first_goes : {true, false}) {
    auto cache = cache_of("");
    Method first;
    Method second;
    REQUIRE(first.init(cache, one, graph) == Error::Ok);
    REQUIRE(second.init(cache, other, graph) == Error::Ok);
    REQUIRE((first.names() == Names{"w"}));
    REQUIRE((second.names() == Names{"w#2"}));
    (first_goes ? first : second).destroy();
    REQUIRE((first_goes ? second : first).execute() == expected(first_goes ? other : one, graph));
  }
}

// Packed weights in memory are freed with the last runtime that uses them.
void memory_is_given_back(const std::string&) {
  auto cache = cache_of("");
  size_t before = 0;
  for (uint32_t i = 0; i < 600; i++) { // 22 MB, if they all stayed
    const Constants constants({{"w", float_weights(i)}});
    Method method;
    REQUIRE(method.init(cache, constants, {linear("w")}) == Error::Ok);
    before = i == 100 ? resident_bytes() : before;
  }
  REQUIRE(resident_bytes() < before + (6 << 20));
}

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

// Quantised kernels of equal bytes and names, whose scales differ. How the constants are called must not matter.
struct Quantized {
  std::string kernel, scale, bias;
  float scale_value;
  uint32_t bias_seed;

  Graph graph() const {
    return {dynamic_linear(kernel, scale, bias), prelu("slopes")};
  }
  Constants constants() const {
    return Constants(
        {{kernel, int8_weights(1)}, {scale, scales(scale_value)}, {bias, channels(bias_seed)}, {"slopes", channels(9)}});
  }
};

void run_quantized(const std::string& directory, const std::vector<Quantized>& models) {
  auto cache = cache_of(path_in(directory));
  for (const Quantized& model : models) {
    const Constants constants = model.constants();
    Method method;
    REQUIRE(method.init(cache, constants, model.graph()) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, model.graph()));
  }
}

const std::vector<Quantized> kQuantized = {
    {"w", "s", "b", 0.01f, 5},
    {sha256_like('a'), "scale_" + sha256_like('b'), sha256_like('c'), 0.01f, 5},
};

void first_process_packs_quantized(const std::string& directory) {
  run_quantized(directory, kQuantized);
}

// In the next process, other scales under the same kernel, or another bias that XNNPACK packs in without naming it, are
// right.
void other_scales_in_the_next_process(const std::string& directory) {
  run_quantized(
      directory,
      {
          {"w", "s", "b", 0.02f, 5},
          {"w", "s", "b", 0.01f, 6},
          {sha256_like('a'), "scale_" + sha256_like('d'), sha256_like('c'), 0.02f, 5},
          {sha256_like('a'), "scale_" + sha256_like('b'), sha256_like('e'), 0.01f, 6},
      });
}

// And the same ones are found.
void same_scales_in_the_next_process(const std::string& directory) {
  const std::string path = path_in(directory);
  auto keep_open = cache_of(path);
  REQUIRE(keep_open->initialize_for_runtime(nullptr, nullptr) == Error::Ok);
  run_quantized(directory, kQuantized);
  REQUIRE(stats_of(path).packed.entries == 0);
  REQUIRE(stats_of(path).hits.entries == kQuantized.size());
}

Graph scale_in_program(float scale) {
  return {dynamic_linear("w", scale), prelu("slopes")};
}

void first_process_tells_scales(const std::string& directory) {
  const Constants constants({{"w", int8_weights(1)}, {"slopes", channels(9)}});
  auto cache = cache_of(path_in(directory));
  Method method;
  REQUIRE(method.init(cache, constants, scale_in_program(0.01f)) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, scale_in_program(0.01f)));
}

// Scales that the class cannot see can be told: then others in the next process are right, and the same ones are found.
void next_process_tells_other_scales(const std::string& directory) {
  const std::string path = path_in(directory);
  const Constants constants({{"w", int8_weights(1)}, {"slopes", channels(9)}});
  auto cache = cache_of(path);
  Method same;
  REQUIRE(same.init(cache, constants, scale_in_program(0.01f)) == Error::Ok);
  REQUIRE(stats_of(path).packed.entries == 0);
  Method other;
  REQUIRE(other.init(cache, constants, scale_in_program(0.02f)) == Error::Ok);
  REQUIRE(stats_of(path).packed.entries == 1);
  REQUIRE(same.execute() == expected(constants, scale_in_program(0.01f)));
  REQUIRE(other.execute() == expected(constants, scale_in_program(0.02f)));
}

// What is told of nothing, or at the wrong time, is an error.
void telling_at_the_wrong_time(const std::string&) {
  const Constants constants = two_layers();
  XNNWeightsCache cache;
  const uint8_t zero_point = 3;
  REQUIRE(cache.set_quantization("w0", &zero_point, 1) == Error::InvalidState);
  REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
  REQUIRE(cache.set_quantization("w0", &zero_point, 1) == Error::InvalidArgument);
  REQUIRE(cache.load_unpacked_data("w0").ok());
  REQUIRE(cache.set_quantization("w0", nullptr, 1) == Error::InvalidArgument);
  REQUIRE(cache.set_quantization("w0", nullptr, 0) == Error::Ok);
  REQUIRE(cache.finalize_for_runtime().ok());
  REQUIRE(cache.set_quantization("w0", &zero_point, 1) == Error::InvalidState);
}

// A compilation that fails on the way leaves nothing behind.
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

const std::map<std::string, void (*)(const std::string&)> kScenarios = {
    {"methods_share_packed_weights", methods_share_packed_weights},
    {"reloading_does_not_grow_the_file", reloading_does_not_grow_the_file},
    {"saving_nothing_new_leaves_the_file", saving_nothing_new_leaves_the_file},
    {"first_process_packs", first_process_packs},
    {"next_process_packs_nothing", next_process_packs_nothing},
    {"names_in_memory_are_counted", names_in_memory_are_counted},
    {"names_in_the_file_stay", names_in_the_file_stay},
    {"unpacked_names_are_listed", unpacked_names_are_listed},
    {"kernels_are_freed_by_finalize", kernels_are_freed_by_finalize},
    {"slopes_stay_readable", slopes_stay_readable},
    {"equal_names_one_destroyed", equal_names_one_destroyed},
    {"handing_over_piles_nothing_up", handing_over_piles_nothing_up},
    {"same_names_other_contents", same_names_other_contents},
    {"same_names_nothing_else_to_tell_by", same_names_nothing_else_to_tell_by},
    {"memory_is_given_back", memory_is_given_back},
    {"wild_deletions_are_harmless", wild_deletions_are_harmless},
    {"first_process_packs_quantized", first_process_packs_quantized},
    {"other_scales_in_the_next_process", other_scales_in_the_next_process},
    {"same_scales_in_the_next_process", same_scales_in_the_next_process},
    {"first_process_tells_scales", first_process_tells_scales},
    {"next_process_tells_other_scales", next_process_tells_other_scales},
    {"telling_at_the_wrong_time", telling_at_the_wrong_time},
    {"failed_compilation", failed_compilation},
    {"misuse_gets_errors", misuse_gets_errors},
    {"provider_outside_of_creation", provider_outside_of_creation},
    {"foreign_file_is_left_alone", foreign_file_is_left_alone},
    {"missing_directory", missing_directory},
    {"two_caches_of_a_path", two_caches_of_a_path},
    {"executing_while_creating", executing_while_creating},
    {"manager", manager},
};

} // namespace

int main(int argc, char** argv) {
  REQUIRE(argc == 3);
  auto scenario = kScenarios.find(argv[1]);
  REQUIRE(scenario != kScenarios.end());
  executorch::runtime::runtime_init();
  REQUIRE(xnn_initialize(nullptr) == xnn_status_success);
  scenario->second(argv[2]);
  return 0;
}
