// executorch FILE LAYERS WIDTH HIDDEN CACHE MODEL PROGRAM
//
// A backend shaped like ExecuTorch's on the class on the reader: methods, each of some layers of a chain of float32
// (model.h), that come and go in several threads, and a file that is replaced while they run.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>

#include <xpwc_reader_executorch.hpp>

#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

using executorch::backends::xnnpack::delegate::XNNWeightsCache;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

#define REQUIRE(condition)                                                          \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #condition);     \
      _Exit(1);                                                                     \
    }                                                                               \
  } while (0)
#define OK(call) REQUIRE((call) == Error::Ok)
#define DONE(call) REQUIRE((call) == xnn_status_success)

static size_t layers, width, hidden;
static std::string matrices; // of all layers
static std::string program;  // that the file is sealed for
static size_t inputs_of(size_t layer) { return layer % 2 == 0 ? width : hidden; }
static size_t outputs_of(size_t layer) { return layer % 2 == 0 ? hidden : width; }

static std::atomic<int> unpacked; // constants that are in memory

// A name in the form of ExecuTorch's exporter.
static std::string name_of(size_t layer) { return std::string(63, '0') + std::to_string(layer); }

// Each get_data is memory of its own, which is overwritten when it is freed, so that reading it later shows.
class Constants final : public executorch::ET_RUNTIME_NAMESPACE::NamedDataMap {
 public:
  size_t without{SIZE_MAX}; // this layer

  Result<FreeableBuffer> get_data(std::string_view key) const override {
    const size_t layer = std::stoul(std::string(key.substr(1))), size = width * hidden * sizeof(float);
    if (layer == without) {
      return Error::NotFound;
    }
    void* copy = std::aligned_alloc(64, size + 64);
    memcpy(copy, matrices.data() + layer * size, size);
    unpacked++;
    return FreeableBuffer(copy, size, [](void*, void* data, size_t n) {
      unpacked--;
      memset(data, 0x7b, n);
      free(data);
    });
  }
  Result<const executorch::ET_RUNTIME_NAMESPACE::TensorLayout> get_tensor_layout(std::string_view) const override {
    return Error::NotImplemented;
  }
  Error load_data_into(std::string_view, void*, size_t) const override { return Error::NotImplemented; }
  Result<uint32_t> get_num_keys() const override { return static_cast<uint32_t>(layers); }
  Result<const char*> get_key(uint32_t) const override { return Error::NotImplemented; }
};

// A method of the layers from first to before end.
struct Method {
  size_t first, end;
  XNNWeightsCache* cache;
  xnn_runtime_t runtime{nullptr};
  xnn_workspace_t workspace{nullptr};
  std::vector<std::string> names{};
  std::shared_ptr<std::vector<FreeableBuffer>> in_program = std::make_shared<std::vector<FreeableBuffer>>();
  bool reads_kernels{false}; // at inference, through the tensors that are packed
  bool exported{true};       // kernels have names of ExecuTorch's exporter
  std::string given = program; // to set_program; "" for no call

  // Compiles it. The constants of a method that is not named lie in the program.
  Error init(const Constants& constants, bool named = true) {
    std::unique_lock<std::mutex> lock;
    if (cache != nullptr) {
      lock = std::unique_lock<std::mutex>(cache->mutex());
      OK(cache->initialize_for_runtime(nullptr, &constants));
      if (!given.empty()) {
        OK(cache->set_program(given.data(), given.size()));
      }
    }
    xnn_subgraph_t created;
    DONE(xnn_create_subgraph(2, 0, &created));
    std::unique_ptr<xnn_subgraph, decltype(&xnn_delete_subgraph)> subgraph(created, xnn_delete_subgraph);
    uint32_t id = 0;
    for (size_t i = first; i <= end; i++) {
      const size_t shape[] = {1, i == first ? inputs_of(i) : outputs_of(i - 1)};
      const uint32_t external = i == first ? 0 : i == end ? 1 : XNN_INVALID_VALUE_ID;
      const uint32_t flags = i == first ? XNN_VALUE_FLAG_EXTERNAL_INPUT : i == end ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0;
      uint32_t next, kernel;
      DONE(xnn_define_tensor_value(created, xnn_datatype_fp32, 2, shape, nullptr, external, flags, &next));
      if (i > first) {
        const std::string name = exported ? name_of(i - 1) : "w" + std::to_string(i - 1);
        const size_t dims[] = {outputs_of(i - 1), inputs_of(i - 1)};
        const void* data;
        if (cache != nullptr && named) {
          Result<const uint8_t*> loaded = cache->load_unpacked_data(name);
          if (!loaded.ok()) {
            return loaded.error();
          }
          data = loaded.get();
        } else {
          data = in_program->emplace_back(std::move(constants.get_data(name).get())).data();
        }
        DONE(xnn_define_tensor_value(created, xnn_datatype_fp32, 2, dims, data, XNN_INVALID_VALUE_ID, 0, &kernel));
        if (reads_kernels) {
          const size_t row[] = {1, inputs_of(i - 1)}, from[] = {0, 0};
          uint32_t first_row, sum;
          DONE(xnn_define_tensor_value(created, xnn_datatype_fp32, 2, row, nullptr, XNN_INVALID_VALUE_ID, 0, &first_row));
          DONE(xnn_define_tensor_value(created, xnn_datatype_fp32, 2, row, nullptr, XNN_INVALID_VALUE_ID, 0, &sum));
          DONE(xnn_define_static_slice(created, 2, from, row, kernel, first_row, 0));
          DONE(xnn_define_binary(created, xnn_binary_add, nullptr, id, first_row, sum, 0));
          id = sum;
        }
        DONE(xnn_define_fully_connected(created, -INFINITY, INFINITY, id, kernel, XNN_INVALID_VALUE_ID, next, 0));
      }
      id = next;
    }
    DONE(xnn_create_workspace(&workspace));
    DONE(xnn_create_runtime_v4(created, cache == nullptr ? nullptr : cache->get(), workspace, nullptr, 0, &runtime));
    if (cache != nullptr) {
      names = cache->finalize_for_runtime().get();
    }
    return Error::Ok;
  }

  std::string run() const { // without the mutex, as XNNPACK allows
    std::vector<float> in(inputs_of(first) + XNN_EXTRA_BYTES), out(outputs_of(end - 1) + XNN_EXTRA_BYTES);
    for (size_t i = 0; i < inputs_of(first); i++) {
      in[i] = static_cast<float>(i % 13) - 6;
    }
    const xnn_external_value values[] = {{0, in.data()}, {1, out.data()}};
    DONE(xnn_reshape_runtime(runtime));
    DONE(xnn_setup_runtime_v2(runtime, 2, values));
    DONE(xnn_invoke_runtime(runtime));
    return std::string(reinterpret_cast<char*>(out.data()), outputs_of(end - 1) * sizeof(float));
  }

  ~Method() {
    if (runtime != nullptr) {
      std::unique_lock<std::mutex> lock;
      if (cache != nullptr) {
        lock = std::unique_lock<std::mutex>(cache->mutex());
        OK(cache->delete_packed_data(names));
      }
      DONE(xnn_delete_runtime(runtime));
      DONE(xnn_release_workspace(workspace));
    }
  }
};

static std::unique_ptr<Method> method(
    XNNWeightsCache* cache, size_t first, size_t end, bool named = true, const std::string& given = program) {
  auto made = std::make_unique<Method>(Method{first, end, cache});
  made->given = given;
  OK(made->init(Constants(), named));
  return made;
}

static std::string expected(size_t first, size_t end) { return method(nullptr, first, end)->run(); }

// What was packed for a method whose constants have no names is its own until it goes.
static void constants_without_names(XNNWeightsCache& cache) {
  auto unnamed = method(&cache, 0, layers, false);
  auto named = method(&cache, 0, layers);
  REQUIRE(unnamed->run() == expected(0, layers) && named->run() == expected(0, layers));
  REQUIRE(cache.found() == layers && cache.packed() == layers);
}

// Kernels that other nodes read at inference stay until the method goes: the file is not sealed for such a delegate.
static void kernels_that_inference_reads(XNNWeightsCache& cache) {
  for (const std::string& given : {std::string(), std::string("linear(x, w) + w")}) {
    for (const bool exported : {true, false}) {
      Method plain{0, layers, nullptr}, method{0, layers, &cache};
      plain.reads_kernels = method.reads_kernels = true;
      method.given = given;
      method.exported = exported;
      const Constants constants;
      OK(plain.init(constants, false));
      OK(method.init(constants));
      REQUIRE(method.run() == plain.run());
    }
  }
  REQUIRE(cache.found() == 0);
}

// Kernels that the file has for the program are freed once the method is compiled.
static void found_kernels_are_freed(XNNWeightsCache& cache) {
  auto compiled = method(&cache, 0, layers);
  REQUIRE(unpacked == 0 && compiled->run() == expected(0, layers) && cache.found() == layers);
}

// A compilation that fails leaves the file usable for other runtimes and the next compilation.
static void failed_compilation(XNNWeightsCache& cache) {
  Constants incomplete;
  incomplete.without = 1;
  auto running = method(&cache, 0, layers);
  REQUIRE((Method{0, layers, &cache}).init(incomplete) == Error::InvalidExternalData);
  auto next = method(&cache, 0, layers);
  running.reset();
  REQUIRE((Method{0, layers, &cache}).init(incomplete) == Error::InvalidExternalData);
  REQUIRE(next->run() == expected(0, layers) && cache.found() == 2 * layers && cache.packed() == 0);
}

// Methods that have the file keep what they have of it; the file that takes its place is opened once they are gone.
static void replaced_file(XNNWeightsCache& cache, const std::string& path) {
  auto running = method(&cache, 0, layers);
  std::ofstream(path + ".new") << "no cache";
  REQUIRE(std::rename((path + ".new").c_str(), path.c_str()) == 0);
  auto next = method(&cache, 0, layers);
  REQUIRE(running->run() == expected(0, layers) && next->run() == expected(0, layers));
  REQUIRE(cache.found() == 2 * layers && cache.packed() == 0);
  running.reset();
  next.reset();
  REQUIRE(method(&cache, 0, layers)->run() == expected(0, layers) && cache.packed() == layers);
}

// An old file has the bytes of these kernels in another shape, under the same key of XNNPACK, and other payloads.
static void kernels_of_another_shape(XNNWeightsCache& cache) {
  std::swap(width, hidden);
  for (const std::string& given : {std::string(), std::string("exported again")}) {
    REQUIRE(method(&cache, 0, layers, true, given)->run() == expected(0, layers));
  }
  std::swap(width, hidden);
  REQUIRE(cache.found() == 0 && cache.compared() == 0 && cache.packed() == 2 * layers);
}

// A backend that does not give the program packs at each start, and uses the file's pages.
static void no_program(XNNWeightsCache& cache) {
  REQUIRE(method(&cache, 0, layers, true, "")->run() == expected(0, layers));
  REQUIRE(cache.found() == 0 && cache.compared() == layers && cache.packed() == 0);
}

// The program is given before the constants are loaded, and the last one given counts.
static void programs_in_turn(XNNWeightsCache& cache) {
  const Constants constants;
  REQUIRE(cache.set_program("early", 5) == Error::InvalidState);
  OK(cache.initialize_for_runtime(nullptr, &constants));
  REQUIRE(cache.set_program(nullptr, 1) == Error::InvalidArgument);
  REQUIRE(cache.set_program("none", 0) == Error::InvalidArgument);
  OK(cache.set_program("exported again", 14));
  OK(cache.set_program(program.data(), program.size()));
  REQUIRE(cache.load_unpacked_data(name_of(0)).ok());
  REQUIRE(cache.set_program("late", 4) == Error::InvalidState);
  OK(cache.delete_packed_data(cache.finalize_for_runtime().get()));
  REQUIRE(method(&cache, 0, layers)->run() == expected(0, layers));
  REQUIRE(cache.found() == layers);
}

static std::string logged;

// A wrong packed_cache_path shows in the log alone: the results are right, and the start is slow.
static void reasons_are_logged(const std::string& path) {
  REQUIRE(executorch::runtime::register_pal(executorch::runtime::PalImpl::create(
      [](et_timestamp_t, et_pal_log_level_t, const char*, const char*, size_t, const char* message, size_t size) {
        logged.append(message, size) += "\n";
      },
      __FILE__)));
  const auto log_of = [](const std::string& option, const std::string& given) {
    logged.clear();
    XNNWeightsCache cache;
    cache.set_packed_cache_path(option);
    REQUIRE(method(&cache, 0, layers, true, given)->run() == expected(0, layers));
    REQUIRE(cache.found() == 0 && cache.packed() == layers);
    return logged;
  };
  const std::string stale = path + "#" + std::string(32, '0');
  REQUIRE(log_of("", program).empty());
  REQUIRE(log_of(path, program).find("no digest of the model") != std::string::npos);
  REQUIRE(log_of(path + ".missing#" + std::string(32, '0'), "").find("XPWC_STATUS_SYSTEM_ERROR: ") != std::string::npos);
  REQUIRE(log_of(stale, "exported again").find("sealed for another program and another model") != std::string::npos);
  REQUIRE(log_of(stale, "").find("xpwc_reader_set_program") != std::string::npos);
}

// Threads compile and destroy methods under the mutex, and execute without it.
static void threads(XNNWeightsCache& cache) {
  std::vector<std::thread> running;
  for (size_t thread = 0; thread < 4; thread++) {
    running.emplace_back([&cache, thread] {
      std::unique_ptr<Method> methods[3];
      for (size_t i = 0; i < 24; i++) {
        const size_t first = (thread + i) % layers, end = first + 1 + i % (layers - first);
        methods[i % 3] = method(&cache, first, end, i % 4 != 3);
        for (const auto& one : methods) {
          REQUIRE(one == nullptr || one->run() == expected(one->first, one->end));
        }
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  REQUIRE(cache.found() > 0);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 8);
  layers = std::stoul(argv[2]);
  width = std::stoul(argv[3]);
  hidden = std::stoul(argv[4]);
  std::ifstream file(argv[1], std::ios::binary);
  file.seekg(1 << 16);
  matrices.assign(std::istreambuf_iterator<char>(file), {});
  REQUIRE(matrices.size() >= layers * width * hidden * sizeof(float));
  executorch::runtime::runtime_init();
  DONE(xnn_initialize(nullptr));
  const std::string path = argv[5], model = argv[6];
  program = argv[7];
  const auto with_cache = [&](auto does) {
    XNNWeightsCache cache;
    cache.set_packed_cache_path(path + "#" + model);
    does(cache);
  };
  reasons_are_logged(path);
  with_cache(kernels_of_another_shape);
  with_cache(no_program);
  with_cache(programs_in_turn);
  with_cache(constants_without_names);
  with_cache(kernels_that_inference_reads);
  with_cache(found_kernels_are_freed);
  with_cache(failed_compilation);
  with_cache(threads);
  with_cache([&](XNNWeightsCache& cache) { replaced_file(cache, path); });
  return 0;
}
