#include "experiments.h"

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <sys/stat.h>
#include <unistd.h>

#include "backend.h"
#include "memory.h"
#include "process.h"
#include "programs.h"
#include "weights_file.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr double mebi = 1 << 20;
constexpr double mega = 1e6;
constexpr int cycles = 20;

// How weights are loaded.
constexpr char keep[] = "keep";        // without a cache; the unpacked weights are kept
constexpr char give_back[] = "plain";  // without a cache; the unpacked weights are given back once packed
constexpr char cached[] = "cached";

// The experiments' names and files.
constexpr char shared[] = "shared";
constexpr char reload[] = "reload";

Program program_of(const std::string& experiment) {
  return experiment == shared ? two_methods() : many_entries(/*width=*/512, /*hidden=*/1408);
}

std::string weights_path(const std::string& directory, const std::string& experiment) {
  return directory + "/" + experiment + ".weights";
}

std::string cache_path(const std::string& directory, const std::string& experiment) {
  return directory + "/" + experiment + ".xpwc";
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::uint64_t file_size(const std::string& path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 ? static_cast<std::uint64_t>(s.st_size) : 0;
}

// Numbers that fill a method's input.
std::vector<float> some_input(std::size_t n) {
  std::vector<float> input(n);
  for (std::size_t i = 0; i < n; i++) {
    input[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  }
  return input;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// One line: "output" and the numbers' bits.
void print_output(const std::vector<float>& output) {
  std::printf("output ");
  for (const float x : output) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    std::printf("%08" PRIx32, bits);
  }
  std::printf("\n");
}

// What a case needs, and its executors, which go first.
class Case {
 public:
  Case(const std::string& experiment, const std::string& directory, const std::string& mode)
      : program_(program_of(experiment)), cache_path_(cache_path(directory, experiment)) {
    options_.use_cache = mode == cached;
    options_.keep_unpacked = mode == keep;
    options_.cache_path = cache_path_;
    weights_path_ = weights_path(directory, experiment);
  }
  ~Case() { unload(); }

  Status open() {
    RETURN_IF_ERROR(WeightsFile::open(weights_path_, &weights_));
    return Backend::create(options_, &backend_);
  }

  Status load(const Method& method) {
    Executor* executor = nullptr;
    RETURN_IF_ERROR(backend_->init(program_, method, *weights_, &executor));
    executors_.push_back(executor);
    return Status();
  }

  Status load_all() {
    for (const Method& method : program_.methods) {
      RETURN_IF_ERROR(load(method));
    }
    return Status();
  }

  // Passes something through the first n methods that are loaded, one after the other.
  Status execute(std::size_t n, std::vector<float>* output) {
    *output = some_input(program_.inputs(program_.methods.front()));
    for (std::size_t i = 0; i < n; i++) {
      const std::vector<float> input = *output;
      RETURN_IF_ERROR(backend_->execute(executors_[i], input, output));
    }
    return Status();
  }

  void unload() {
    for (Executor* executor : executors_) {
      backend_->destroy(executor);
    }
    executors_.clear();
  }

  const Program& program() const { return program_; }
  const std::string& file() const { return cache_path_; }
  Backend& backend() { return *backend_; }

 private:
  Program program_;
  BackendOptions options_;
  std::string weights_path_, cache_path_;
  std::unique_ptr<WeightsFile> weights_;
  std::unique_ptr<Backend> backend_;
  std::vector<Executor*> executors_;
};

void print_memory(const char* when) {
  const Memory memory = read_memory();
  std::printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", when, memory.resident, memory.anonymous, memory.dirty);
}

Status measure_shared(Case& c) {
  RETURN_IF_ERROR(c.open());
  print_memory("start");
  const char* when[] = {"first", "second"};
  for (std::size_t i = 0; i < 2; i++) {
    RETURN_IF_ERROR(c.load(c.program().methods[i]));
    std::vector<float> output;
    RETURN_IF_ERROR(c.backend().save());
    RETURN_IF_ERROR(c.execute(i + 1, &output));
    print_memory(when[i]);
    print_output(output);
  }
  return Status();
}

// Loads, executes and unloads as often as it is told, and checks that the outputs stay the same.
Status measure_reload(Case& c, int times) {
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(c.open());
  double opening = milliseconds_since(begin);
  std::vector<float> first;
  for (int i = 0; i < times; i++) {
    PeakMemory peak;
    const Clock::time_point start = Clock::now();
    RETURN_IF_ERROR(c.load_all());
    const double load = opening + milliseconds_since(start);
    opening = 0;
    std::vector<float> output;
    const Clock::time_point execution = Clock::now();
    RETURN_IF_ERROR(c.execute(c.program().methods.size(), &output));
    const double execute = milliseconds_since(execution);
    RETURN_IF_ERROR(c.backend().save());
    if (i == 0) {
      first = output;
    } else if (!same_bits(output, first)) {
      return Status::error("the outputs of load " + std::to_string(i + 1) + " differ from the first's");
    }
    const Memory most = peak.peak();
    std::printf(
        "load %f %f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", load, execute, file_size(c.file()), most.resident,
        most.anonymous, most.dirty);
    std::fflush(stdout);
    c.unload();
  }
  print_output(first);
  if (xpwc::Cache* cache = c.backend().cache()) {
    const xpwc::Result<xpwc::Stats> stats = cache->stats();
    if (!stats) {
      return stats.status();
    }
    std::printf(
        "stats %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", stats->packed.entries, stats->hits.entries, stats->entries,
        stats->payload_bytes);
  }
  return Status();
}

// What one process told.
struct Told {
  std::map<std::string, std::vector<double>> numbers;  // the last line of each kind
  std::vector<std::vector<double>> loads;
  std::vector<std::string> outputs;
};

Status tell(
    const std::string& experiment, const std::string& directory, const std::string& mode, int times,
    const std::function<void(const std::vector<double>&)>& on_load, Told* told) {
  const auto line = [&](const std::vector<std::string>& words) {
    if (words.size() == 2 && words[0] == "output") {
      told->outputs.push_back(words[1]);
      return;
    }
    std::vector<double> numbers;
    for (std::size_t i = 1; i < words.size(); i++) {
      numbers.push_back(std::strtod(words[i].c_str(), nullptr));
    }
    if (words.empty()) {
      return;
    }
    if (words[0] == "load") {
      told->loads.push_back(numbers);
      on_load(numbers);
    }
    numbers.resize(6);  // a line that is short is zeroes
    told->numbers[words[0]] = numbers;
  };
  return run_self({"measure", experiment, directory, mode, std::to_string(times)}, line);
}

Status same_outputs(const Told& a, const Told& b) {
  if (a.outputs.empty() || a.outputs != b.outputs) {
    return Status::error("the outputs differ from those without a cache");
  }
  return Status();
}

void print_shared(const char* name, Told& told) {
  const double start = told.numbers["start"][0] / mebi, first = told.numbers["first"][0] / mebi;
  const double second = told.numbers["second"][0] / mebi;
  std::printf(
      "  %-34s %9.1f %11.1f %11.1f %11.1f %11.1f\n", name, start, first, second, second - first,
      told.numbers["second"][1] / mebi);
}

Status demo_shared(const std::string& directory) {
  const Program program = program_of(shared);
  RETURN_IF_ERROR(write_weights(program, weights_path(directory, shared)));
  std::printf(
      "1. Two methods that share their weights (ExecuTorch PR 9155)\n\n"
      "%zu float32 layers, %.1f MiB unpacked. RSS in MiB once a method is loaded and was executed.\n\n"
      "  %-34s %9s %11s %11s %11s %11s\n",
      program.linears.size(), static_cast<double>(file_size(weights_path(directory, shared))) / mebi, "", "start",
      "1st method", "2nd method", "2nd added", "anonymous");
  const auto nothing = [](const std::vector<double>&) {};
  const struct {
    const char *name, *mode;
  } cases[] = {
      {"no cache, unpacked kept", keep},
      {"no cache, unpacked given back", give_back},
      {"xpwc, first process", cached},
      {"xpwc, second process", cached},
  };
  std::optional<Told> plain;
  for (const auto& c : cases) {
    Told told;
    RETURN_IF_ERROR(tell(shared, directory, c.mode, 1, nothing, &told));
    print_shared(c.name, told);
    if (!plain) {
      plain = told;
    }
    RETURN_IF_ERROR(same_outputs(told, *plain));
  }
  std::printf(
      "  %-34s %9s %11.1f %11.1f %11.1f\n"
      "  %-34s %9s %11.1f %11.1f %11.1f\n\n"
      "The PR's figures are of a model of its own. The outputs of both methods are identical in all four\n"
      "cases, bit for bit.\n",
      "PR 9155, no cache", "", 62.8, 130.0, 130.0 - 62.8, "PR 9155, its cache", "", 62.8, 93.2, 93.2 - 62.8);
  return Status();
}

void print_load(const std::string& name, const std::vector<double>& load) {
  if (load.size() < 6) {
    return;
  }
  std::printf("  %-24s %9.1f %9.1f", name.c_str(), load[0], load[1]);
  if (load[2] > 0) {
    std::printf(" %10.1f", load[2] / mega);
  } else {
    std::printf(" %10s", "-");
  }
  std::printf(" %10.1f %10.1f %10.1f\n", load[3] / mega, load[5] / mega, load[4] / mega);
  std::fflush(stdout);
}

Status demo_reload(const std::string& directory) {
  const Program program = program_of(reload);
  std::printf(
      "\n2. Load, unload, load again (ExecuTorch PR 19988)\n\n"
      "%zu int8 layers in %zu methods. Times in ms, sizes in MB (1e6 bytes); peaks from load to execution.\n\n"
      "  %-24s %9s %9s %10s %10s %10s %10s\n"
      "  %-24s %9s %9s %10s %10s %10s %10s\n",
      program.linears.size(), program.methods.size(), "", "", "", "cache", "peak", "peak", "peak", "", "load", "execute",
      "file", "RSS", "dirty", "anonymous");
  std::fflush(stdout);
  RETURN_IF_ERROR(write_weights(program, weights_path(directory, reload)));
  const auto row = [](const char* name) {
    return [name](const std::vector<double>& load) { print_load(name, load); };
  };
  Told kept, plain, cold, warm;
  RETURN_IF_ERROR(tell(reload, directory, keep, 1, row("no cache, unpacked kept"), &kept));
  RETURN_IF_ERROR(tell(reload, directory, give_back, 1, row("no cache, given back"), &plain));
  int n = 0;
  const auto numbered = [&n](const std::vector<double>& load) {
    n++;
    print_load(n == 1 ? "xpwc, load 1 (packs)" : "      load " + std::to_string(n), load);
  };
  RETURN_IF_ERROR(tell(reload, directory, cached, cycles, numbered, &cold));
  RETURN_IF_ERROR(tell(reload, directory, cached, 1, row("xpwc, second process"), &warm));
  std::printf("  %-24s %9s %9s %10s %10s\n", "PR 19988, no cache", "", "", "", "~2,500");
  std::printf("  %-24s %9s %9s %10s %10s\n\n", "PR 19988, its cache", "", "", "~593", "~700");
  for (const Told* told : {&plain, &cold, &warm}) {
    RETURN_IF_ERROR(same_outputs(*told, kept));
  }
  bool stable = cold.loads.size() == cycles && warm.loads.size() == 1;
  for (const auto& load : cold.loads) {
    stable = stable && load[2] == warm.loads[0][2];
  }
  if (!stable) {
    return Status::error("the cache's file did not keep its size");
  }
  const std::vector<double>&a = cold.numbers["stats"], &b = warm.numbers["stats"];
  std::printf(
      "The file has %.0f entries, %.1f MB packed, and kept its size. The first process packed %.0f and\n"
      "found %.0f in its other loads; the second packed %.0f. The outputs are identical, bit for bit.\n\n"
      "Peak RSS is the kernel's own figure; the others are sampled every 20 ms. Dirty is what is mapped\n"
      "and cannot be dropped without writing it first, anonymous memory included; not what is unmapped\n"
      "and still to be written. The rest of RSS is clean pages of the two files, which processes share.\n",
      a[2], a[3] / mega, a[0], a[1], b[0]);
  return Status();
}

Status known(const std::string& experiment, const std::string& mode) {
  if ((experiment != shared && experiment != reload) || (mode != keep && mode != give_back && mode != cached)) {
    return Status::error("measure " + experiment + " " + mode + ": there is no such case");
  }
  return Status();
}

}  // namespace

Status measure(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    return Status::error("measure: wants an experiment, a directory, a mode and a number");
  }
  RETURN_IF_ERROR(known(arguments[0], arguments[2]));
  if (const std::string path = weights_path(arguments[1], arguments[0]); file_size(path) == 0) {
    RETURN_IF_ERROR(write_weights(program_of(arguments[0]), path));
  }
  Case c(arguments[0], arguments[1], arguments[2]);
  if (arguments[0] == shared) {
    return measure_shared(c);
  }
  return measure_reload(c, std::atoi(arguments[3].c_str()));
}

Status demo(const std::string& directory) {
  if (mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return Status::system(directory);
  }
  const auto clear = [&directory] {
    for (const char* experiment : {shared, reload}) {
      std::remove(weights_path(directory, experiment).c_str());
      std::remove(cache_path(directory, experiment).c_str());
    }
  };
  clear();
  Status status = demo_shared(directory);
  if (status.ok()) {
    status = demo_reload(directory);
  }
  clear();
  rmdir(directory.c_str());  // unless something else is in it
  return status;
}
