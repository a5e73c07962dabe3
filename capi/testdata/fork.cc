// fork DIRECTORY
//
// In a child of fork every call says that it is one, and the child ends as any process does: destructors of its caches
// and sessions do nothing.
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <xpwc.hpp>

#include "host.h"

class Map final : public xpwc::DataMap {
 public:
  explicit Map(const model& m) : model_(m) {}
  xpwc::Status tensor(std::string_view name, xpwc::Tensor& to) override {
    for (const ::tensor& t : model_.tensors) {
      if (name == t.name) {
        to.data = t.content;
        to.size = t.size;
        return xpwc::Status();
      }
    }
    return xpwc::Status(XPWC_STATUS_UNKNOWN_TENSOR);
  }

 private:
  const model& model_;
};

static void require_forked(const xpwc::Status& status) {
  REQUIRE(status.code() == XPWC_STATUS_FORKED);
  REQUIRE(status.message().find("fork") != std::string::npos);
}

static void call_everything(xpwc::Cache& cache, xpwc::Session& session, const void* data[TENSORS]) {
  require_forked(xpwc::Cache::open("").status());
  require_forked(xpwc::Cache::open_fd(0).status());
  require_forked(cache.begin(nullptr).status());
  require_forked(cache.names().status());
  require_forked(cache.stats().status());
  require_forked(cache.save());
  require_forked(cache.compact());
  require_forked(cache.trim());
  require_forked(cache.close());
  require_forked(session.load("w0").status());
  require_forked(session.alias({data, 1}, data[0], "word"));
  require_forked(session.names().status());
  require_forked(session.explain().status());
  require_forked(session.check());
  require_forked(session.finalize());
  require_forked(xpwc::digest({}).status());
  require_forked(xpwc::file_stamp(0).status());
  require_forked(xpwc::FileWatch::on(0).status());
  int changed = 5;
  const xpwc_file_state before{};
  REQUIRE(xpwc_file_changed(0, &before, &changed) == XPWC_STATUS_FORKED && changed == 0);

  // XNNPACK asks the provider, which has nothing and no room.
  xnn_subgraph_t subgraph = nullptr;
  XNN(xnn_create_subgraph(2, 0, &subgraph));
  const size_t row[] = {1, WIDTH}, matrix[] = {WIDTH, WIDTH};
  uint32_t in, out, w;
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, nullptr, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &in));
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, nullptr, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &out));
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, matrix, data[0], XNN_INVALID_VALUE_ID, 0, &w));
  XNN(xnn_define_fully_connected(subgraph, -1e30f, 1e30f, in, w, XNN_INVALID_VALUE_ID, out, 0));
  xnn_workspace_t workspace = nullptr;
  XNN(xnn_create_workspace(&workspace));
  xnn_runtime_t runtime = nullptr;
  REQUIRE(xnn_create_runtime_v4(subgraph, session.provider(), workspace, nullptr, 0, &runtime) != xnn_status_success);
  XNN(xnn_release_workspace(workspace));
  XNN(xnn_delete_subgraph(subgraph));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  model m;
  model_make(&m, 1);
  Map map(m);
  xpwc::Cache cache = *xpwc::Cache::open(std::string(argv[1]) + "/cache");
  xpwc::Session session = *cache.begin(&map);
  const void* data[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    data[i] = session.load(m.tensors[i].name)->data;
  }
  for (const bool calls : {true, false}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (calls) {
        call_everything(cache, session, data);
      }
      return 0; // with a cache and a session
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  xnn_runtime_t runtime = runtime_create(data, session.provider());
  REQUIRE(session.finalize().ok());
  float want[WIDTH], got[WIDTH];
  model_infer_plain(&m, want);
  runtime_infer(runtime, got);
  require_same_output(want, got);
  XNN(xnn_delete_runtime(runtime));
  REQUIRE(session.end().ok());
  REQUIRE(cache.close().ok());
  model_free(&m);
  return 0;
}
