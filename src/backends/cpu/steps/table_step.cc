// Values that follow from sizes alone (iota, dim_value): made while a plan is bound, then constants of the plan, unless
// they are long. What reads them takes them through strides, so an iota is one line of numbers.
#include <array>

#include "backends/cpu/plan/planner.h"
#include "base/dispatch.h"
#include "ir/primitives/attributes.h"
#include "ir/primitives/primitives.h"
#include "tensor/cast.h"

namespace transmuter::cpu {
namespace {

class TableStep : public Step {
 public:
  explicit TableStep(const ir::Op& op) : op_(op) { writes = op.results; }

  void bind(Binder& bind) const override {
    const ir::Value result = op_.results[0];
    const DType dtype = bind.dtype(result);
    if (op_.primitive == &ir::prim::dim_value) {
      const auto& a = op_.as<ir::DimValueAttributes>();
      const Tensor value = a.is_real ? Tensor(std::vector<double>{bind.value(a.real)}, {})
                                     : Tensor(std::vector<int64_t>{bind.value(a.dim)}, {});
      bind.alias(result, bind.constant(bind.keep(value.cast(dtype))));
      return bind.untouch();
    }
    const int64_t axis = op_.as<ir::IotaAttributes>().dimension;
    const Extents shape = bind.shape(result);
    const int64_t count = shape[static_cast<size_t>(axis)];
    View line;
    if (count <= kFew) {
      Tensor numbers(dtype, {count});
      write_numbers(dtype, count, numbers.mutable_bytes());
      line = bind.constant(bind.keep(std::move(numbers)));
      bind.untouch();
    } else {
      line = dense_view(bind.scratch(static_cast<int64_t>(byte_size(dtype, count))), dtype, extents_of(Shape{count}));
      bind.launch("iota", 0, [count, dtype, line = Place(line)](const RunContext& run) {
        write_numbers(dtype, count, run.at<std::byte>(line));
      });
    }
    bind.alias(result, broadcast(line, shape, std::array{axis}));
  }

 private:
  static constexpr int64_t kFew = 4096;

  static void write_numbers(DType dtype, int64_t count, std::byte* to) {
    dispatch_real(dtype, "iota", [&]<class T>(TypeTag<T>) {
      for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = transmuter::convert<T>(i);
    });
  }

  const ir::Op& op_;
};

}  // namespace

std::unique_ptr<Step> plan_table(Planner& planner, const ir::Op& op) {
  if (op.primitive != &ir::prim::iota && op.primitive != &ir::prim::dim_value) return nullptr;
  const DType dtype = planner.type(op.results[0]).dtype;
  // Only types whose numbers a table holds as the op gives them.
  if (dtype != DType::f32 && dtype != DType::f64 && (!is_integer(dtype) || is_packed(dtype))) return nullptr;
  return std::make_unique<TableStep>(op);
}

}  // namespace transmuter::cpu
