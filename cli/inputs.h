// Inputs from the command line, and inputs made up for benchmarks.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "transmuter/transmuter.h"

namespace transmuter::cli {

// Each of `assignments` is NAME=FILE.npy, NAME=FILE.pb or NAME=JSON: nested lists of numbers, bools or strings for a
// tensor, a list of elements for a sequence, null or the content for an optional, an object for a map. Throws Error.
TensorMap read_inputs(const Model& model, const std::vector<std::string>& assignments);

bool names_value_file(const std::string& text);  // FILE.npy or FILE.pb

// Nested lists of numbers, bools or strings. Throws Error.
Tensor tensor_from_json(const std::string& text, DType dtype);

// Inputs of a case folder's data set, matched by the names in the files, else by position.
TensorMap read_data_set(const Model& model, const std::string& folder);
// The files STEM_0.pb, STEM_1.pb, ... of a folder.
std::vector<std::string> numbered_files(const std::string& folder, const std::string& stem);
// The spec a .pb file belongs to: by the name inside, else by position; null when there is none.
const ValueSpec* spec_for(const std::vector<ValueSpec>& specs, const std::string& path, size_t position);

// Deterministic inputs for the given extents by name: SplitMix64 words of seed FNV-1a-64(input name); floats near a
// standard normal, ids below `vocabulary`, masks of ones, position_ids past + index, token_type_ids zero. batch_size is
// 1 and past_sequence_length 0 unless given; "A + B" is a sum. Throws Error naming an extent that has no value.
// Those named in `without` are left out.
TensorMap generated_inputs(const Model& model, std::map<std::string, int64_t> extents, int64_t vocabulary,
                           const std::set<std::string>& without = {});
// What --warm-up says: NAME=SIZE or NAME=LOW:HIGH for a size (INPUT:AXIS where the model has no name for it),
// INPUT=2x3x4 for a shape.
WarmUp parse_warm_up(const std::vector<std::string>& words);
constexpr const char* kWarmUpHelp =
    "sizes to prepare for before the first run: NAME=SIZE, NAME=LOW:HIGH (INPUT:AXIS where a size has no name), or "
    "INPUT=2x3x4";
// NAME=VALUE pairs.
std::map<std::string, int64_t> parse_extents(const std::vector<std::string>& pairs);

}  // namespace transmuter::cli
