// Tables on a terminal.
#include "report/text_table.h"

#include <gtest/gtest.h>

namespace antiphon::report {
namespace {

TEST(TextTable, AlignsColumnsOfEveryScript) {
  EXPECT_EQ(TextTable({{"method", "x"}, {"caf\u00e9", "1.1 \u00d7"}, {"cafe\u0301", "2"}, {"\u8a9e", "30"}}),
            (std::vector<std::string>{"method      x", "caf\u00e9    1.1 \u00d7", "cafe\u0301        2",
                                      "\u8a9e         30"}));
}

}  // namespace
}  // namespace antiphon::report
