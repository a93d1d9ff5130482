#include "text/render_template.h"

#include "base/strings.h"
#include "text/rust_text.h"
#include "transmuter/error.h"

namespace transmuter {

struct CompiledTemplate::Impl {
  ~Impl() { tmtext_chat_free(handle); }
  tmtext_chat* handle = nullptr;
};

CompiledTemplate::CompiledTemplate(std::string_view source) : impl_(std::make_unique<Impl>()) {
  tmtext_string error = {};
  if (!tmtext_chat_new(view(source), &impl_->handle, &error))
    throw Error(ErrorCode::invalid_model, str("the chat template cannot be read: ", take(error)));
}

CompiledTemplate::~CompiledTemplate() = default;

std::string CompiledTemplate::render(std::string_view variables, int64_t now) const {
  tmtext_string text = {}, error = {};
  const int outcome = tmtext_chat_render(impl_->handle, view(variables), now, &text, &error);
  if (outcome > 0) return take(text);
  const std::string message = take(error);
  throw Error(ErrorCode::invalid_input, outcome < 0 ? message : str("the chat template failed: ", message));
}

}  // namespace transmuter
