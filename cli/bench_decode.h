// `transmuter bench --decode`: a prompt, then tokens one by one.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "transmuter/transmuter.h"

namespace transmuter::cli {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start);
double cpu_ms();  // of this process, all threads
// A backend may give results before it has computed them: they are looked at here. Caches stay where they are.
void look_at(const TensorMap& results, const std::set<std::string>& caches = {});
double quantile(const std::vector<double>& sorted, double q);

// Times a prompt of `past` tokens (again and again for `seconds`, at most 20 times) and `tokens` single steps after it,
// in ms: prefill_ms, prefill_min_ms, prefill_cpu_ms, token_ms, token_min_ms, token_p90_ms, token_cpu_ms (medians where
// the name says nothing else). Inputs named past* are fed from the outputs named present*, in order, and given to the
// run, so that they grow in place. Throws Error(invalid_input) where a model has none.
nlohmann::json decode_figures(const Model& model, const CompiledModel& run,
                              const std::map<std::string, int64_t>& extents, int64_t vocabulary, int64_t past,
                              int64_t tokens, double seconds);

}  // namespace transmuter::cli
