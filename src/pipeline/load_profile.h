// Speakers' profiles for a network that was loaded: read, checked and bound.
//
// Threads: plain functions. Errors of LoadBoundProfile, behind the file's name: what is wrong with the file, or which
// model the profile is for (InputError, IoError); without it: UsageError for no network (a Gaussian mixture).
#pragma once

#include <filesystem>
#include <memory>

#include "infer/nnet_scorer.h"

namespace antiphon {

/// For models whose profiles come later: in fp32 a network scores the same whether it is adaptable or not.
infer::NnetScorerOptions AdaptableOptions();

/// The network must be adaptable; null: none.
std::shared_ptr<const infer::BoundProfile> LoadBoundProfile(const std::filesystem::path& path,
                                                            const infer::NnetModel* network);

}  // namespace antiphon
