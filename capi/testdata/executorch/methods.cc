#include "scenarios.hpp"

namespace {

// Two methods of a program that use the same weights have them once, in the file or in memory.
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
      REQUIRE(stats_of(path).reused.entries == 2);
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
  REQUIRE(method.init(cache, constants, kFirst, kProgram) == Error::Ok);
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
    REQUIRE(method.init(cache, constants, kFirst, kProgram) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, kFirst));
    REQUIRE(stats_of(path).packed.entries == 0);
    REQUIRE(stats_of(path).misses == 0);
  }
  REQUIRE(modified(path) == time);
}

// Without its program a process packs, compares, and leaves the file as it is.
void next_process_compares(const std::string& directory) {
  const std::string path = path_in(directory);
  {
    const Constants constants = two_layers();
    auto cache = cache_of(path);
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, kFirst));
    REQUIRE(cache->save_packed_index() == Error::Ok);
  }
  const int64_t time = modified(path);
  for (int i = 0; i < 2; i++) {
    const Constants constants = two_layers();
    auto cache = cache_of(path);
    Method method;
    REQUIRE(method.init(cache, constants, kFirst) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, kFirst));
    REQUIRE(cache->get_stats()->packed.entries == 0);
    REQUIRE(cache->get_stats()->reused.entries == 2);
    REQUIRE(cache->get_stats()->mapped_bytes > 0); // and not its own memory
  }
  REQUIRE(modified(path) == time);
}

// Programs share what is packed only if their bytes are equal.
void what_programs_share(const std::string&) {
  const Constants constants = two_layers();
  auto cache = cache_of("");
  Method first, second, third;
  REQUIRE(first.init(cache, constants, kFirst, kProgram) == Error::Ok);
  REQUIRE(second.init(cache, constants, kFirst, kProgram) == Error::Ok);
  REQUIRE(cache->get_stats()->packed.entries == 2);
  REQUIRE(cache->get_stats()->hits.entries == 2);
  REQUIRE(third.init(cache, constants, kFirst, "another program") == Error::Ok);
  REQUIRE(cache->get_stats()->packed.entries == 4);
  for (Method* method : {&first, &second, &third}) {
    REQUIRE(method->execute() == expected(constants, kFirst));
  }
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

// Two models that give the same names to other weights get each their own, and each is known when it is destroyed.
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

// Even if they differ in nothing but the packed weights.
void same_names_other_weights_alone(const std::string&) {
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

// The metadata of packed weights: runtimes, refcounts, and cache hits.
void packed_data_has_metadata(const std::string& directory) {
  const Constants constants = two_layers();
  for (const bool found : {false, true}) {
    auto cache = cache_of(path_in(directory));
    REQUIRE(cache->get_packed_data_meta("w0b0").error() == Error::NotFound);
    REQUIRE(cache->initialize_for_runtime(nullptr, &constants) == Error::Ok);
    REQUIRE(cache->get_packed_data_meta("w0b0").ok() == found);
    if (found) {
      const PackedDataMeta in_file = cache->get_packed_data_meta("w0b0").get();
      REQUIRE(in_file.offset == 0 && in_file.ref_count == 0 && in_file.from_load && !in_file.in_current_runtime);
    }
    Method first;
    Method second;
    REQUIRE(first.init(cache, constants, kFirst, kProgram) == Error::Ok);
    const PackedDataMeta once = cache->get_packed_data_meta("w0b0").get();
    REQUIRE(once.offset != 0 && once.ref_count == 1 && once.seed != 0 && !once.in_current_runtime);
    REQUIRE(once.from_load == found && (once.data_size >= constants.bytes("w0").size()) == !found);
    REQUIRE(second.init(cache, constants, kFirst, kProgram) == Error::Ok);
    const PackedDataMeta twice = cache->get_packed_data_meta("w0b0").get();
    REQUIRE(twice.offset == once.offset && twice.ref_count == 2 && twice.seed == once.seed);
    REQUIRE(cache->get_packed_data_meta("w1b1")->offset != once.offset);
    REQUIRE(cache->get_packed_data_meta("").error() == Error::NotFound);
  }
}

} // namespace

Scenarios method_scenarios() {
  return {
      {"methods_share_packed_weights", methods_share_packed_weights},
      {"reloading_does_not_grow_the_file", reloading_does_not_grow_the_file},
      {"saving_nothing_new_leaves_the_file", saving_nothing_new_leaves_the_file},
      {"first_process_packs", first_process_packs},
      {"next_process_packs_nothing", next_process_packs_nothing},
      {"next_process_compares", next_process_compares},
      {"what_programs_share", what_programs_share},
      {"names_in_memory_are_counted", names_in_memory_are_counted},
      {"names_in_the_file_stay", names_in_the_file_stay},
      {"equal_names_one_destroyed", equal_names_one_destroyed},
      {"handing_over_piles_nothing_up", handing_over_piles_nothing_up},
      {"same_names_other_contents", same_names_other_contents},
      {"same_names_other_weights_alone", same_names_other_weights_alone},
      {"packed_data_has_metadata", packed_data_has_metadata},
      {"memory_is_given_back", memory_is_given_back},
  };
}
