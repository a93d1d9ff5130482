#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "base/unicode.h"
#include "text/encoder_model.h"
#include "text/probabilities.h"
#include "transmuter/error.h"
#include "transmuter/text_tasks.h"

namespace transmuter {

namespace {

const std::vector<EncoderModel::Output> kLogits = {{.names = {"logits"}, .rank = 2}};

enum class Function { none, sigmoid, softmax };

Function function_named(const std::string& name, const std::string& where) {
  if (name == "none") return Function::none;
  if (name == "sigmoid") return Function::sigmoid;
  if (name == "softmax") return Function::softmax;
  throw Error(ErrorCode::invalid_input,
              str("the function \"", name, "\"", where, " is none of sigmoid, softmax, none"));
}

// As the configuration says; what it doesn't say follows from how many labels there are.
Function function_of(const EncoderModel& model, size_t labels) {
  const JsonReader config = model.config_reader();
  const std::string problem = config.text("problem_type");
  if (problem == "regression") return Function::none;
  if (problem == "multi_label_classification" || labels == 1) return Function::sigmoid;
  if (problem == "single_label_classification" || labels > 1) return Function::softmax;
  const std::string function = config.text("function_to_apply");
  return function.empty() ? Function::none : function_named(function, str(" in ", config.file()));
}

std::vector<double> apply(Function function, std::span<const float> logits) {
  if (function == Function::softmax) return softmax(logits);
  std::vector<double> out(logits.begin(), logits.end());
  if (function == Function::sigmoid)
    for (double& value : out) value = sigmoid(value);
  return out;
}

std::span<const float> values(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<size_t>(tensor.size())};
}

std::vector<LabelScore> best_first(const std::vector<std::string>& labels, const std::vector<double>& scores) {
  std::vector<LabelScore> out;
  for (size_t i = 0; i < scores.size(); ++i) out.push_back({labels[i], scores[i]});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return out;
}

}  // namespace

struct TextClassifier::Impl {
  Impl(const std::string& folder, const TextTaskOptions& options)
      : model(folder, options, "text classification", kLogits), labels(labels_of(model)) {
    function = function_of(model, labels.size());
  }

  std::vector<std::vector<LabelScore>> classify(std::span<const Encoding> rows, const ClassifyOptions& options) const {
    const Function wanted = options.function.empty() ? function : function_named(options.function, "");
    std::vector<std::vector<LabelScore>> out;
    for (const std::vector<Tensor>& outputs : model.run(rows)) {
      const std::span<const float> logits = values(outputs[0]);
      const bool named = !labels.empty();
      if (named) check_labels(model, labels.size(), outputs[0].size(), "text");
      const std::vector<std::string> names = named ? labels : labels_of(model, logits.size());
      const Function used = named || !options.function.empty() ? wanted : function_of(model, logits.size());
      out.push_back(best_first(names, apply(used, logits)));
      if (options.top_k && out.back().size() > *options.top_k) out.back().resize(*options.top_k);
    }
    return out;
  }

  EncoderModel model;
  std::vector<std::string> labels;
  Function function;
};

TextClassifier TextClassifier::load(const std::string& folder, const TextTaskOptions& options) {
  return TextClassifier(std::make_shared<Impl>(folder, options));
}

std::vector<std::vector<LabelScore>> TextClassifier::operator()(std::span<const std::string> texts,
                                                                const ClassifyOptions& options) const {
  return impl_->classify(impl_->model.tokenizer().encode_batch(texts, impl_->model.encode_options()), options);
}

std::vector<std::vector<LabelScore>> TextClassifier::pairs(std::span<const std::string> texts,
                                                           std::span<const std::string> seconds,
                                                           const ClassifyOptions& options) const {
  return impl_->classify(impl_->model.tokenizer().encode_pairs(texts, seconds, impl_->model.encode_options()), options);
}

const std::vector<std::string>& TextClassifier::labels() const { return impl_->labels; }

struct ZeroShotClassifier::Impl {
  Impl(const std::string& folder, const TextTaskOptions& options)
      : model(folder, options, "zero-shot classification", kLogits) {
    const std::vector<std::string> names = labels_of(model);
    labels = names.size();
    for (size_t i = 0; i < names.size(); ++i) {
      if (with_case(names[i], to_lower).starts_with("entail")) entailment = i;
    }
    // Without such a label it is the last one, as there is no telling.
    if (labels && !entailment) entailment = labels - 1;
    if (labels == 1)
      throw Error(ErrorCode::unsupported, str((model.folder() / "config.json").string(),
                                              " has one label only: zero-shot classification needs "
                                              "a model that tells entailment from contradiction"));
  }

  std::vector<LabelScore> judge(const std::vector<std::vector<Tensor>>& outputs, size_t first,
                                std::span<const std::string> names, bool multi_label) const {
    std::vector<float> entailed;
    std::vector<double> scores;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::span<const float> logits = values(outputs[first + i][0]);
      if (labels) check_labels(model, labels, static_cast<int64_t>(logits.size()), "text");
      const size_t yes = entailment.value_or(logits.size() - 1);
      const size_t no = yes == 0 ? logits.size() - 1 : 0;
      entailed.push_back(logits[yes]);
      const float both[] = {logits[no], logits[yes]};
      scores.push_back(softmax(both)[1]);
    }
    if (!multi_label && names.size() > 1) scores = softmax(entailed);
    return best_first(std::vector<std::string>(names.begin(), names.end()), scores);
  }

  EncoderModel model;
  size_t labels = 0;
  std::optional<size_t> entailment;
};

ZeroShotClassifier ZeroShotClassifier::load(const std::string& folder, const TextTaskOptions& options) {
  return ZeroShotClassifier(std::make_shared<Impl>(folder, options));
}

std::vector<std::vector<LabelScore>> ZeroShotClassifier::operator()(std::span<const std::string> texts,
                                                                    std::span<const std::string> labels,
                                                                    const ZeroShotOptions& options) const {
  if (labels.empty()) throw Error(ErrorCode::invalid_input, "zero-shot classification needs at least one label");
  const size_t hole = options.hypothesis.find("{}");
  if (hole == std::string::npos)
    throw Error(ErrorCode::invalid_input,
                str("the hypothesis \"", options.hypothesis, "\" has no {} where the label goes"));
  std::vector<std::string> premises, hypotheses;
  for (const std::string& text : texts) {
    for (const std::string& label : labels) {
      premises.push_back(text);
      hypotheses.push_back(std::string(options.hypothesis).replace(hole, 2, label));
    }
  }
  EncodeOptions encode = impl_->model.encode_options();
  encode.truncate_side = TruncateSide::first;
  const auto outputs = impl_->model.run(impl_->model.tokenizer().encode_pairs(premises, hypotheses, encode));
  std::vector<std::vector<LabelScore>> out;
  for (size_t i = 0; i < texts.size(); ++i)
    out.push_back(impl_->judge(outputs, i * labels.size(), labels, options.multi_label));
  return out;
}

}  // namespace transmuter
