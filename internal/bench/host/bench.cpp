#include "bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "backend.h"
#include "empty_callbacks.h"
#include "programs.h"
#include "relay.h"
#include "subgraph.h"
#include "weights_file.h"

namespace {

using Clock = std::chrono::steady_clock;
using Key = xnn_weights_cache_look_up_key;

constexpr int rounds = 25;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double best(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// Keeps the keys of all look-ups.
class Recorder final : public Relay {
 public:
  const std::vector<Key>& keys() const { return keys_; }

 private:
  void on_look_up(const Key& key) override { keys_.push_back(key); }

  std::vector<Key> keys_;
};

// A program of one method that has all layers of another's.
Program in_one_method(Program program) {
  Method all{"all", {}};
  for (const Method& method : program.methods) {
    all.layers.insert(all.layers.end(), method.layers.begin(), method.layers.end());
  }
  program.methods = {all};
  return program;
}

// Nanoseconds of a look-up that hits: each key once in a new session, as in a warm load, on the thread that loaded the weights.
Status time_look_ups(
    const Program& program, xpwc::Cache& cache, WeightsFile& weights, const std::vector<Key>& keys, double* nanoseconds) {
  xpwc::Result<xpwc::Session> session = cache.begin(&weights);
  if (!session) {
    return session.status();
  }
  SessionLoader loader(*session);
  Subgraph subgraph;  // only to load everything: the mapping, and so the keys' addresses, are the same as before
  RETURN_IF_ERROR(define_subgraph(program, program.methods[0], loader, &subgraph));
  const xnn_weights_cache_t provider = session->provider();
  std::size_t missed = 0;
  const Clock::time_point start = Clock::now();
  for (const Key& key : keys) {
    missed += provider->look_up(provider->context, &key) == SIZE_MAX;
  }
  *nanoseconds = seconds_since(start) * 1e9 / static_cast<double>(keys.size());
  if (missed > 0) {
    return Status::error(std::to_string(missed) + " look-ups missed");
  }
  return session->finalize();
}

// Nanoseconds of a call through a pointer.
template <typename Call>
double time_call(const Call& call) {
  constexpr int calls = 1'000'000;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; i++) {
    call(i);
  }
  return seconds_since(start) * 1e9 / calls;
}

Status bench_calls(const Program& program, xpwc::Cache& cache, WeightsFile& weights) {
  Recorder recorder;
  RETURN_IF_ERROR(recorder.create_once(program, cache, weights));
  const std::vector<Key>& keys = recorder.keys();
  RETURN_IF_ERROR(cache.save());
  xpwc::Result<xpwc::Session> session = cache.begin(&weights);
  if (!session) {
    return session.status();
  }
  RETURN_IF_ERROR(session->finalize());
  const xnn_weights_cache_t provider = session->provider();
  // Volatile, so that the pointers are loaded for each call, as XNNPACK does.
  bool (*volatile const empty_finalized)(void*) = empty_is_finalized;
  bool (*volatile const finalized)(void*) = provider->is_finalized;
  void* (*volatile const empty_address)(void*, std::size_t) = empty_offset_to_addr;
  void* (*volatile const address)(void*, std::size_t) = provider->offset_to_addr;
  void* const context = provider->context;
  std::vector<double> a, b, c, d, e;
  for (int i = 0; i < rounds; i++) {
    a.push_back(time_call([&](int) { empty_finalized(context); }));
    b.push_back(time_call([&](int) { finalized(context); }));
    c.push_back(time_call([&](int n) { empty_address(context, static_cast<std::size_t>(n)); }));
    d.push_back(time_call([&](int n) { address(context, static_cast<std::size_t>(n)); }));
    double look_up = 0;
    Status timed;
    std::thread([&] { timed = time_look_ups(program, cache, weights, keys, &look_up); }).join();  // one that Go did not make
    RETURN_IF_ERROR(timed);
    e.push_back(look_up);
  }
  std::printf(
      "Calls through the provider, in ns (of %d runs, interleaved)\n\n"
      "  %-40s %9s %9s %24s\n"
      "  %-40s %9.2f %9.2f %24.2f\n"
      "  %-40s %9.2f %9.2f %24.2f\n"
      "  %-40s %9.0f %9.0f\n\n",
      rounds, "", "median", "best", "median of an empty one", "is_finalized", median(b), best(b), median(a), "offset_to_addr",
      median(d), best(d), median(c), ("look_up, a hit among " + std::to_string(keys.size()) + " entries").c_str(), median(e),
      best(e));
  return Status();
}

// Threads that execute, each its own executor, while a fifth does something else.
class Load {
 public:
  Load(Backend& backend, const Program& program, WeightsFile& weights)
      : backend_(backend), program_(program), weights_(weights) {}
  ~Load() {
    for (Executor* executor : executors_) {
      backend_.destroy(executor);
    }
  }

  Status open() {
    for (Executor*& executor : executors_) {
      RETURN_IF_ERROR(create(&executor));
    }
    return Status();
  }

  // Creates and destroys a runtime.
  Status create_once() {
    Executor* executor = nullptr;
    RETURN_IF_ERROR(create(&executor));
    backend_.destroy(executor);
    return Status();
  }

  // Lets everybody work for a while. Gives the executions and what the fifth did, a second.
  Status run(const std::function<Status()>& fifth, std::array<double, 2>* per_second) {
    std::atomic<bool> stop{false};
    std::atomic<int> executions{0};
    int others = 0;
    std::mutex mutex;
    Status failed;
    const auto repeat = [&](const std::function<Status()>& work) {
      int n = 0;
      for (; !stop; n++) {
        if (Status status = work(); !status.ok()) {
          const std::lock_guard<std::mutex> lock(mutex);
          failed = status;
          stop = true;
        }
      }
      return n;
    };
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> threads;
    for (Executor* executor : executors_) {
      threads.emplace_back([&, executor] {
        const std::vector<float> input(program_.inputs(program_.methods[0]), 0.5f);
        std::vector<float> output;
        executions += repeat([&] { return backend_.execute(executor, input, &output); });
      });
    }
    if (fifth) {
      threads.emplace_back([&] { others = repeat(fifth); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    const double seconds = seconds_since(start);
    *per_second = {executions / seconds, others / seconds};
    return failed;
  }

 private:
  Status create(Executor** executor) { return backend_.init(program_, program_.methods[0], weights_, executor); }

  Backend& backend_;
  const Program& program_;
  WeightsFile& weights_;
  std::array<Executor*, 4> executors_{};
};

Status spin() {
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < 1e-3) {
  }
  return Status();
}

Status bench_threads(const std::string& cache_path, const Program& program, WeightsFile& weights) {
  std::unique_ptr<Backend> with, without;
  RETURN_IF_ERROR(Backend::create({true, cache_path, false}, &with));
  RETURN_IF_ERROR(Backend::create({false, "", false}, &without));
  Load cached(*with, program, weights), plain(*without, program, weights);
  RETURN_IF_ERROR(cached.open());
  RETURN_IF_ERROR(plain.open());
  struct Row {
    const char* name;
    Load& load;
    std::function<Status()> fifth;
    std::vector<double> executions, others;
  };
  Row rows[] = {
      {"cache, no fifth", cached, nullptr, {}, {}},
      {"cache, fifth creates", cached, [&] { return cached.create_once(); }, {}, {}},
      {"cache, fifth only computes", cached, spin, {}, {}},
      {"no cache, no fifth", plain, nullptr, {}, {}},
      {"no cache, fifth creates", plain, [&] { return plain.create_once(); }, {}, {}},
      {"no cache, fifth only computes", plain, spin, {}, {}},
  };
  std::vector<Row*> order;
  for (Row& row : rows) {
    order.push_back(&row);
  }
  std::mt19937 random;
  for (int i = 0; i < rounds; i++) {
    std::shuffle(order.begin(), order.end(), random);  // what ran before should not matter
    for (Row* row : order) {
      std::array<double, 2> per_second{};
      RETURN_IF_ERROR(row->load.run(row->fifth, &per_second));
      row->executions.push_back(per_second[0]);
      row->others.push_back(per_second[1]);
    }
  }
  std::printf(
      "Four threads execute while a fifth creates and destroys runtimes: %u processors, medians of %d\n\n"
      "  %-30s %14s %9s %18s\n",
      std::thread::hardware_concurrency(), rounds, "", "executions/s", "share", "runtimes created/s");
  for (std::size_t i = 0; i < std::size(rows); i++) {
    const std::vector<double>& alone = rows[i / 3 * 3].executions;  // of the same round
    std::vector<double> share;
    for (std::size_t j = 0; j < alone.size(); j++) {
      share.push_back(rows[i].executions[j] / alone[j]);
    }
    std::printf("  %-30s %14.1f %9.2f", rows[i].name, median(rows[i].executions), median(share));
    if (i % 3 == 1) {
      std::printf(" %18.1f", median(rows[i].others));
    }
    std::printf("\n");
  }
  std::printf(
      "\nWith fewer than five processors the fifth takes its share of them, whatever it does: that is what\n"
      "computing shows. The share is of the same round without a fifth.\n");
  return Status();
}

Status bench_in(const std::string& weights_path, const std::string& cache_path, const std::string& other_path) {
  std::unique_ptr<WeightsFile> weights;
  const Program many = in_one_method(many_entries(64, 64));  // what calls cost does not depend on the sizes
  RETURN_IF_ERROR(write_weights(many, weights_path));
  RETURN_IF_ERROR(WeightsFile::open(weights_path, &weights));
  RETURN_IF_ERROR(Status::xnnpack("initialize", xnn_initialize(nullptr)));
  {
    xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open(cache_path);
    if (!cache) {
      return cache.status();
    }
    RETURN_IF_ERROR(bench_calls(many, *cache, *weights));
  }
  const Program two = two_methods();
  RETURN_IF_ERROR(write_weights(two, weights_path));
  RETURN_IF_ERROR(WeightsFile::open(weights_path, &weights));
  return bench_threads(other_path, two, *weights);
}

}  // namespace

Status bench(const std::string& directory) {
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return Status::system(directory);
  }
  const std::string paths[] = {directory + "/bench.weights", directory + "/calls.xpwc", directory + "/threads.xpwc"};
  const auto clear = [&paths] {
    for (const std::string& path : paths) {
      std::remove(path.c_str());
    }
  };
  clear();
  const Status status = bench_in(paths[0], paths[1], paths[2]);
  clear();
  rmdir(directory.c_str());  // unless something else is in it
  return status;
}
