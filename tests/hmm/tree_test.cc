#include "hmm/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace antiphon::hmm {
namespace {

TEST(ContextTree, RefusesAGraphThatOnlyLooksLikeATree) {
  // 40 nodes that each lead twice to the next one: 2^40 ways down.
  std::vector<TreeNode> nodes;
  for (int32_t n = 0; n < 40; ++n) {
    TreeNode& node = nodes.emplace_back();
    node.position = 0;
    node.yes = node.no = n + 1;
    node.phones = {1};
  }
  nodes.emplace_back().pdf_id = 0;
  try {
    ContextTree(3, nodes, {{}, {0}}).PdfsOf(1, 0);
    ADD_FAILURE() << "accepted";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("two parents"));
  }
}

}  // namespace
}  // namespace antiphon::hmm
