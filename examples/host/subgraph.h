// A method as an XNNPACK subgraph.
#pragma once

#include <cstdint>
#include <memory>

#include <xnnpack.h>

#include "loader.h"
#include "program.h"
#include "status.h"

// External values of every method's subgraph: float32, 1 row.
constexpr std::uint32_t input_value = 0;
constexpr std::uint32_t output_value = 1;

struct DeleteSubgraph {
  void operator()(xnn_subgraph_t subgraph) const { xnn_delete_subgraph(subgraph); }
};
using Subgraph = std::unique_ptr<xnn_subgraph, DeleteSubgraph>;

// Defines the method, with the weights that the loader gives. They must stay until the runtime is created.
Status define_subgraph(const Program& program, const Method& method, Loader& loader, Subgraph* subgraph);
