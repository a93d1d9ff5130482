// What becomes of a program before a PJRT plugin sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dim.h"
#include "ir/program.h"

namespace transmuter::pjrt {

// Compiled for fixed sizes, a plugin cannot run what finds its sizes in the data: such ops, and all that is computed
// from them, are the `host` part, which another backend runs after the rest.
struct Placed {
  std::optional<ir::Program> device;  // none: nothing is left for it
  std::vector<size_t> device_inputs;  // its inputs, as positions of the whole program's inputs
  std::optional<ir::Program> host;    // none: nothing for it
  // Inputs of the host part, in order: positions of the whole program's inputs, then results of the device part.
  std::vector<size_t> host_inputs;
  std::vector<size_t> host_from_device;
  // By result of the whole program: which part gives it, as which result.
  struct Result {
    bool on_host;
    size_t index;
  };
  std::vector<Result> results;
};
Placed place(const ir::Program& program);

// The op finds sizes in data, or works with sizes that were found so.
bool needs_host(const ir::Program& program, const ir::Op& op);

// In StableHLO's terms, in a scope of its own; parameters and results of two- and four-bit types are the bytes that
// they are packed in, in a row, and are unpacked and packed by the program. `floats`: products of small integers are of
// floats (products.h). `erf`: that function stays, as an op of the dialect CHLO.
ir::Program device_form(const ir::Program& program, bool passes, bool floats = false, bool erf = false);
// That op; of other dtypes a plugin's may round too much.
bool is_whole_erf(const ir::Program& program, const ir::Op& op);

// By value: floats that follow from sizes alone (positions of a resize, ...), computed here. A compiler may turn their
// divisions into products, which puts them across a whole number.
std::vector<Tensor> known_floats(const ir::Program& program, Bindings* bindings);

// Symbols that types and attributes of the program depend on, ascending: what the text depends on beside the program.
std::vector<int32_t> symbols_in(const ir::Program& program);

}  // namespace transmuter::pjrt
