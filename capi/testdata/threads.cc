// threads DIRECTORY ROUNDS
//
// Eight threads open, create, finalize, execute, end and close, on one cache and on caches of their own, while others
// execute runtimes that live on.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host.h"

namespace {

constexpr int kThreads = 8;
constexpr uint32_t kModels = 3;

using Output = std::array<float, WIDTH>;

// A model is shared for reading; its counts would not be, so each thread has its own.
struct Weights {
  explicit Weights(uint32_t salt) {
    model_make(&m, salt);
    model_infer_plain(&m, want.data());
  }
  ~Weights() { model_free(&m); }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  void run(xpwc_cache cache) {
    Output got;
    model_forget_counts(&m);
    model_run(&m, cache, got.data());
    require_same_output(want.data(), got.data());
    for (const tensor& t : m.tensors) {
      REQUIRE(t.gets == 1 && t.releases == 1 && t.fills <= 1);
    }
  }

  model m;
  Output want;
};

void create(const std::string& shared, const std::string& own, int rounds, int me) {
  std::vector<std::unique_ptr<Weights>> models;
  for (uint32_t salt = 0; salt < kModels; ++salt) {
    models.push_back(std::make_unique<Weights>(salt));
  }
  for (int round = 0; round < rounds; ++round) {
    for (const std::string* path : {&shared, &own}) {
      xpwc_cache cache;
      OK(xpwc_open(path->c_str(), nullptr, &cache));
      models[static_cast<size_t>(round + me) % kModels]->run(cache);
      REQUIRE(cache_stats(cache).struct_size == sizeof(xpwc_stats));
      const char* const* names;
      size_t count;
      OK(xpwc_cache_names(cache, &names, &count));
      REQUIRE(count == LAYERS);
      xpwc_names_free(names);
      if (round % 4 == me % 4) {
        OK(xpwc_cache_trim(cache));
      }
      OK(xpwc_close(cache));
    }
  }
}

void execute(xpwc_cache cache, uint32_t salt, const std::atomic<bool>& done) {
  Weights weights(salt);
  const xpwc_data_map map = model_callbacks(&weights.m);
  opened o = model_open(&weights.m, cache, &map);
  Output got;
  do {
    runtime_infer(o.runtime, got.data());
    require_same_output(weights.want.data(), got.data());
  } while (!done);
  opened_close(&o);
}

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(argc == 3);
  const std::string directory = argv[1];
  const int rounds = std::stoi(argv[2]);
  const std::string shared = directory + "/shared";
  xpwc_cache cache;
  OK(xpwc_open(shared.c_str(), nullptr, &cache));

  std::atomic<bool> done{false};
  std::vector<std::thread> executing, creating;
  for (uint32_t i = 0; i < 2; ++i) {
    executing.emplace_back(execute, cache, i, std::cref(done));
  }
  for (int i = 0; i < kThreads; ++i) {
    creating.emplace_back(create, shared, directory + "/own" + std::to_string(i), rounds, i);
  }
  for (std::thread& t : creating) {
    t.join();
  }
  done = true;
  for (std::thread& t : executing) {
    t.join();
  }
  const xpwc_stats stats = cache_stats(cache);
  REQUIRE(stats.mapped_bytes == 0 && stats.private_bytes == 0);
  REQUIRE(stats.private_unnamed.entries + stats.private_busy.entries + stats.private_disk.entries == 0);
  REQUIRE(stats.wait_timeouts == 0);
  OK(xpwc_close(cache));
  return 0;
}
