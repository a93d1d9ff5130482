// `transmuter generate`: texts and conversations that a language model goes on with.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench_decode.h"
#include "generation_options.h"
#include "hub_progress.h"
#include "text_input.h"
#include "transmuter/text_generator.h"

namespace transmuter::cli {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

struct GenerateCommand {
  EngineOptions engine;
  SettingOptions settings;
  Draft draft;
  std::string folder, dtype;
  std::vector<std::string> texts;
  std::string file, messages, system, tools, variables;
  bool chat = false, as_json = false, stats = false;
};

std::string messages_of(const GenerateCommand& command, const std::string& user) {
  json messages = json::array();
  if (!command.system.empty()) messages.push_back({{"role", "system"}, {"content", command.system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return dumped(messages, "a message");
}

// A line of a .jsonl file: {"text": …} or {"messages": […]}, with "seed" if it has one; a string is a text.
GenerationRequest request_of(const std::string& line, const std::string& file) {
  const json value = json::parse(line, nullptr, false);
  GenerationRequest request;
  if (value.is_string()) {
    request.text = value;
  } else if (value.is_object() && value.contains("messages")) {
    request.messages = value["messages"].dump();
  } else if (value.is_object() && value.contains("text") && value["text"].is_string()) {
    request.text = value["text"];
  } else {
    throw Error(ErrorCode::invalid_input,
                "a line of " + file + " is neither {\"text\": …} nor {\"messages\": […]}: " + line.substr(0, 80));
  }
  if (value.is_object() && value.contains("seed")) {
    if (!value["seed"].is_number_unsigned())
      throw Error(ErrorCode::invalid_input,
                  "a \"seed\" in " + file + " is no whole number from 0: " + line.substr(0, 80));
    request.seed = value["seed"].get<uint64_t>();
  }
  return request;
}

std::vector<GenerationRequest> requests_of(const GenerateCommand& command) {
  const bool chat = command.chat || !command.system.empty() || !command.tools.empty();
  std::vector<GenerationRequest> requests;
  const auto add = [&](const std::string& text) {
    requests.push_back(chat ? GenerationRequest{.messages = messages_of(command, text)}
                            : GenerationRequest{.text = text});
  };
  for (const std::string& text : command.texts) add(text);
  if (!command.file.empty()) {
    for (const std::string& line : read_lines(command.file)) {
      if (command.file.ends_with(".jsonl")) {
        requests.push_back(request_of(line, command.file));
      } else {
        add(line);
      }
    }
  }
  if (!command.messages.empty()) requests.push_back({.messages = read_all(command.messages)});
  if (requests.empty())
    throw Error(ErrorCode::invalid_input, "no text: give texts, --file (- for standard input) or --messages");
  for (GenerationRequest& request : requests) {
    if (!command.tools.empty()) request.chat.tools = read_all(command.tools);
    request.chat.variables = command.variables;
  }
  return requests;
}

// When tokens came.
class Stopwatch {
 public:
  void token() {
    if (tokens_++ == 0) {
      first_ms_ = ms_since(start_);
      first_cpu_ = cpu_ms();
    }
    last_ms_ = ms_since(start_);
    last_cpu_ = cpu_ms();
  }
  // Tokens after the first: that one waits for the prompt.
  void report(int64_t read) const {
    std::fprintf(stderr, "first of %lld tokens after %.1f ms (%lld read)", static_cast<long long>(tokens_), first_ms_,
                 static_cast<long long>(read));
    if (tokens_ > 1) {
      const double more = static_cast<double>(tokens_ - 1), ms = (last_ms_ - first_ms_) / more;
      std::fprintf(stderr, ", then %.3f ms each (%.1f a second), %.3f ms of CPU time", ms, 1e3 / ms,
                   (last_cpu_ - first_cpu_) / more);
    }
    std::fprintf(stderr, "\n");
  }

 private:
  Clock::time_point start_ = Clock::now();
  int64_t tokens_ = 0;
  double first_ms_ = 0, last_ms_ = 0, first_cpu_ = 0, last_cpu_ = 0;
};

// As transformers prints it: the prompt with what follows, or the conversation with the answer; beside it what is new.
ordered_json answer_json(const GenerationRequest& request, const GeneratedText& answer, bool beams) {
  ordered_json out;
  if (request.messages.empty()) {
    out["generated_text"] = request.text + answer.text;
  } else {
    ordered_json messages = ordered_json::parse(request.messages);
    messages.push_back({{"role", "assistant"}, {"content", answer.text}});
    out["generated_text"] = std::move(messages);
  }
  out["text"] = answer.text;
  out["token_summary"] = summary_json(answer);
  out["finish_reason"] = name(answer.reason);
  if (answer.guessed > 0) out["guessed"] = answer.guessed;
  if (beams) out["score"] = answer.score;
  return out;
}

void generate(GenerateCommand& command) {
  const std::vector<GenerationRequest> requests = requests_of(command);
  const TextGenerator generator =
      TextGenerator::load(local_folder(command.folder, command.dtype), command.engine.compile_options(), command.dtype);
  GenerationConfig config = generator.config();
  command.settings.apply(config, command.engine.seed);
  TextCall call;
  call.assistant = command.draft.load(command.engine.compile_options(), command.dtype);
  // One answer is shown as it comes.
  const bool streams =
      !command.as_json && requests.size() == 1 && config.num_beams == 1 && config.num_return_sequences == 1;
  if (streams) {
    call.on_text = [](size_t, std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
      return true;
    };
  }
  Stopwatch watch;
  if (command.stats && config.num_beams == 1) {
    call.on_token = [&](size_t, int64_t) {
      watch.token();
      return true;
    };
  }
  const std::vector<GeneratedText> answers = generator(requests, config, call);
  const size_t copies = answers.size() / requests.size();
  ordered_json all = ordered_json::array();
  for (size_t i = 0; i < answers.size(); ++i) {
    if (command.as_json) {
      all.push_back(answer_json(requests[i / copies], answers[i], config.num_beams > 1));
    } else {
      std::printf("%s\n", streams ? "" : answers[i].text.c_str());
    }
  }
  int64_t read = 0;
  for (size_t i = 0; i < answers.size(); i += copies) read += answers[i].token_summary.input;
  if (call.on_token) watch.report(read);
  if (command.as_json) print_json(all);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommand>();
  CLI::App* command = app.add_subcommand("generate", "Texts that a language model goes on with, or answers to");
  command->add_option("model", options->folder, "folder with the model and tokenizer.json, or hf:REPO[@REVISION]")
      ->required();
  command->add_option("text", options->texts, "what to go on with; several are run together");
  command->add_option("-f,--file", options->file,
                      "one text a line, - reads standard input; .jsonl: {\"text\"} or {\"messages\"}, and \"seed\"");
  command->add_flag("--chat", options->chat, "texts are messages to answer, by the folder's chat template");
  command->add_option("--system", options->system, "the system's message before them; --chat is meant");
  command->add_option("--messages", options->messages, "file with a conversation: a JSON list of role and content");
  command->add_option("--tools", options->tools, "file with a JSON list of functions, for the chat template");
  command->add_option("--variables", options->variables, "a JSON object of further variables of the chat template");
  add_dtype(*command, options->dtype);
  command->add_flag("--json", options->as_json, "all answers as one JSON list, with tokens and how they ended");
  command->add_flag("--stats", options->stats, "how long tokens took, on standard error; not with --beams");
  options->settings.add_to(*command);
  options->draft.add_to(*command);
  options->engine.add_to(*command);
  command->callback([options] { generate(*options); });
}

}  // namespace transmuter::cli
