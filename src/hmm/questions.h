// The questions that a decision tree may ask about a neighbouring phone, found from the data.
//
// Phones are clustered bottom-up by the log-likelihood lost when their statistics are pooled; every cluster on the way
// is one question, every phone too. Position variants of a phone belong together and are also asked about by position;
// silence has its own question. Result: sorted sets of phone ids, without repetition, in a fixed order.
#pragma once

#include <cstdint>
#include <vector>

#include "hmm/phone_set.h"
#include "hmm/tree_stats.h"

namespace antiphon::hmm {

std::vector<std::vector<int32_t>> FindQuestions(const TreeStats& stats, const PhoneSet& phones);

}  // namespace antiphon::hmm
