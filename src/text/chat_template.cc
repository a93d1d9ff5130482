#include "transmuter/chat_template.h"

#include <ctime>

#include "base/strings.h"
#include "text/folder.h"
#include "text/render_template.h"
#include "transmuter/error.h"

namespace transmuter {

namespace {

namespace fs = std::filesystem;

// Marks where the last message ends. The blank shows whether the template trims it.
constexpr std::string_view kMark = "TRANSMUTER_MESSAGE_GOES_ON_HERE";

Json parse_json(std::string_view text, const char* what, bool (Json::*is)() const, const char* wanted) {
  Json json;
  if (const auto fault = json_fault(text, json))
    throw Error(ErrorCode::invalid_input, str("the text of the ", what, " ", *fault));
  if (!(json.*is)()) throw Error(ErrorCode::invalid_input, str("the ", what, " are not ", wanted));
  return json;
}

Json parse_list(std::string_view text, const char* what) {
  return parse_json(text, what, &Json::is_array, "a JSON list");
}

// Null members out; a reasoning under its older names too, since templates differ in which they read.
Json normalized(const Json& message, bool keep_nulls) {
  if (!message.is_object()) throw Error(ErrorCode::invalid_input, "a message is not a JSON object with a role");
  Json out = Json::object();
  const Json* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (!reasoning && message.contains(name) && !message[name].is_null()) reasoning = &message[name];
  if (reasoning && (!message.contains("thinking") || (message["thinking"].is_null() && !keep_nulls)))
    out["thinking"] = *reasoning;
  for (const auto& [key, value] : message.items())
    if (keep_nulls || !value.is_null()) out[key] = value;
  if (reasoning) out["reasoning_content"] = *reasoning;
  return out;
}

// Where the last message's text is.
std::string& last_text(Json& messages) {
  Json* content = messages.empty() || !messages.back().contains("content") ? nullptr : &messages.back()["content"];
  if (content && content->is_array()) {
    Json* part = nullptr;
    for (Json& candidate : *content)
      if (candidate.is_object() && candidate.contains("text")) part = &candidate["text"];
    content = part;
  }
  if (!content || !content->is_string())
    throw Error(ErrorCode::invalid_input, "continue_final_message: the last message has no text to go on with");
  return content->get_ref<std::string&>();
}

std::string stripped(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::string cut_at_mark(std::string rendered, const std::string& message) {
  const size_t mark = rendered.rfind(kMark);
  if (mark == std::string::npos || rendered.find(stripped(message)) == std::string::npos)
    throw Error(ErrorCode::invalid_input,
                "continue_final_message: the template does not show the last message as it is");
  const bool trimmed = rendered.compare(mark + kMark.size(), 1, " ") != 0;
  rendered.resize(mark);
  if (trimmed) rendered.resize(rendered.find_last_not_of(" \t\r\n") + 1);
  return rendered;
}

struct Named {
  Named(std::string name, std::string file, std::string_view source) : name(std::move(name)), file(std::move(file)) {
    try {
      compiled = std::make_shared<CompiledTemplate>(source);
    } catch (Error& error) {
      throw error.in(this->file);
    }
  }
  std::string name, file;
  std::shared_ptr<const CompiledTemplate> compiled;
};

std::vector<Named> templates_of(const fs::path& folder, const TokenizerConfig& config) {
  std::vector<Named> out;
  const fs::path beside = folder / "chat_template.jinja", extra = folder / "additional_chat_templates";
  if (const auto source = read_text_file(beside)) {
    out.emplace_back("default", beside.string(), *source);
  } else if (const auto found = config.json.find("chat_template"); found != config.json.end() && !found->is_null()) {
    const std::string file = (folder / "tokenizer_config.json").string();
    if (found->is_string()) {
      out.emplace_back("default", file, found->get<std::string>());
    } else if (found->is_array()) {
      for (const Json& entry : *found) {
        if (!entry.is_object())
          throw Error(ErrorCode::invalid_model,
                      str("an entry of \"chat_template\" in ", file, " is not a JSON object"));
        const JsonReader reader(entry, file);
        out.emplace_back(reader.text("name"), file, reader.text("template"));
      }
    } else {
      throw Error(ErrorCode::invalid_model, str("\"chat_template\" in ", file, " is neither a text nor a list"));
    }
  }
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(extra, none))
    if (entry.path().extension() == ".jinja")
      out.emplace_back(entry.path().stem().string(), entry.path().string(), *read_text_file(entry.path()));
  return out;
}

}  // namespace

struct ChatTemplate::Impl {
  std::vector<Named> templates;
  std::map<std::string, std::string> special_tokens;

  // The one for tools where there are any and it has one.
  const Named& choose(bool tools) const {
    const Named* chosen = nullptr;
    for (const Named& candidate : templates) {
      if (tools && candidate.name == "tool_use") return candidate;
      if (candidate.name == "default") chosen = &candidate;
    }
    if (chosen) return *chosen;
    if (templates.size() == 1) return templates.front();
    std::string names;
    for (const Named& candidate : templates) names += (names.empty() ? "" : ", ") + candidate.name;
    throw Error(ErrorCode::invalid_input, str("none of the model's chat templates (", names, ") is the default"));
  }
};

ChatTemplate ChatTemplate::load(const std::string& folder) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  auto impl = std::make_shared<Impl>(Impl{templates_of(folder, config), config.special_tokens});
  if (impl->templates.empty())
    throw Error(ErrorCode::not_found, str("there is no chat template in ", folder,
                                          ": neither chat_template.jinja nor \"chat_template\" in "
                                          "tokenizer_config.json; give the model plain text"));
  return ChatTemplate(std::move(impl));
}

ChatTemplate ChatTemplate::parse(std::string_view source, std::map<std::string, std::string> special_tokens) {
  std::vector<Named> templates;
  templates.emplace_back("default", "the given template", source);
  return ChatTemplate(std::make_shared<Impl>(Impl{std::move(templates), std::move(special_tokens)}));
}

std::string ChatTemplate::render(std::string_view messages, const ChatOptions& options) const {
  if (options.continue_final_message && options.add_generation_prompt)
    throw Error(ErrorCode::invalid_input,
                "add_generation_prompt and continue_final_message exclude each other: an answer is either begun or "
                "gone on with");
  Json list = Json::array();
  for (const Json& message : parse_list(messages, "messages")) list.push_back(normalized(message, options.keep_nulls));
  if (list.empty()) throw Error(ErrorCode::invalid_input, "a conversation needs at least one message");
  std::string last;
  if (options.continue_final_message) {
    std::string& text = last_text(list);
    last = text;
    text += str(kMark, " ");
  }
  Json variables = Json::object();
  for (const auto& [name, token] : impl_->special_tokens) variables[name] = token;
  variables["messages"] = std::move(list);
  variables["tools"] = options.tools.empty() ? Json(nullptr) : parse_list(options.tools, "tools");
  variables["documents"] = options.documents.empty() ? Json(nullptr) : parse_list(options.documents, "documents");
  variables["add_generation_prompt"] = options.add_generation_prompt;
  if (!options.variables.empty()) {
    const Json given = parse_json(options.variables, "variables", &Json::is_object, "a JSON object");
    for (const auto& [name, value] : given.items()) variables[name] = value;
  }
  const Named& chosen = impl_->choose(!variables["tools"].is_null());
  const int64_t now = options.now ? *options.now : static_cast<int64_t>(std::time(nullptr));
  std::string text;
  try {
    // What is not UTF-8 in a message is replaced, as `transformers` could not hold it either.
    text = chosen.compiled->render(variables.dump(-1, ' ', false, Json::error_handler_t::replace), now);
  } catch (Error& error) {
    throw error.in(chosen.file);
  }
  return options.continue_final_message ? cut_at_mark(std::move(text), last) : text;
}

std::string ChatTemplate::render_prompt(const std::string& user, const std::string& system,
                                        const ChatOptions& options) const {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return render(messages.dump(-1, ' ', false, Json::error_handler_t::replace), options);
}

}  // namespace transmuter
