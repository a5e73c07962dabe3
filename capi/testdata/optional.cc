// Caches and sessions that come late and go early: hosts keep them in a std::optional. It is only compiled.
#include <optional>
#include <utility>
#include <vector>

#include <xpwc.hpp>

// As members.
struct Host {
  std::optional<xpwc::Cache> cache;
  std::optional<xpwc::Session> session;

  bool start(const char* path, xpwc::DataMap* map) {
    auto opened = xpwc::Cache::open(path);
    if (!opened) {
      return false;
    }
    cache.emplace(*std::move(opened));
    auto begun = cache->begin(map);
    if (!begun) {
      return false;
    }
    session.emplace(*std::move(begun));
    return true;
  }
};

// Returned, or not.
static std::optional<xpwc::Session> maybe(xpwc::Cache& cache, bool begins) {
  std::optional<xpwc::Session> session;
  if (begins) {
    auto begun = cache.begin(nullptr);
    if (begun) {
      session = *std::move(begun);
    }
  }
  return session;
}

// As variables that are there on some ways through a function.
static int with_or_without(const char* path, bool with) {
  std::optional<xpwc::Session> session;
  std::optional<xpwc::Cache> cache;
  xnn_weights_cache_t provider = nullptr;
  if (with) {
    auto opened = xpwc::Cache::open(path);
    if (!opened) {
      return 1;
    }
    cache = *std::move(opened);
    auto begun = cache->begin(nullptr);
    if (!begun) {
      return 2;
    }
    session = *std::move(begun);
    provider = session->provider();
  }
  if (session && !session->finalize().ok()) {
    return 3;
  }
  return provider == nullptr ? 4 : 0;
}

int main(int argc, char** argv) {
  Host host;
  xpwc::TensorTable tensors;
  if (!host.start(argv[0], &tensors)) {
    return with_or_without(argv[0], argc > 1);
  }
  std::vector<std::optional<xpwc::Session>> sessions;
  sessions.push_back(maybe(*host.cache, argc > 1));
  sessions.push_back(std::move(host.session));
  return sessions[0] && sessions[0]->check().ok() ? 0 : 5;
}
