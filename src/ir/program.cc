#include "ir/program.h"

#include "base/strings.h"

namespace transmuter::ir {

std::string to_string(const Type& type) { return str(name(type.dtype), " ", to_string(type.shape)); }

}  // namespace transmuter::ir
