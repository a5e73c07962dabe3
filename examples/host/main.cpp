// A host of XNNPACK with xpwc: see README.md.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backend.h"
#include "program.h"
#include "weights_file.h"

namespace {

// Runs both methods of a program, which have their weights in common, on weights and a cache in a directory.
Status run(const std::string& directory) {
  const Program program = two_methods();
  const std::string path = directory + "/weights";
  RETURN_IF_ERROR(write_weights(program, path));
  std::unique_ptr<WeightsFile> weights;
  RETURN_IF_ERROR(WeightsFile::open(path, &weights));
  BackendOptions options;
  options.cache_path = directory + "/cache.xpwc";
  std::unique_ptr<Backend> backend;
  RETURN_IF_ERROR(Backend::create(options, &backend));
  for (const Method& method : program.methods) {
    Executor* executor = nullptr;
    RETURN_IF_ERROR(backend->init(program, method, *weights, &executor));
    std::vector<float> output;
    const Status executed = backend->execute(executor, std::vector<float>(program.inputs(method), 0.5f), &output);
    backend->destroy(executor);
    RETURN_IF_ERROR(executed);
    std::printf("%s: %g\n", method.name.c_str(), output[0]);
  }
  const xpwc::Result<xpwc::Stats> stats = backend->cache()->stats();
  if (!stats) {
    return stats.status();
  }
  std::printf("packed %" PRIu64 ", found %" PRIu64 "\n", stats->packed.entries, stats->hits.entries);
  return backend->save();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: host DIR    packs what is not in DIR/cache.xpwc yet\n");
    return 2;
  }
  if (const Status status = run(argv[1]); !status.ok()) {
    std::fflush(stdout);
    std::fprintf(stderr, "host: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
