#include "runtime/decoder_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace transmuter::runtime {
namespace {

using Cache = Decoder::Cache;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// `name` with the first `from` become `to`; empty where there is none.
std::string replaced(const std::string& name, std::string_view from, std::string_view to) {
  const size_t at = name.find(from);
  if (at == std::string::npos) return {};
  return name.substr(0, at).append(to).append(name.substr(at + from.size()));
}

// Names of inputs that an output of this name may feed, the likeliest first.
std::vector<std::string> fed_by(const std::string& output) {
  static constexpr std::array<std::array<std::string_view, 2>, 9> kWords{{{"present_key_values", "past_key_values"},
                                                                          {"present", "past_key_values"},
                                                                          {"present", "past"},
                                                                          {"output", "input"},
                                                                          {"_out", "_in"},
                                                                          {"_out", ""},
                                                                          {"new_", ""},
                                                                          {"next_", ""},
                                                                          {"updated_", ""}}};
  std::vector<std::string> names;
  for (const auto& [from, to] : kWords) {
    if (std::string name = replaced(output, from, to); !name.empty()) names.push_back(std::move(name));
  }
  if (output.size() > 1 && (output.back() == 'N' || output.back() == 'n'))
    names.push_back(output.substr(0, output.size() - 1));
  return names;
}

bool same_extent(const ValueSpec::Dim& a, const ValueSpec::Dim& b) {
  if (a.value >= 0 || b.value >= 0) return a.value == b.value;
  return !a.symbol.empty() && a.symbol == b.symbol;
}

bool is_cross(const std::string& name) { return contains(name, "encoder") || contains(name, "cross"); }

bool is_state(const std::string& name) {
  static constexpr std::array<std::string_view, 4> kWords{"conv", "ssm", "recurrent", "state"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return contains(name, word); });
}

// The axis along which the two differ; of several that before the last. -1: none.
int64_t growing_axis(const ValueSpec& past, const ValueSpec& present) {
  if (!past.has_shape || !present.has_shape || past.shape.size() != present.shape.size())
    return past.has_shape ? 2 : -1;
  const int64_t rank = static_cast<int64_t>(past.shape.size());
  int64_t found = -1;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const size_t a = static_cast<size_t>(axis);
    if (!same_extent(past.shape[a], present.shape[a]) && (found < 0 || axis == rank - 2)) found = axis;
  }
  return found;
}

void classify(Cache& cache, const ValueSpec& past, const ValueSpec* present, bool shared_buffers) {
  const int64_t rank = static_cast<int64_t>(past.shape.size());
  if (is_cross(cache.past) || !present) {
    cache.kind = Cache::Kind::cross;
    return;
  }
  cache.axis = growing_axis(past, *present);
  const bool fixed = past.has_shape && rank >= 3 && past.shape[static_cast<size_t>(rank) - 2].value > 0;
  if (is_state(cache.past) || rank < 3) {
    cache.kind = Cache::Kind::state;
    cache.axis = -1;
  } else if (shared_buffers || fixed) {
    cache.kind = Cache::Kind::shared;
    cache.axis = rank - 2;
  } else if (cache.axis < 0) {
    cache.kind = Cache::Kind::state;
  }
}

// As large as each other at every step: beyond the batch nothing varies.
bool is_state_of(const ValueSpec& past, const ValueSpec& present) {
  if (past.dtype != present.dtype || !is_float(past.dtype) || past.shape.size() < 2) return false;
  if (past.shape.size() != present.shape.size()) return false;
  for (size_t axis = 0; axis < past.shape.size(); ++axis) {
    if (axis > 0 && past.shape[axis].value < 0) return false;
    if (!same_extent(past.shape[axis], present.shape[axis])) return false;
  }
  return true;
}

// States whose names say nothing: an input and an output of one shape that no other shares.
std::vector<Cache> find_states(const std::vector<ValueSpec>& inputs, const std::vector<ValueSpec>& outputs) {
  std::vector<Cache> states;
  for (const ValueSpec& input : inputs) {
    const auto alike = [&](const ValueSpec& output) { return is_state_of(input, output); };
    const auto other = [&](const ValueSpec& spec) { return &spec != &input && is_state_of(input, spec); };
    const auto output = std::find_if(outputs.begin(), outputs.end(), alike);
    if (output == outputs.end() || std::count_if(outputs.begin(), outputs.end(), alike) > 1) continue;
    if (std::none_of(inputs.begin(), inputs.end(), other))
      states.push_back({input.name, output->name, Cache::Kind::state, -1});
  }
  return states;
}

const ValueSpec* find(const std::vector<ValueSpec>& specs, const std::string& name) {
  const auto it = std::find_if(specs.begin(), specs.end(), [&](const ValueSpec& spec) { return spec.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

}  // namespace

std::vector<Cache> find_caches(const std::vector<ValueSpec>& inputs, const std::vector<ValueSpec>& outputs,
                               bool shared_buffers) {
  std::vector<Cache> caches;
  for (const ValueSpec& output : outputs) {
    for (const std::string& name : fed_by(output.name)) {
      const ValueSpec* input = find(inputs, name);
      if (!input || input->kind != Value::Kind::tensor || input->dtype != output.dtype) continue;
      if (std::any_of(caches.begin(), caches.end(), [&](const Cache& c) { return c.past == name; })) continue;
      Cache cache{name, output.name};
      classify(cache, *input, &output, shared_buffers);
      caches.push_back(std::move(cache));
      break;
    }
  }
  if (caches.empty()) return find_states(inputs, outputs);
  // Cross caches that come from another model.
  for (const ValueSpec& input : inputs) {
    const bool paired = std::any_of(caches.begin(), caches.end(), [&](const Cache& c) { return c.past == input.name; });
    if (!paired && contains(input.name, "past") && is_cross(input.name) && input.shape.size() > 2)
      caches.push_back({input.name, {}, Cache::Kind::cross, -1});
  }
  const auto position = [&](const Cache& c) { return find(inputs, c.past) - inputs.data(); };
  std::sort(caches.begin(), caches.end(), [&](const Cache& a, const Cache& b) { return position(a) < position(b); });
  return caches;
}

}  // namespace transmuter::runtime
