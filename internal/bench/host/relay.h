// A provider that leaves everything to another one, and sees what XNNPACK asks of it and packs.
#pragma once

#include <cstddef>

#include <xnnpack.h>

#include "program.h"
#include "status.h"
#include "weights_file.h"

class Relay {
 public:
  Relay();
  virtual ~Relay() = default;
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Creates the runtime of the program's only method in a session of the cache, through this relay, and deletes it.
  Status create_once(const Program& program, xpwc::Cache& cache, WeightsFile& weights);

 protected:
  virtual void on_look_up(const xnn_weights_cache_look_up_key&) {}
  virtual void on_packed(const void*, std::size_t) {}

 private:
  xnn_weights_cache_provider provider_{};
  xnn_weights_cache_t next_ = nullptr;
};
