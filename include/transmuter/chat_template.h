// Chat templates: a conversation as the text that a model was trained on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace transmuter {

struct ChatOptions {
  bool add_generation_prompt = false;   // end with the start of an answer
  bool continue_final_message = false;  // the last message stays open, to be gone on with; not with the one above
  bool keep_nulls = false;              // null values of a message reach the template; they are dropped otherwise
  std::string tools = {};               // a JSON list of functions as `transformers` takes them; "" = none
  std::string documents = {};           // a JSON list; "" = none
  std::string variables = {};       // a JSON object of further variables (enable_thinking, …); they win; "" = none
  std::optional<int64_t> now = {};  // what templates learn of the time, in seconds since 1970; else the clock's
};

// A template as `transformers` renders it: Jinja with its settings and additions, special tokens as variables.
// Templates come with models and need not be trusted: the work, the depth and the memory of one rendering are bounded,
// and nothing can be reached from it. Cheap to copy, safe to use from several threads.
class ChatTemplate {
 public:
  // The template of a model's folder: chat_template.jinja, else "chat_template" of tokenizer_config.json (a list has
  // one for tools), with those of additional_chat_templates/. Special tokens come from tokenizer_config.json and
  // special_tokens_map.json. Throws Error: not_found when the folder has no template, invalid_model for a template or a
  // file that cannot be read.
  static ChatTemplate load(const std::string& folder);
  // One template by itself; special tokens by name ("bos_token" → "<s>").
  static ChatTemplate parse(std::string_view source, std::map<std::string, std::string> special_tokens = {});

  // `messages` is a JSON list of objects: role, content (text or a list of parts), tool_calls, … . The text holds its
  // special tokens, so it is to be encoded without adding any. Throws Error(invalid_input): with exactly the template's
  // own words where it refuses the conversation, else what is wrong and in which line of the template.
  std::string render(std::string_view messages, const ChatOptions& options = {}) const;
  // The same for one message of the user, in front of it one of the system unless that is "".
  std::string render_prompt(const std::string& user, const std::string& system = "",
                            const ChatOptions& options = {.add_generation_prompt = true}) const;

  struct Impl;

 private:
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace transmuter
