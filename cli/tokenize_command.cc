// `transmuter tokenize`: what a tokenizer makes of texts.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "hub_progress.h"
#include "text_input.h"

namespace transmuter::cli {

namespace {

struct TokenizeCommand {
  TextOptions text;  // without engine options: no model runs
  EncodeOptions encode;
  bool no_special = false;
};

std::string tokenizer_path(const std::string& place) {
  if (place.ends_with(".json")) return place;
  return (std::filesystem::path(local_folder(place)) / "tokenizer.json").string();
}

// Token by token, as a text is shown while it is generated.
std::string streamed(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  DecodeStream stream(tokenizer, false);
  std::string text;
  for (const int64_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

Json row_json(const Tokenizer& tokenizer, const Encoding& row) {
  Json tokens = Json::array(), offsets = Json::array();
  for (size_t t = 0; t < row.ids.size(); ++t) {
    tokens.push_back(tokenizer.id_to_token(row.ids[t]).value_or(""));
    offsets.push_back({row.offsets[t].begin, row.offsets[t].end});
  }
  return {{"text", row.text},
          {"ids", row.ids},
          {"tokens", tokens},
          {"offsets", offsets},
          {"words", row.words},
          {"sequences", row.sequences},
          {"type_ids", row.type_ids},
          {"special_tokens_mask", row.special_tokens_mask},
          {"decoded", tokenizer.decode(row.ids, false)},
          {"decoded_without_special", tokenizer.decode(row.ids)},
          {"streamed", streamed(tokenizer, row.ids)}};
}

void print_row(const Tokenizer& tokenizer, const Encoding& row) {
  for (size_t t = 0; t < row.ids.size(); ++t)
    std::printf("%8" PRId64 "  %5zu-%-5zu %s\n", row.ids[t], row.offsets[t].begin, row.offsets[t].end,
                tokenizer.id_to_token(row.ids[t]).value_or("").c_str());
  std::printf("%zu tokens\n", row.ids.size());
}

void tokenize(TokenizeCommand& command) {
  const std::vector<TextItem> items = read_items(command.text, "text");
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_path(command.text.folder));
  EncodeOptions& encode = command.encode;
  encode.add_special_tokens = !command.no_special;
  encode.max_length = command.text.max_length;
  encode.pad_to_longest = false;
  encode.keep_overflow = encode.stride > 0;
  const bool pairs = are_pairs(items);
  const std::vector<std::string> texts = column(items, "text");
  const std::vector<Encoding> rows =
      pairs ? tokenizer.encode_pairs(texts, column(items, "text_pair"), encode) : tokenizer.encode_batch(texts, encode);
  for (const Encoding& row : rows) {
    if (command.text.as_json) {
      print_json(row_json(tokenizer, row));
    } else {
      print_row(tokenizer, row);
    }
  }
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeCommand>();
  CLI::App* command = app.add_subcommand("tokenize", "What a tokenizer makes of texts (JSONL: text, text_pair)");
  command->add_option("model", options->text.folder, "folder with tokenizer.json, that file, or hf:REPO[@REVISION]")
      ->required();
  command->add_option("file", options->text.file, "one text a line; *.jsonl: a JSON object a line; - standard input");
  command->add_option("-t,--text", options->text.texts, "a text; may be given again");
  command->add_option("--max-length", options->text.max_length, "tokens a text may have; 0: no limit");
  command->add_option("--stride", options->encode.stride,
                      "what is cut off comes as further rows, which repeat so many tokens");
  command->add_flag("--truncate-left", options->encode.truncate_left, "cut at the start");
  command->add_flag("--no-special", options->no_special, "without the model's special tokens");
  command->add_flag("--json", options->text.as_json,
                    "JSON, a line for each row: ids, tokens, offsets (bytes), words, …");
  command->callback([options] { tokenize(*options); });
}

}  // namespace transmuter::cli
