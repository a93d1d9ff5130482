// Documents by how well they fit a query: cross encoders, and language models that are asked for a yes.
#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "base/unicode.h"
#include "text/encoder_model.h"
#include "text/generation/search.h"
#include "text/probabilities.h"
#include "text/sentence_modules.h"
#include "transmuter/chat_template.h"
#include "transmuter/error.h"
#include "transmuter/text_tasks.h"

namespace transmuter {

namespace fs = std::filesystem;
using generation::TokenModel;
using generation::TokenRun;

namespace {

// Whether the score goes through a sigmoid, as the files say: those of sentence-transformers, else config.json. `one`:
// the model has one score, for which that is usual.
bool is_squashed(const fs::path& folder, bool one) {
  std::string name, file;
  const auto look = [&](const fs::path& path, const char* part, const char* key) {
    const std::optional<Json> json = name.empty() ? read_json_object(path) : std::nullopt;
    if (!json) return;
    const JsonReader config(*json, path.string());
    const Json* from = *part ? config.find(part) : &*json;
    if (from && from->is_object()) name = JsonReader(*from, path.string()).text(key);
    file = path.string();
  };
  look(folder / "config_sentence_transformers.json", "", "activation_fn");
  look(folder / "config.json", "sentence_transformers", "activation_fn");
  look(folder / "config.json", "", "sbert_ce_default_activation_function");
  if (name.empty()) return one;
  const std::string kind = with_case(class_name(name), to_lower);
  if (kind == "identity") return false;
  if (kind == "sigmoid") return true;
  throw Error(ErrorCode::unsupported,
              str("the activation ", name, " in ", file, " is not known: sigmoid and identity are"));
}

// Reads query and document together and gives one score.
class CrossEncoder {
 public:
  CrossEncoder(const std::string& folder, const TextTaskOptions& options)
      : model_(folder, options, "reranking", {{.names = {"logits"}, .rank = 2}}),
        squashed_(is_squashed(model_.folder(), label_count(model_) <= 1)) {}

  bool squashed() const { return squashed_; }

  std::vector<double> logits(const std::string& query, std::span<const std::string> documents) const {
    const std::vector<std::string> queries(documents.size(), query);
    const std::vector<Encoding> rows = model_.tokenizer().encode_pairs(queries, documents, model_.encode_options());
    std::vector<double> out;
    for (const std::vector<Tensor>& outputs : model_.run(rows)) {
      if (outputs[0].size() != 1)
        throw Error(ErrorCode::unsupported,
                    str("the model gives ", outputs[0].size(),
                        " scores a pair: ranking needs one, text classification takes several"));
      out.push_back(outputs[0].data<float>()[0]);
    }
    return out;
  }

 private:
  EncoderModel model_;
  bool squashed_;
};

// A language model that reads a conversation of "query" and "document" and is taken at its word: the score of "yes" as
// the next token, less that of "no".
class AskedModel {
 public:
  AskedModel(const fs::path& folder, const fs::path& graph, const SentenceModules& modules,
             const TextTaskOptions& options)
      : ask_(*modules.logit_score),
        tokenizer_(load_tokenizer(folder)),
        chat_(ChatTemplate::load(folder.string())),
        max_length_(options.max_length ? options.max_length : modules.max_length),
        batch_tokens_(std::max<size_t>(options.batch_tokens, 1)),
        squashed_(is_squashed(folder, true)) {
    if (!max_length_) max_length_ = read_tokenizer_config(folder).model_max_length;
    if (modules.default_prompt) {
      const auto prompt = modules.prompts.find(*modules.default_prompt);
      if (prompt != modules.prompts.end()) system_ = prompt->second;
    }
    GenerationModels models;
    if (graph.extension() == ".onnx") {
      models.decoder = Model::load(graph.string());
      models.compile = options.compile;
    } else {
      models = GenerationModels::load(folder.string(), options.compile);
    }
    model_ = std::make_shared<const TokenModel>(std::move(models));
  }

  bool squashed() const { return squashed_; }

  std::vector<double> logits(const std::string& query, std::span<const std::string> documents) const {
    std::vector<std::vector<int64_t>> rows;
    for (const std::string& document : documents) rows.push_back(ids_of(query, document));
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rows[a].size() > rows[b].size(); });
    std::vector<double> out(rows.size());
    for (size_t begin = 0, end; begin < order.size(); begin = end) {
      // Longest first: all of a batch are padded to the first.
      const size_t longest = rows[order[begin]].size();
      end = begin + 1;
      while (end < order.size() && (end - begin + 1) * longest <= batch_tokens_ &&
             rows[order[end]].size() >= (model_->pads_left() ? longest - longest / 8 : longest))
        ++end;
      run(rows, std::span(order).subspan(begin, end - begin), out);
    }
    return out;
  }

 private:
  std::vector<int64_t> rendered(const std::string& query, const std::string& document) const {
    Json messages = Json::array();
    if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
    messages.push_back({{"role", "query"}, {"content", query}});
    messages.push_back({{"role", "document"}, {"content", document}});
    ChatOptions options;
    options.variables = ask_.variables;
    const std::string text = chat_.render(messages.dump(-1, ' ', false, Json::error_handler_t::strict), options);
    return tokenizer_.encode_batch({&text, 1}, {.add_special_tokens = false, .pad_to_longest = false})[0].ids;
  }

  // What is too long is cut before what the template puts at the end.
  std::vector<int64_t> ids_of(const std::string& query, const std::string& document) const {
    for (const std::string* text : {&query, &document}) {
      if (to_utf8(from_utf8(*text)) != *text)
        throw Error(ErrorCode::invalid_input, "the query or a document is not valid UTF-8");
    }
    std::vector<int64_t> ids = rendered(query, document);
    if (ids.empty()) throw Error(ErrorCode::invalid_model, "the chat template makes nothing of query and document");
    if (!max_length_ || ids.size() <= max_length_) return ids;
    const std::vector<int64_t> one = rendered("a", "a"), other = rendered("0", "0");
    size_t end = 0;
    while (end < one.size() && end < other.size() && one[one.size() - 1 - end] == other[other.size() - 1 - end]) ++end;
    end = std::min(end, max_length_);
    const std::vector<int64_t> suffix(ids.end() - static_cast<int64_t>(end), ids.end());
    ids.resize(max_length_ - end);
    ids.insert(ids.end(), suffix.begin(), suffix.end());
    return ids;
  }

  void run(const std::vector<std::vector<int64_t>>& rows, std::span<const size_t> batch,
           std::vector<double>& out) const {
    std::vector<std::span<const int64_t>> texts;
    for (const size_t row : batch) texts.emplace_back(rows[row]);
    TokenRun text(model_);
    const Tensor scores = text.step(generation::padded(texts, 0, true), {});
    const int64_t width = scores.dim(1);
    for (const int64_t id : {ask_.yes, ask_.no.value_or(0)}) {
      if (id >= width)
        throw Error(ErrorCode::invalid_model,
                    str("the module LogitScore asks for the token ", id, ", but the model has ", width));
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      const float* x = scores.data<float>() + static_cast<int64_t>(i) * width;
      out[batch[i]] = static_cast<double>(x[ask_.yes]) - (ask_.no ? static_cast<double>(x[*ask_.no]) : 0);
    }
  }

  SentenceModules::LogitScore ask_;
  Tokenizer tokenizer_;
  ChatTemplate chat_;
  size_t max_length_, batch_tokens_;
  bool squashed_;
  std::string system_;
  std::shared_ptr<const TokenModel> model_;
};

}  // namespace

struct Reranker::Impl {
  Impl(const std::string& place, const TextTaskOptions& options) {
    const fs::path folder = folder_of(place);
    const SentenceModules modules = read_sentence_modules(folder);
    if (modules.logit_score) {
      asked.emplace(folder, place, modules, options);
    } else {
      cross.emplace(place, options);
    }
  }

  std::optional<CrossEncoder> cross;
  std::optional<AskedModel> asked;
};

Reranker Reranker::load(const std::string& folder, const TextTaskOptions& options) {
  return Reranker(std::make_shared<Impl>(folder, options));
}

std::vector<double> Reranker::scores(const std::string& query, std::span<const std::string> documents, bool raw) const {
  const Impl& impl = *impl_;
  std::vector<double> out = impl.asked ? impl.asked->logits(query, documents) : impl.cross->logits(query, documents);
  if (!raw && (impl.asked ? impl.asked->squashed() : impl.cross->squashed())) {
    for (double& score : out) score = sigmoid(score);
  }
  return out;
}

std::vector<Ranked> Reranker::rank(const std::string& query, std::span<const std::string> documents, size_t top_k,
                                   bool raw) const {
  std::vector<Ranked> out;
  for (double score : scores(query, documents, raw)) out.push_back({out.size(), score});
  std::stable_sort(out.begin(), out.end(), [](const Ranked& a, const Ranked& b) { return a.score > b.score; });
  if (top_k && out.size() > top_k) out.resize(top_k);
  return out;
}

}  // namespace transmuter
