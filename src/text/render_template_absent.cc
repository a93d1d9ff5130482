// Stands in for render_template.cc in a build without Rust (TRANSMUTER_TEXT=OFF).
#include "text/render_template.h"
#include "transmuter/error.h"

namespace transmuter {

struct CompiledTemplate::Impl {};

CompiledTemplate::CompiledTemplate(std::string_view) {
  throw Error(ErrorCode::unsupported, "this build has no chat templates (TRANSMUTER_TEXT=OFF)");
}
CompiledTemplate::~CompiledTemplate() = default;
std::string CompiledTemplate::render(std::string_view, int64_t) const { return {}; }

}  // namespace transmuter
