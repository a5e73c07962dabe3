#include "relay.h"

#include "backend.h"
#include "loader.h"
#include "subgraph.h"

using Key = xnn_weights_cache_look_up_key;

Relay::Relay() {
  provider_.context = this;
  provider_.look_up = [](void* self, const Key* key) {
    Relay& relay = *static_cast<Relay*>(self);
    relay.on_look_up(*key);
    return relay.next_->look_up(relay.next_->context, key);
  };
  provider_.reserve_space = [](void* self, std::size_t n) {
    const xnn_weights_cache_t next = static_cast<Relay*>(self)->next_;
    return next->reserve_space(next->context, n);
  };
  provider_.look_up_or_insert = [](void* self, const Key* key, void* packed, std::size_t size) {
    Relay& relay = *static_cast<Relay*>(self);
    relay.on_packed(packed, size);
    return relay.next_->look_up_or_insert(relay.next_->context, key, packed, size);
  };
  provider_.is_finalized = [](void* self) {
    const xnn_weights_cache_t next = static_cast<Relay*>(self)->next_;
    return next->is_finalized(next->context);
  };
  provider_.offset_to_addr = [](void* self, std::size_t offset) {
    const xnn_weights_cache_t next = static_cast<Relay*>(self)->next_;
    return next->offset_to_addr(next->context, offset);
  };
}

Status Relay::create_once(const Program& program, xpwc::Cache& cache, WeightsFile& weights) {
  xpwc::Result<xpwc::Session> session = cache.begin(&weights);
  if (!session) {
    return session.status();
  }
  next_ = session->provider();
  SessionLoader loader(*session);
  Subgraph subgraph;
  Runtime runtime;
  RETURN_IF_ERROR(define_subgraph(program, program.methods[0], loader, &subgraph));
  RETURN_IF_ERROR(create_runtime(subgraph, &provider_, &runtime));
  return session->finalize();
}
