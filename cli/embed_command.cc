// `transmuter embed`: sentence embeddings of texts, and how alike they are.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>

#include "text_input.h"

namespace transmuter::cli {

namespace {

struct EmbedCommand {
  TextOptions text;
  EmbedOptions embed;
  std::string role = "text";
  std::string output;
  bool as_lines = false;
};

Json row_json(const Tensor& rows, int64_t r) {
  const float* row = rows.data<float>() + r * rows.dim(1);
  return std::vector<float>(row, row + rows.dim(1));
}

Json rows_json(const Tensor& rows) {
  Json out = Json::array();
  for (int64_t r = 0; r < rows.dim(0); ++r) out.push_back(row_json(rows, r));
  return out;
}

void print_table(const std::vector<std::string>& texts, const Tensor& cosines) {
  const int64_t count = cosines.dim(0);
  std::printf("   ");
  for (int64_t c = 0; c < count; ++c) std::printf(" %6" PRId64, c + 1);
  std::printf("\n");
  for (int64_t r = 0; r < count; ++r) {
    std::printf("%3" PRId64, r + 1);
    for (int64_t c = 0; c < count; ++c) std::printf(" %6.3f", cosines.data<float>()[r * count + c]);
    std::printf("  %s\n", texts[static_cast<size_t>(r)].c_str());
  }
}

void embed(EmbedCommand& command) {
  const std::vector<std::string> texts = column(read_items(command.text, "text"), "text");
  command.embed.role = command.role == "query"      ? EmbedRole::query
                       : command.role == "document" ? EmbedRole::document
                                                    : EmbedRole::text;
  const Tensor vectors = TextEmbedder::load(command.text.place(), command.text.task_options())(texts, command.embed);
  if (!command.output.empty()) {
    write_npy(command.output, vectors);
  } else if (command.as_lines) {
    for (size_t i = 0; i < texts.size(); ++i)
      print_json({{"text", texts[i]}, {"embedding", row_json(vectors, static_cast<int64_t>(i))}});
  } else if (command.text.as_json) {
    print_json({{"texts", texts},
                {"embeddings", rows_json(vectors)},
                {"similarities", rows_json(cosine_similarities(vectors))}});
  } else {
    print_table(texts, cosine_similarities(vectors));
  }
}

}  // namespace

void add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedCommand>();
  CLI::App* command = app.add_subcommand("embed", "Sentence embeddings: a table of cosine similarities, JSON or .npy");
  options->text.add_to(*command, "one text a line");
  command->get_option("--json")->description("texts, embeddings and similarities as one JSON object");
  command->add_flag("--jsonl", options->as_lines, "a JSON object a line, with text and embedding");
  command->add_option("-o,--output", options->output, "write the embeddings to this .npy file, a row a text");
  command->add_option("--role", options->role, "what the texts are for; chooses the model's prompt")
      ->check(CLI::IsMember({"text", "query", "document"}))
      ->capture_default_str();
  command->add_option("--prompt-name", options->embed.prompt_name, "a prompt of the model, by its name");
  command->add_option("--prompt", options->embed.prompt, "put in front of each text");
  command->add_option("--dimensions", options->embed.truncate_dim, "keep the first so many numbers; 0: all");
  command->add_flag("--normalize", options->embed.normalize, "unit length, whatever the model's files say");
  command->callback([options] { embed(*options); });
}

}  // namespace transmuter::cli
