// Recordings without transcripts as a data directory: enough to recognise them, or to align them later.
//
// Every file is a recording; each is an utterance of its name, or several, one per channel. Threads: pure function.
// Errors: InputError naming what is no audio; files that cannot be read, and those whose names make the ids of another
// ("a b.wav" and "a_b.wav"), are left out and reported in `problems`.
#pragma once

#include <filesystem>
#include <vector>

#include "data/data_dir.h"
#include "data/transcript_rows.h"

namespace antiphon::data {

/// `place`: a folder, with those in it, or one file. Of the options, who speaks and what channels mean count.
DataDir DataDirOfRecordings(const std::filesystem::path& place, const PrepareOptions& options,
                            std::vector<DataProblem>& problems);

}  // namespace antiphon::data
