// Scan as opset 8 had it, over a batch of sequences, in the words of the later one.
#pragma once

#include "onnx/graph.h"

namespace transmuter::onnx {

// In the graph and its subgraphs each Scan before version 9 becomes a Scan over the batch whose body is a Scan over one
// sequence. With sequence_lens, that one is cut to its length (Split refuses a length out of range) and its scan
// outputs are padded with zeros. So whatever runs a Scan runs these. The nodes made keep the node's label.
void spell_out_batched_scans(Graph& graph);

}  // namespace transmuter::onnx
