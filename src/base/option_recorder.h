// What ReadOptions reads while a recorder lives: how the options of components, which only their factories know, are
// listed in documentation and checked without running anything.
//
//   OptionRecorder recorder;
//   CodecRegistry::Get().Create("top-k", Config());
//   recorder.first();   // density, momentum, clip, …
//
// Threads: records what its own thread reads. The latest recorder of a thread records.
#pragma once

#include <vector>

#include "base/options.h"

namespace antiphon {

class OptionRecorder {
 public:
  OptionRecorder();
  ~OptionRecorder();
  OptionRecorder(const OptionRecorder&) = delete;
  OptionRecorder& operator=(const OptionRecorder&) = delete;

  /// One entry per struct that was read, each field with its default; in the order of reading.
  const std::vector<std::vector<OptionDescription>>& structs() const { return structs_; }
  /// Whatever was read was read to its end: its keys are known and its values are right.
  bool complete() const { return !structs_.empty() && unfinished_ == 0; }

  // For options.cc.
  static OptionRecorder* Current();
  void Begin() {
    structs_.emplace_back();
    ++unfinished_;
  }
  void Take(OptionDescription option) { structs_.back().push_back(std::move(option)); }
  void End() { --unfinished_; }

 private:
  OptionRecorder* outer_;
  std::vector<std::vector<OptionDescription>> structs_;
  int unfinished_ = 0;
};

}  // namespace antiphon
