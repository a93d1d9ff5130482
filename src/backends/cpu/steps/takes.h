// Which composites have a kernel here; the others are inlined before a program comes to this backend, but those with an
// evaluation of their own, which the plain step runs.
#pragma once

#include "ir/program.h"

namespace transmuter::cpu {

bool attention_takes(const ir::Program& program, const ir::Op& op);
bool normalize_takes(const ir::Program& program, const ir::Op& op);
bool quantized_dot_takes(const ir::Program& program, const ir::Op& op);
bool rotary_takes(const ir::Program& program, const ir::Op& op);
bool table_dot_takes(const ir::Program& program, const ir::Op& op);
bool topk_takes(const ir::Program& program, const ir::Op& op);
bool write_rows_takes(const ir::Program& program, const ir::Op& op);

}  // namespace transmuter::cpu
