#include "starts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend.h"
#include "loader.h"
#include "process.h"
#include "programs.h"
#include "relay.h"
#include "subgraph.h"
#include "weights_file.h"

namespace {

using Clock = std::chrono::steady_clock;
using Key = xnn_weights_cache_look_up_key;

// The ways to start.
constexpr char plain[] = "plain";    // without a cache
constexpr char limit[] = "limit";    // with a provider that knows every answer in advance
constexpr char cached[] = "cached";  // with a cache file that has everything
constexpr char record[] = "record";  // packs, and writes the files of the others

struct Model {
  const char* title;
  Program program;
};

std::vector<Model> models() {
  return {
      {"4 float32 layers of 52 x 52", layers("tiny", 4, 52, false)},
      {"112 int8 layers of 768 x 768", layers("stack", 112, 768, true)},
  };
}

// Where a model's files are.
struct Files {
  std::string weights, cache, packed;
};

Files files_of(const std::string& directory, const Program& program) {
  const std::string path = directory + "/" + program.name;
  return {path + ".weights", path + ".xpwc", path + ".packed"};
}

// What is packed lies in a file in the order in which XNNPACK asks for it, each after its size (u64), both aligned.
constexpr std::size_t alignment = 64;

std::size_t align(std::size_t n) { return (n + alignment - 1) / alignment * alignment; }

// Keeps what is packed.
class Recording final : public Relay {
 public:
  Status save(const std::string& path) const {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    const bool written = file != nullptr && std::fwrite(file_.data(), 1, file_.size(), file) == file_.size();
    if ((file != nullptr && std::fclose(file) != 0) || !written) {
      return Status::system(path);
    }
    return Status();
  }

 private:
  void on_packed(const void* packed, std::size_t size) override {
    const std::uint64_t length = size;
    append(&length, sizeof(length));
    append(packed, size);
  }

  void append(const void* bytes, std::size_t size) {
    file_.append(static_cast<const char*>(bytes), size);
    file_.resize(align(file_.size()));
  }

  std::string file_;
};

// A provider of the file that Recording saved. It answers in order and does not read keys: nothing is faster.
class Limit {
 public:
  Limit() {
    provider_.context = this;
    provider_.look_up = [](void* self, const Key*) {
      Limit& limit = *static_cast<Limit*>(self);
      const bool known = limit.next_ < limit.addresses_.size();
      return known ? reinterpret_cast<std::size_t>(limit.addresses_[limit.next_++]) : SIZE_MAX;
    };
    provider_.reserve_space = [](void*, std::size_t) -> void* { return nullptr; };
    provider_.look_up_or_insert = [](void*, const Key*, void*, std::size_t) -> std::size_t { return SIZE_MAX; };
    provider_.is_finalized = [](void*) { return true; };
    provider_.offset_to_addr = [](void*, std::size_t offset) { return reinterpret_cast<void*>(offset); };
  }
  ~Limit() {
    if (file_ != nullptr) {
      munmap(file_, size_);
    }
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

  xnn_weights_cache_t provider() { return &provider_; }

  Status open(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat s {};
    if (descriptor < 0 || fstat(descriptor, &s) != 0) {
      return Status::system(path);
    }
    size_ = static_cast<std::size_t>(s.st_size);
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED) {
      return Status::system(path);
    }
    file_ = static_cast<char*>(mapped);
    for (std::size_t at = 0; at < size_;) {
      const std::uint64_t length = *reinterpret_cast<const std::uint64_t*>(file_ + at);
      addresses_.push_back(file_ + at + alignment);
      at += alignment + align(length);
    }
    return Status();
  }

 private:
  xnn_weights_cache_provider provider_{};
  char* file_ = nullptr;
  std::size_t size_ = 0, next_ = 0;
  std::vector<char*> addresses_;
};

// The parts of a start, in the order of their names.
enum Part { opening, session_begin, defining, creating, finalizing, parts };
constexpr std::array<const char*, parts> part_names = {"open", "session", "define", "create", "finalize"};
using Milliseconds = std::array<double, parts>;

class Stopwatch {
 public:
  // Gives the milliseconds since the last lap.
  double lap() {
    const Clock::time_point now = Clock::now();
    const double passed = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return passed;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

Status start_plain(const Program& program, WeightsFile& weights, Limit* packed, Milliseconds* took) {
  PlainLoader loader(weights);
  Subgraph subgraph;
  Runtime runtime;
  Stopwatch watch;
  RETURN_IF_ERROR(define_subgraph(program, program.methods[0], loader, &subgraph));
  (*took)[defining] = watch.lap();
  RETURN_IF_ERROR(create_runtime(subgraph, packed != nullptr ? packed->provider() : nullptr, &runtime));
  (*took)[creating] = watch.lap();
  return Status();
}

Status start_cached(const Program& program, WeightsFile& weights, const Files& files, Milliseconds* took) {
  Stopwatch watch;
  xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open(files.cache);
  if (!cache) {
    return cache.status();
  }
  (*took)[opening] = watch.lap();
  xpwc::Result<xpwc::Session> session = cache->begin(&weights);
  if (!session) {
    return session.status();
  }
  (*took)[session_begin] = watch.lap();
  SessionLoader loader(*session);
  Subgraph subgraph;
  Runtime runtime;
  RETURN_IF_ERROR(define_subgraph(program, program.methods[0], loader, &subgraph));
  (*took)[defining] = watch.lap();
  RETURN_IF_ERROR(create_runtime(subgraph, session->provider(), &runtime));
  (*took)[creating] = watch.lap();
  RETURN_IF_ERROR(session->finalize());
  (*took)[finalizing] = watch.lap();
  const xpwc::Result<xpwc::Stats> stats = cache->stats();
  if (!stats) {
    return stats.status();
  }
  runtime.reset();
  return stats->misses == 0 ? Status() : Status::error(std::to_string(stats->misses) + " look-ups missed");
}

Status start_record(const Program& program, WeightsFile& weights, const Files& files) {
  xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open(files.cache);
  if (!cache) {
    return cache.status();
  }
  Recording recording;
  RETURN_IF_ERROR(recording.create_once(program, *cache, weights));
  RETURN_IF_ERROR(cache->save());
  return recording.save(files.packed);
}

using Figures = std::vector<Milliseconds>;

double median(const Figures& figures, const std::function<double(const Milliseconds&)>& of) {
  std::vector<double> values;
  for (const Milliseconds& took : figures) {
    values.push_back(of(took));
  }
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Status run(const Model& model, const std::string& directory, const char* way, Figures* figures) {
  const auto line = [&](const std::vector<std::string>& words) {
    Milliseconds took{};
    for (std::size_t i = 0; i < took.size() && i < words.size(); i++) {
      took[i] = std::strtod(words[i].c_str(), nullptr);
    }
    figures->push_back(took);
  };
  return run_self({"start", model.program.name, directory, way}, line);
}

Status compare(const Model& model, const std::string& directory, int starts) {
  const Files files = files_of(directory, model.program);
  RETURN_IF_ERROR(write_weights(model.program, files.weights));
  Figures nothing;
  RETURN_IF_ERROR(run(model, directory, record, &nothing));
  struct Row {
    const char *title, *way;
    Figures figures;
  };
  std::array<Row, 3> rows{{{"without cache", plain, {}}, {"limit", limit, {}}, {"next start", cached, {}}}};
  std::vector<Row*> order;
  for (Row& row : rows) {
    order.push_back(&row);
  }
  std::mt19937 random;
  for (int i = 0; i < starts; i++) {
    std::shuffle(order.begin(), order.end(), random);  // what ran before should not matter
    for (Row* row : order) {
      RETURN_IF_ERROR(run(model, directory, row->way, &row->figures));
    }
  }
  std::printf("%s, ms, medians of %d processes\n\n  %-16s", model.title, starts, "");
  for (const char* name : part_names) {
    std::printf(" %9s", name);
  }
  std::printf(" %9s\n", "all");
  for (const Row& row : rows) {
    std::printf("  %-16s", row.title);
    for (int part = 0; part < parts; part++) {
      std::printf(" %9.3f", median(row.figures, [part](const Milliseconds& took) { return took[part]; }));
    }
    std::printf(" %9.3f\n", median(row.figures, [](const Milliseconds& took) {
      return std::accumulate(took.begin(), took.end(), 0.0);
    }));
  }
  std::printf("\n");
  return Status();
}

}  // namespace

Status start(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3) {
    return Status::error("start: wants a model, a directory and a way");
  }
  const std::string& way = arguments[2];
  for (const Model& model : models()) {
    if (model.program.name != arguments[0]) {
      continue;
    }
    const Files files = files_of(arguments[1], model.program);
    std::unique_ptr<WeightsFile> weights;
    RETURN_IF_ERROR(WeightsFile::open(files.weights, &weights));
    RETURN_IF_ERROR(Status::xnnpack("initialize", xnn_initialize(nullptr)));
    const xpwc::Result<xpwc::Digest> digest = xpwc::digest({});  // waits for Go's runtime, which starts in any case
    RETURN_IF_ERROR(digest ? Status() : Status(digest.status()));
    Milliseconds took{};
    if (way == record) {
      return start_record(model.program, *weights, files);
    }
    if (way == cached) {
      RETURN_IF_ERROR(start_cached(model.program, *weights, files, &took));
    } else if (way == limit) {
      Limit packed;
      RETURN_IF_ERROR(packed.open(files.packed));
      RETURN_IF_ERROR(start_plain(model.program, *weights, &packed, &took));
    } else {
      RETURN_IF_ERROR(start_plain(model.program, *weights, nullptr, &took));
    }
    for (const double ms : took) {
      std::printf("%f ", ms);
    }
    std::printf("\n");
    return Status();
  }
  return Status::error("start " + arguments[0] + ": there is no such model");
}

Status starts(const std::string& directory, int count) {
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return Status::system(directory);
  }
  std::printf("What a start costs, once XNNPACK is initialized and Go's runtime has started\n\n");
  Status status;
  for (const Model& model : models()) {
    if (status.ok()) {
      status = compare(model, directory, count);
    }
    const Files files = files_of(directory, model.program);
    for (const std::string& path : {files.weights, files.cache, files.packed}) {
      std::remove(path.c_str());
    }
  }
  rmdir(directory.c_str());  // unless something else is in it
  return status;
}
