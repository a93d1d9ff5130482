// `transmuter chat`: a conversation in the terminal.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "generation_options.h"
#include "hub_progress.h"
#include "text_input.h"
#include "transmuter/text_generator.h"

namespace transmuter::cli {

using nlohmann::ordered_json;

namespace {

// What Ctrl-C ends: the answer that is being written, or null.
std::atomic<const CancelToken*> answering{nullptr};
static_assert(std::atomic<const CancelToken*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  if (const CancelToken* token = answering.load()) token->cancel();
}

struct ChatCommand {
  EngineOptions engine;
  SettingOptions settings;
  Draft draft;
  std::string folder, dtype, system, variables;
};

constexpr const char* kHelp =
    "/help             these lines\n"
    "/new              forget the conversation\n"
    "/system TEXT      another system message (none without TEXT), and a new conversation\n"
    "/retry            another answer to the last message (by another seed where tokens are drawn)\n"
    "/undo             forget the last message and its answer\n"
    "/set NAME=VALUE   a setting: temperature=0.7, do_sample=true, max_new_tokens=200, ...\n"
    "/history          the conversation so far\n"
    "/save FILE        the conversation as JSON; /load FILE goes on with one\n"
    "/exit             leave (Ctrl-D too). Ctrl-C ends an answer. A line that ends in \\ goes on in the next.\n";

class Conversation {
 public:
  Conversation(TextGenerator generator, GenerationConfig config, ChatCommand& command)
      : generator_(std::move(generator)),
        assistant_(command.draft.load(command.engine.compile_options(), command.dtype)),
        config_(std::move(config)),
        variables_(command.variables),
        terminal_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
    begin(command.system);
    // A chat goes on until the model has said all, where nothing says otherwise.
    if (!config_.max_new_tokens && !config_.max_length) config_.max_new_tokens = 1024;
  }

  void run() {
    if (terminal_) std::printf("/help says what else can be typed; Ctrl-D leaves.\n");
    std::string line;
    while (read(line)) {
      try {
        if (line.starts_with('/')) {
          if (!obey(line)) return;
        } else if (!line.empty()) {
          messages_.push_back({{"role", "user"}, {"content", line}});
          answer();
        }
      } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        if (!messages_.empty() && messages_.back()["role"] == "user") messages_.erase(messages_.size() - 1);
      }
    }
  }

 private:
  void begin(const std::string& system) {
    dumped(system, "the system's message");
    messages_ = ordered_json::array();
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
  }

  // False at the end of input.
  bool read(std::string& text) {
    text.clear();
    for (bool more = true; more;) {
      if (terminal_) std::printf("%s", text.empty() ? "> " : ". ");
      std::fflush(stdout);
      std::string line;
      if (!std::getline(std::cin, line)) {
        if (terminal_) std::printf("\n");
        if (std::cin.eof()) return false;
        std::cin.clear();  // interrupted: begin anew
        text.clear();
        continue;
      }
      if (!line.empty() && line.back() == '\r') line.pop_back();
      more = !line.empty() && line.back() == '\\';
      if (more) line.back() = '\n';
      text += line;
    }
    return true;
  }

  void answer() {
    CancelToken cancel;
    std::string text;
    TextCall call;
    call.cancel = &cancel;
    call.assistant = assistant_;
    call.cache = config_.num_beams == 1 && !generator_.has_encoder() && config_.guidance_scale == 1 ? &cache_ : nullptr;
    const auto show = [&](std::string_view piece) {
      text += piece;
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    if (config_.num_beams == 1) {
      call.on_text = [&](size_t, std::string_view piece) {
        show(piece);
        return true;
      };
    }
    GenerationRequest request{.messages = dumped(messages_, "a message")};
    request.chat.variables = variables_;
    answering = &cancel;
    const auto start = std::chrono::steady_clock::now();
    try {
      const GeneratedText written = generator_(request, config_, call);
      if (!call.on_text) show(written.text);
      answering = nullptr;
      std::printf("\n");
      if (terminal_) report(written, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    } catch (const Error& error) {
      answering = nullptr;
      if (error.code() != ErrorCode::cancelled) throw;
      std::printf(" ...\n");
    }
    ++config_.seed;  // the next answer draws anew
    // What was written before it was stopped was said.
    messages_.push_back({{"role", "assistant"}, {"content", text}});
  }

  static void report(const GeneratedText& written, double seconds) {
    const TokenSummary& tokens = written.token_summary;
    std::printf("\033[2m[%lld tokens read (%lld known), %lld written, %.1f a second%s]\033[0m\n",
                static_cast<long long>(tokens.input), static_cast<long long>(written.reused),
                static_cast<long long>(tokens.output), static_cast<double>(tokens.output) / seconds,
                written.reason == StopReason::length ? "; cut at max_new_tokens" : "");
  }

  // Takes back everything behind the last message of the user; false if there is none.
  bool back_to_user() {
    while (!messages_.empty() && messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
    return !messages_.empty() && messages_.back()["role"] == "user";
  }

  // False: leave.
  bool obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "/exit" || word == "/quit") return false;
    if (word == "/new" || word == "/clear") {
      begin(!messages_.empty() && messages_[0]["role"] == "system" ? messages_[0]["content"].get<std::string>() : "");
    } else if (word == "/system") {
      begin(rest);
    } else if (word == "/retry") {
      if (back_to_user()) answer();
    } else if (word == "/undo") {
      if (back_to_user()) messages_.erase(messages_.size() - 1);
    } else if (word == "/set") {
      set_field(config_, rest);
    } else if (word == "/history") {
      for (const auto& message : messages_) {
        const auto& content = message["content"];
        std::printf("%s: %s\n", message["role"].get<std::string>().c_str(),
                    content.is_string() ? content.get<std::string>().c_str() : content.dump().c_str());
      }
    } else if (word == "/save") {
      std::ofstream file(rest);
      file << messages_.dump(1) << "\n";
      if (!file.flush()) throw Error(ErrorCode::io, "cannot write " + rest);
    } else if (word == "/load") {
      load(rest);
    } else {
      std::printf("%s", kHelp);
    }
    return true;
  }

  void load(const std::string& path) {
    ordered_json messages = ordered_json::parse(read_all(path), nullptr, false);
    bool fine = messages.is_array();
    for (const auto& message : messages) {
      fine = fine && message.is_object() && message.contains("role") && message["role"].is_string() &&
             message.contains("content");
    }
    if (!fine) throw Error(ErrorCode::invalid_input, path + " is not a JSON list of {\"role\", \"content\"}");
    messages_ = std::move(messages);
  }

  TextGenerator generator_;
  const TokenGenerator* assistant_;
  GenerationConfig config_;
  std::string variables_;
  bool terminal_;
  ordered_json messages_;
  PromptCache cache_;
};

void chat(ChatCommand& command) {
  TextGenerator generator =
      TextGenerator::load(local_folder(command.folder, command.dtype), command.engine.compile_options(), command.dtype);
  if (!generator.has_chat()) {
    throw Error(ErrorCode::invalid_input,
                command.folder +
                    " has no chat template (chat_template.jinja, or chat_template in "
                    "tokenizer_config.json); `transmuter generate` goes on with texts as they are");
  }
  GenerationConfig config = generator.config();
  command.settings.apply(config, command.engine.seed);
  if (config.num_return_sequences > 1) throw Error(ErrorCode::invalid_input, "a chat has one answer to each message");
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a line that is being typed is given up
  sigaction(SIGINT, &action, nullptr);
  Conversation(std::move(generator), std::move(config), command).run();
}

}  // namespace

void add_chat(CLI::App& app) {
  auto options = std::make_shared<ChatCommand>();
  CLI::App* command = app.add_subcommand("chat", "A conversation with a language model, in the terminal");
  command->add_option("model", options->folder, "folder with the model and tokenizer.json, or hf:REPO[@REVISION]")
      ->required();
  command->add_option("--system", options->system, "the system's message");
  command->add_option("--variables", options->variables, "a JSON object of further variables of the chat template");
  add_dtype(*command, options->dtype);
  options->settings.add_to(*command);
  options->draft.add_to(*command);
  options->engine.add_to(*command);
  command->footer(kHelp);
  command->callback([options] { chat(*options); });
}

}  // namespace transmuter::cli
