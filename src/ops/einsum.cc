// Einsum: any number of operands, ellipsis, repeated labels, sums, outer products. Operands are contracted from left to
// right; a label that no later operand and not the result has is summed as soon as it can be.
#include <algorithm>
#include <cctype>

#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::Value;

// Letters by their code; the axes of an ellipsis count from its end: -1 is the last.
using Labels = std::vector<int>;

struct Term {
  Value value;
  Labels labels;
};

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
int64_t place(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

// Labels of a term as written; `ellipsis` extents stand for "..." (-1: as many as the rank leaves).
Labels read_labels(const OpContext& op, const std::string& text, int64_t rank, int64_t ellipsis) {
  int64_t letters = 0;
  for (char c : text) letters += std::isalpha(static_cast<unsigned char>(c)) != 0;
  const size_t dots = text.find("...");
  if (rank >= 0) {
    op.check(dots == std::string::npos ? letters == rank : letters <= rank, "term ", text, " does not fit rank ", rank);
    ellipsis = rank - letters;
  }
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (i == dots) {
      for (int64_t k = ellipsis; k > 0; --k) labels.push_back(static_cast<int>(-k));
      i += 2;
      continue;
    }
    op.check(std::isalpha(static_cast<unsigned char>(c)), "equation has a stray \"", c, "\"");
    labels.push_back(c);
  }
  return labels;
}

// A label twice in one term takes the diagonal: what is off it is masked, then one of the axes is summed away.
Term without_repeats(Builder& b, Term term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    for (size_t j = term.labels.size(); j-- > i + 1;) {
      if (term.labels[i] != term.labels[j]) continue;
      const Dims shape = b.shape(term.value);
      require_eq(shape[i], shape[j], "Einsum: extents of a repeated label");
      const Value on = b.compare(b.iota(DType::i64, shape, static_cast<int64_t>(i)),
                                 b.iota(DType::i64, shape, static_cast<int64_t>(j)), ir::CompareDirection::eq);
      const Value masked = b.select(on, term.value, b.like(term.value, 0));
      term.value = b.reduce(masked, ir::ReduceKind::add, {static_cast<int64_t>(j)});
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(j));
    }
  }
  return term;
}

// Sums over the labels for which `wanted` is false.
template <class Wanted>
Term summed(Builder& b, Term term, Wanted wanted) {
  std::vector<int64_t> axes;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (wanted(term.labels[i]))
      kept.push_back(term.labels[i]);
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) term.value = b.reduce(term.value, ir::ReduceKind::add, axes);
  term.labels = std::move(kept);
  return term;
}

// An extent of 1 against another repeats: the axis that is 1 goes away.
void drop_ones(Builder& b, Term& term, const Term& other) {
  std::vector<int64_t> axes;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const int label = term.labels[i];
    const bool repeats = has(other.labels, label) && provably_eq(b.shape(term.value)[i], 1) &&
                         !provably_eq(b.shape(other.value)[static_cast<size_t>(place(other.labels, label))], 1);
    if (repeats)
      axes.push_back(static_cast<int64_t>(i));
    else
      kept.push_back(label);
  }
  if (axes.empty()) return;
  term.value = b.squeeze(term.value, axes);
  term.labels = std::move(kept);
}

template <class Later>
Term contracted(Builder& b, Term x, Term y, Later later) {
  drop_ones(b, x, y);
  drop_ones(b, y, x);
  x = summed(b, std::move(x), [&](int label) { return has(y.labels, label) || later(label); });
  y = summed(b, std::move(y), [&](int label) { return has(x.labels, label) || later(label); });
  ir::DotGeneralAttributes dot;
  dot.dtype = b.dtype(x.value);
  Term out;
  Labels free;
  for (int label : x.labels) {
    if (!has(y.labels, label)) {
      free.push_back(label);
      continue;
    }
    const int64_t x_axis = place(x.labels, label), y_axis = place(y.labels, label);
    (later(label) ? dot.lhs_batching : dot.lhs_contracting).push_back(x_axis);
    (later(label) ? dot.rhs_batching : dot.rhs_contracting).push_back(y_axis);
    if (later(label)) out.labels.push_back(label);
  }
  for (int label : y.labels)
    if (!has(x.labels, label)) free.push_back(label);
  out.labels.insert(out.labels.end(), free.begin(), free.end());
  out.value = b.dot_general(x.value, y.value, std::move(dot));
  return out;
}

std::vector<std::string> split_terms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (char c : text) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back().push_back(c);
  }
  return terms;
}

// Without "->": the ellipsis, then the letters that occur once, in alphabetical order.
Labels implicit_result(const std::vector<Term>& terms, int64_t ellipsis) {
  Labels labels, all;
  for (int64_t k = ellipsis; k > 0; --k) labels.push_back(static_cast<int>(-k));
  for (const Term& term : terms) all.insert(all.end(), term.labels.begin(), term.labels.end());
  std::sort(all.begin(), all.end());
  for (int label : all)
    if (label > 0 && std::count(all.begin(), all.end(), label) == 1) labels.push_back(label);
  return labels;
}

void einsum(OpContext& op) {
  std::string equation = op.attribute_string("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  const std::vector<std::string> texts = split_terms(equation.substr(0, arrow));
  op.check(texts.size() == op.input_count(), "the equation has ", texts.size(), " terms for ", op.input_count(),
           " inputs");
  Builder& b = op.build();
  std::vector<Term> terms;
  int64_t ellipsis = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    require_numeric(op, i);
    require_same_dtype(op, 0, i);
    terms.push_back({op.input(i), read_labels(op, texts[i], op.rank(i), 0)});
    for (int label : terms[i].labels) ellipsis = std::max<int64_t>(ellipsis, -label);
  }
  const Labels result = arrow == std::string::npos ? implicit_result(terms, ellipsis)
                                                   : read_labels(op, equation.substr(arrow + 2), -1, ellipsis);
  for (size_t i = 0; i < result.size(); ++i) {
    op.check(place(result, result[i]) == static_cast<int64_t>(i), "the result repeats a label");
    op.check(std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return has(t.labels, result[i]); }),
             "the result has a label that no input has");
  }
  for (Term& term : terms) term = without_repeats(b, std::move(term));
  const auto needed_after = [&](size_t i) {
    return [&, i](int label) {
      return has(result, label) || std::any_of(terms.begin() + static_cast<int64_t>(i) + 1, terms.end(),
                                               [&](const Term& t) { return has(t.labels, label); });
    };
  };
  Term out = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) out = contracted(b, std::move(out), terms[i], needed_after(i));
  out = summed(b, std::move(out), needed_after(terms.size() - 1));
  std::vector<int64_t> permutation;
  for (int label : result) permutation.push_back(place(out.labels, label));
  op.output(0, b.transpose(out.value, std::move(permutation)));
}

}  // namespace

void register_einsum(Registry& r) { r.add("Einsum", {12}, einsum); }

}  // namespace transmuter::ops
