// Batches without their padding: the real tokens of all sequences one behind the other, and where each was.
#pragma once

#include "ir/builder.h"

namespace transmuter::ops {

// Rows [tokens, width] where token_offset [b, s] (those of the tokens first, then those of the padding) says, zeros
// between them: [b, s, width].
ir::Value restore_padding(ir::Builder& build, ir::Value rows, ir::Value token_offset);

}  // namespace transmuter::ops
