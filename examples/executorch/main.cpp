// A host of the stock ExecuTorch, built from its wheel alone: see README.md.
#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/extension/threadpool/threadpool_guard.h>

#include "npy.h"
#include "packed.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::BackendOptions;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::LoadBackendOptionsMap;
using executorch::runtime::TensorInfo;

[[noreturn]] void fail(const std::string& why) {
  std::fflush(stdout);
  std::fprintf(stderr, "host: %s\n", why.c_str());
  std::exit(1);
}

void check(Error error, const std::string& what) {
  if (error != Error::Ok) {
    fail(what + ": " + executorch::runtime::to_string(error));
  }
}

template <typename T>
T check(executorch::runtime::Result<T> result, const std::string& what) {
  check(result.error(), what);
  return std::move(*result);
}

struct Command {
  std::string program;
  std::vector<std::string> data;    // .ptd files
  std::vector<std::string> inputs;  // of all methods, one method after the other; none for made-up ones
  std::string cache;                // ExecuTorch's file of packed weights; empty for none
  std::string outputs;              // a directory; empty for none
  bool one_thread = false;          // in place of one for each processor
  bool stay = false;                // until standard input ends, so that the process can be looked at
};

Command parse(int argc, char** argv) {
  Command c;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag.rfind("--", 0) != 0) {
      files.push_back(flag);
    } else if (flag == "--one-thread") {
      c.one_thread = true;
    } else if (flag == "--stay") {
      c.stay = true;
    } else if (i + 1 < argc && flag == "--cache") {
      c.cache = argv[++i];
    } else if (i + 1 < argc && flag == "--input") {
      c.inputs.push_back(argv[++i]);
    } else if (i + 1 < argc && flag == "--output-dir") {
      c.outputs = argv[++i];
    } else {
      files.clear();
      break;
    }
  }
  if (files.empty()) {
    std::fprintf(
        stderr,
        "usage: host PROGRAM.pte [DATA.ptd...] [--cache FILE] [--input FILE...] [--output-dir DIR]\n"
        "            [--one-thread] [--stay]\n"
        "runs each method, and prints what it took as JSON\n");
    std::exit(2);
  }
  c.program = files.front();
  c.data.assign(files.begin() + 1, files.end());
  return c;
}

// The one way to have ExecuTorch's XNNPACK backend use a file: options that a module is loaded with.
void load(Module& module, const std::string& cache) {
  if (cache.empty()) {
    check(module.load(), "load the program");
    return;
  }
  // A longer path would be cut off, and a file of another name used.
  if (cache.size() >= executorch::runtime::kMaxOptionValueLength) {
    fail(cache + ": ExecuTorch takes a path of at most 255 bytes");
  }
  BackendOptions<2> options;
  check(options.set_option("weight_cache_enabled", true), "weight_cache_enabled");
  check(options.set_option("packed_cache_path", cache.c_str()), "packed_cache_path");
  LoadBackendOptionsMap backends;
  check(backends.set_options("XnnpackBackend", options.view()), "XnnpackBackend");
  check(module.load(backends), "load the program");
}

const char* numpy_type(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "<f4";
    case ScalarType::Half:
      return "<f2";
    case ScalarType::Double:
      return "<f8";
    case ScalarType::Long:
      return "<i8";
    case ScalarType::Int:
      return "<i4";
    case ScalarType::Short:
      return "<i2";
    case ScalarType::Char:
      return "|i1";
    case ScalarType::Byte:
      return "|u1";
    case ScalarType::Bool:
      return "|b1";
    default:
      fail("a tensor has a datatype that NumPy does not");
  }
}

// An array as a tensor. Where dimensions are in another order in memory, so they are in the array's file.
TensorPtr tensor(const TensorInfo& info, Array array, const std::string& what) {
  const auto order = info.dim_order();
  if (array.type != numpy_type(info.scalar_type()) || array.shape.size() != info.sizes().size()) {
    fail(what + " has another datatype or number of dimensions than the program's");
  }
  std::size_t size = executorch::runtime::elementSize(info.scalar_type());
  for (const std::int32_t n : array.shape) {
    size *= static_cast<std::size_t>(n);
  }
  if (size != array.data.size()) {
    fail(what + " does not have the size of its shape");
  }
  return executorch::extension::make_tensor_ptr(
      std::move(array.shape), std::move(array.data), {order.begin(), order.end()}, {}, info.scalar_type());
}

// The numbers that xpwc makes up, for a measurement without inputs: of a hash of the index.
Array made_up(const TensorInfo& info) {
  Array array{numpy_type(info.scalar_type()), {info.sizes().begin(), info.sizes().end()}, {}};
  array.data.resize(info.nbytes());
  const std::size_t size = executorch::runtime::elementSize(info.scalar_type());
  for (std::size_t i = 0; i < array.data.size() / size; ++i) {
    const std::uint32_t hash = static_cast<std::uint32_t>(i) * 2654435761u;
    if (info.scalar_type() == ScalarType::Float) {
      const float value = static_cast<float>(hash) / 4294967296.0f;
      std::memcpy(&array.data[i * size], &value, size);
    } else if (info.scalar_type() == ScalarType::Bool) {
      array.data[i] = hash >> 31;
    } else if (executorch::runtime::isIntegralType(info.scalar_type(), false)) {
      array.data[i * size] = hash >> (size >= 4 ? 31 : 24);  // a long integer may be an id
    }
  }
  return array;
}

// What a process has in memory of its own, which only swapping could free. Linux reports it.
std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) {
      return std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
    }
  }
  return 0;
}

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Method {
  std::string name;
  std::vector<EValue> inputs;
  std::vector<TensorPtr> tensors;  // of the inputs, and of outputs that the program plans no memory for
  std::size_t outputs = 0;
  double first = 0, steady = 0;  // milliseconds
};

std::vector<Method> methods_of(Module& module, const std::vector<std::string>& inputs) {
  std::vector<Method> methods;
  std::size_t next = 0;
  for (std::size_t m = 0; m < module.program()->num_methods(); ++m) {
    Method method;
    method.name = check(module.program()->get_method_name(m), "the name of a method");
    const auto meta = check(module.method_meta(method.name), method.name);
    for (std::size_t i = 0; i < meta.num_inputs(); ++i) {
      const std::string what = method.name + ", input " + std::to_string(i);
      const TensorInfo info = check(meta.input_tensor_meta(i), what);
      if (inputs.empty()) {
        method.tensors.push_back(tensor(info, made_up(info), what));
      } else if (next < inputs.size()) {
        std::optional<Array> array = read_npy(inputs[next]);
        if (!array) {
          fail(inputs[next] + " is no .npy file that can be read");
        }
        method.tensors.push_back(tensor(info, std::move(*array), inputs[next++]));
      } else {
        fail(what + " has no file: give --input for each input of each method");
      }
      method.inputs.emplace_back(method.tensors.back());
    }
    for (std::size_t i = 0; i < meta.num_outputs(); ++i) {
      const std::string what = method.name + ", output " + std::to_string(i);
      const TensorInfo info = check(meta.output_tensor_meta(i), what);
      if (!info.is_memory_planned()) {
        method.tensors.push_back(tensor(info, made_up(info), what));
        check(module.set_output(method.name, method.tensors.back(), i), what);
      }
    }
    methods.push_back(std::move(method));
  }
  if (next < inputs.size()) {
    fail(inputs[next] + " is for no input of the program");
  }
  return methods;
}

void write_outputs(const std::vector<EValue>& values, const std::string& prefix) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].isTensor()) {
      fail(prefix + ": an output is no tensor");
    }
    const Tensor& t = values[i].toTensor();
    const std::string path = prefix + ".out" + std::to_string(i) + ".npy";
    if (!write_npy(
            path, numpy_type(t.scalar_type()), {t.sizes().begin(), t.sizes().end()}, t.const_data_ptr(), t.nbytes())) {
      fail(path + " cannot be written");
    }
  }
}

void first_inference(Module& module, Method& method, const std::string& directory) {
  const Stopwatch first;
  const auto outputs = check(module.execute(method.name, method.inputs), method.name);
  method.first = first.milliseconds();
  method.outputs = outputs.size();
  if (!directory.empty()) {
    write_outputs(outputs, directory + "/" + method.name);
  }
}

// The median of at least 5 further ones, and of up to 50 while they take less than a second together.
void steady_inferences(Module& module, Method& method) {
  std::vector<double> times;
  for (const Stopwatch all; times.size() < 5 || (times.size() < 50 && all.milliseconds() < 1000);) {
    const Stopwatch one;
    check(module.execute(method.name, method.inputs).error(), method.name);
    times.push_back(one.milliseconds());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  method.steady = times[times.size() / 2];
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", c);
    out += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? std::string(escape) : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

int main(int argc, char** argv) {
  const Command command = parse(argc, argv);
  // Of this thread: ExecuTorch asks it for its threads when a method is loaded, and when it is run.
  executorch::extension::threadpool::NoThreadPoolGuard::set_enabled(command.one_thread);

  const Stopwatch loading;
  // The program stays in its file: what XNNPACK packs from is read there, and takes no memory of this process.
  Module module(command.program, command.data, Module::LoadMode::Mmap);
  load(module, command.cache);
  for (std::size_t m = 0; m < module.program()->num_methods(); ++m) {
    const char* name = check(module.program()->get_method_name(m), "the name of a method");
    check(module.load_method(name), name);
  }
  const double loaded = loading.milliseconds();

  std::vector<Method> methods = methods_of(module, command.inputs);
  for (Method& method : methods) {
    first_inference(module, method, command.outputs);
  }
  const std::uint64_t anonymous = anonymous_bytes();
  for (Method& method : methods) {
    steady_inferences(module, method);
  }

  const Packed total = packed();
  std::printf(
      "{\"load_ms\": %.3f, \"rss_anon_bytes\": %" PRIu64 ", \"packed_entries\": %zu, \"packed_bytes\": %zu, \"methods\": [",
      loaded, anonymous, total.entries, total.bytes);
  for (const Method& method : methods) {
    std::printf(
        "%s{\"name\": %s, \"outputs\": %zu, \"first_inference_ms\": %.3f, \"steady_inference_ms\": %.6f}",
        &method == &methods.front() ? "" : ", ", quoted(method.name).c_str(), method.outputs, method.first,
        method.steady);
  }
  std::printf("]}\n");
  std::fflush(stdout);
  while (command.stay && std::getchar() != EOF) {
  }
  return 0;
}
