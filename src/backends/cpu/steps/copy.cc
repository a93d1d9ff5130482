#include "backends/cpu/steps/copy.h"

#include <cstring>

#include "backends/cpu/kernels/move.h"
#include "backends/cpu/run/binder.h"

namespace transmuter::cpu {
namespace {

// Axes of a copy: those of extent 1 are gone, neighbours that run on in both are one.
struct Axes {
  Extents shape, from, to;
};

Axes joined(const View& from, const View& to) {
  Axes axes;
  for (size_t i = 0; i < from.shape.size(); ++i) {
    const int64_t extent = from.shape[i];
    if (extent == 1) continue;
    if (!axes.shape.empty() && axes.from.back() == from.strides[i] * extent &&
        axes.to.back() == to.strides[i] * extent) {
      axes.shape.back() *= extent;
      axes.from.back() = from.strides[i];
      axes.to.back() = to.strides[i];
      continue;
    }
    axes.shape.push_back(extent);
    axes.from.push_back(from.strides[i]);
    axes.to.push_back(to.strides[i]);
  }
  if (axes.shape.empty()) {
    axes.shape.push_back(1);
    axes.from.push_back(1);
    axes.to.push_back(1);
  }
  return axes;
}

// Axes beyond what the kernel takes are loops around it.
void copy_axes(int width, const Axes& axes, size_t first, const std::byte* from, std::byte* to, ThreadPool* pool) {
  if (axes.shape.size() - first > static_cast<size_t>(kMoveMaxDims)) {
    for (int64_t i = 0; i < axes.shape[first]; ++i) {
      copy_axes(width, axes, first + 1, from + i * axes.from[first] * width, to + i * axes.to[first] * width, pool);
    }
    return;
  }
  copy_strided(width, static_cast<int>(axes.shape.size() - first), axes.shape.data() + first, from,
               axes.from.data() + first, to, axes.to.data() + first, pool);
}

}  // namespace

void copy_elements(const View& from, const std::byte* source, const View& to, std::byte* target, ThreadPool* pool) {
  if (from.size() == 0) return;
  const int width = bit_width(from.dtype) / 8;
  copy_axes(width, joined(from, to), 0, source + from.offset, target + to.offset, pool);
}

void launch_copy(Binder& bind, const View& from, const View& to) {
  if (from.size() == 0) return bind.untouch();
  if (is_packed(from.dtype)) {
    const size_t bytes = byte_size(from.dtype, from.size());
    bind.launch("copy", 0, [bytes, from = Place(from), to = Place(to)](const RunContext& run) {
      std::memcpy(run.at<std::byte>(to), run.at<std::byte>(from), bytes);
    });
    return;
  }
  const int width = bit_width(from.dtype) / 8;
  bind.launch("copy", 0, [from = Place(from), to = Place(to), width, axes = joined(from, to)](const RunContext& run) {
    copy_axes(width, axes, 0, run.at<std::byte>(from), run.at<std::byte>(to), &run.pool);
  });
}

}  // namespace transmuter::cpu
