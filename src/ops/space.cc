// DepthToSpace and SpaceToDepth: blocks of channels to blocks of pixels and back.
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

// DCR: the block's place is the outer part of the channel; CRD: the inner.
bool depth_first(OpContext& op, int64_t since) {
  if (op.version() < since) return true;
  const std::string mode = op.attribute_string("mode", "DCR");
  op.check(mode == "DCR" || mode == "CRD", "mode must be DCR or CRD, is ", mode);
  return mode == "DCR";
}

int64_t block_size(OpContext& op) {
  const int64_t block = op.attribute_int("blocksize");
  op.check(block > 0, "blocksize must be positive, is ", block);
  op.check(op.rank(0) == 4, "the input must have rank 4, has ", op.rank(0));
  return block;
}

void depth_to_space(OpContext& op) {
  const Dim block = block_size(op);
  const bool dcr = depth_first(op, 11);
  const Dims x = op.shape(0);
  require(equal(mod(x[1], block * block), 0), "DepthToSpace: channels do not divide by the block");
  const Dim depth = floor_div(x[1], block * block);
  ir::Builder& b = op.build();
  const ir::Value split = dcr ? b.reshape(op.input(0), {x[0], block, block, depth, x[2], x[3]})
                              : b.reshape(op.input(0), {x[0], depth, block, block, x[2], x[3]});
  const ir::Value moved =
      b.transpose(split, dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  op.output(0, b.reshape(moved, {x[0], depth, x[2] * block, x[3] * block}));
}

void space_to_depth(OpContext& op) {
  const Dim block = block_size(op);
  const bool dcr = depth_first(op, 28);
  const Dims x = op.shape(0);
  for (size_t axis : {2, 3})
    require(equal(mod(x[axis], block), 0), "SpaceToDepth: height or width does not divide by the block");
  const Dim height = floor_div(x[2], block), width = floor_div(x[3], block);
  ir::Builder& b = op.build();
  const ir::Value split = b.reshape(op.input(0), {x[0], x[1], height, block, width, block});
  const ir::Value moved =
      b.transpose(split, dcr ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  op.output(0, b.reshape(moved, {x[0], x[1] * block * block, height, width}));
}

}  // namespace

void register_space(Registry& r) {
  r.add("DepthToSpace", {1, 11, 13, 28}, depth_to_space);
  r.add("SpaceToDepth", {1, 13, 28}, space_to_depth);
}

}  // namespace transmuter::ops
