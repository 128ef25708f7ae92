#include "comm/mpi/mpi_calls.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host_name.h"
#include "comm/mpi/piece_rule.h"
#include "comm/process_group.h"

namespace antiphon::comm {
namespace {

constexpr int kWholeTag = 1;
constexpr int kHeadTag = 2;  // the size of a message that goes in pieces, which follow
constexpr int kPieceTag = 3;
constexpr size_t kUnit = kMessageUnit;  // so that 16 GiB fit into MPI's int
static_assert(kPieceBytes % kUnit == 0);
constexpr double kLookSeconds = 0.02;

// Of Open MPI 5's fault tolerance (ULFM), found when the program runs.
using FailedFunction = int (*)(MPI_Comm, MPI_Group*);
using AcknowledgeFunction = int (*)(MPI_Comm, int, int*);
using AgreeFunction = int (*)(MPI_Comm, int*);
using ShrinkFunction = int (*)(MPI_Comm, MPI_Comm*);

template <class Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

// mpirun --with-ft ulfm leaves this; without it Open MPI 5 has the functions, but they find nothing.
bool FaultToleranceAsked() {
  if (Find<FailedFunction>("MPIX_Comm_get_failed") == nullptr) return false;
  const char* asked = std::getenv("OMPI_MCA_mpi_ft_enable");
  return asked != nullptr && (std::string_view(asked) == "1" || std::string_view(asked) == "true");
}

bool HasVariable(const char* name) {
  int index = 0;
  return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS;
}

bool PiecesHelpHere() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return false;
  const bool help = PiecesHelp(HasVariable);
  MPI_T_finalize();
  return help;
}

std::string ErrorText(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  MPI_Error_string(code, text, &size);
  return {text, static_cast<size_t>(size)};
}

}  // namespace

// Allowed before MPI is initialised.
std::string MpiLibrary() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int size = 0;
  MPI_Get_library_version(text, &size);
  const std::string whole(text, static_cast<size_t>(size));
  return whole.substr(0, whole.find(','));
}

MpiCalls::MpiCalls() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) throw PeerError("this MPI does not allow threads (MPI_THREAD_FUNNELED)");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  place_.library = MpiLibrary();
  fault_tolerance_ = FaultToleranceAsked();
  place_.pieces_help = PiecesHelpHere();
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Adopt(comm);
  if (place_.num_processes < 2) {
    throw UsageError(
        "MPI sees one process, but several were started: with Slurm, start them by srun --mpi=pmix (srun --mpi=list "
        "tells what there is), or use mpirun");
  }
}

void MpiCalls::Adopt(MPI_Comm comm) {
  comm_ = comm;
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &place_.process);
  MPI_Comm_size(comm_, &place_.num_processes);
  std::array<char, 256> host{};
  HostName().copy(host.data(), host.size() - 1);
  constexpr int kBytes = host.size();
  std::vector<char> hosts(host.size() * static_cast<size_t>(place_.num_processes));
  Check(MPI_Allgather(host.data(), kBytes, MPI_CHAR, hosts.data(), kBytes, MPI_CHAR, comm_), "MPI_Allgather");
  place_.hosts.clear();
  for (int p = 0; p < place_.num_processes; ++p) {
    place_.hosts.emplace_back(hosts.data() + host.size() * static_cast<size_t>(p));
  }
  place_.processes_on_host = static_cast<int>(std::count(place_.hosts.begin(), place_.hosts.end(), host.data()));
  // MPI may still read and write the memory of what was under way.
  abandoned_.push_back(std::move(sends_));
  for (std::deque<Transfer>& receives : receives_) abandoned_.push_back(std::move(receives));
  sends_.clear();
  receives_.clear();
  receives_.resize(static_cast<size_t>(place_.num_processes));
  lost_.clear();
}

void MpiCalls::CheckSameProgram(const std::string& version) {
  struct Program {
    char version[56] = {};
    uint64_t file = 0;
  };
  Program mine;
  version.copy(mine.version, sizeof(mine.version) - 1);
  mine.file = Checksum(MappedFile("/proc/self/exe").bytes());
  std::vector<Program> all(static_cast<size_t>(place_.num_processes));
  Check(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, comm_), "MPI_Allgather");
  for (size_t p = 1; p < all.size(); ++p) {
    const bool same_version = std::strcmp(all[p].version, all[0].version) == 0;
    if (same_version && all[p].file == all[0].file) continue;
    Throw<UsageError>(
        "the processes run different programs: process 0 on {} runs {} (file {:016x}), process {} on {} runs {} (file "
        "{:016x}): install the same build on all machines",
        place_.hosts[0], all[0].version, all[0].file, p, place_.hosts[p], all[p].version, all[p].file);
  }
}

// False if a process died, which LossesChanged will find.
bool MpiCalls::Check(int code, const char* call) {
  if (code == MPI_SUCCESS) return true;
  if (fault_tolerance_) {
    next_look_ = 0;
    return false;
  }
  Throw<PeerError>("process {} of {}: {}: {}", place_.process, place_.num_processes, call, ErrorText(code));
}

bool MpiCalls::SameMachine(int process) const {
  const auto host = [&](int p) -> const std::string& { return place_.hosts[static_cast<size_t>(p)]; };
  return host(process) == host(place_.process);
}

void MpiCalls::StartSend(int process, std::vector<std::byte> message) {
  Transfer& send = sends_.emplace_back();
  send.message = std::move(message);
  const auto start = [&](const void* data, size_t units, int tag) {
    MPI_Request& request = send.requests.emplace_back(MPI_REQUEST_NULL);
    send.broken =
        !Check(MPI_Isend(data, static_cast<int>(units), MPI_UINT64_T, process, tag, comm_, &request), "MPI_Isend");
    return !send.broken;
  };
  const size_t size = send.message.size();
  // The receiver learns of pieces from the tags, so that the processes need not agree.
  if (!GoesInPieces(place_.pieces_help, SameMachine(process), size)) {
    start(send.message.data(), size / kUnit, kWholeTag);
    return;
  }
  send.head = std::make_unique<uint64_t>(size / kUnit);
  if (!start(send.head.get(), 1, kHeadTag)) return;
  for (size_t begin = 0; begin < size; begin += kPieceBytes) {
    if (!start(send.message.data() + begin, std::min(kPieceBytes, size - begin) / kUnit, kPieceTag)) return;
  }
}

// True when all of it is done, or failed.
bool MpiCalls::MoveOn(Transfer& transfer, bool& failed) {
  for (; transfer.finished < transfer.requests.size(); ++transfer.finished) {
    int done = 0;
    failed = !Check(MPI_Test(&transfer.requests[transfer.finished], &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (failed) return true;
    if (done == 0) return false;
  }
  failed = transfer.broken;
  return true;
}

size_t MpiCalls::FinishSends() {
  size_t finished = 0;
  for (auto send = sends_.begin(); send != sends_.end();) {
    bool failed = false;
    if (!MoveOn(*send, failed)) {
      ++send;
      continue;
    }
    ++finished;
    // MPI may still read the memory of pieces whose receiver died.
    if (failed) abandoned_.emplace_back().push_back(std::move(*send));
    send = sends_.erase(send);
  }
  return finished;
}

bool MpiCalls::StartReceives() {
  bool any = false;
  for (;;) {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    if (!Check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, &handle, &status), "MPI_Improbe")) return any;
    if (found == 0) return any;
    any = true;
    int units = 0;
    MPI_Get_count(&status, MPI_UINT64_T, &units);
    Transfer& transfer = receives_[static_cast<size_t>(status.MPI_SOURCE)].emplace_back();
    if (status.MPI_TAG == kWholeTag) {
      transfer.message.resize(static_cast<size_t>(units) * kUnit);
      MPI_Request& request = transfer.requests.emplace_back(MPI_REQUEST_NULL);
      transfer.broken =
          !Check(MPI_Imrecv(transfer.message.data(), units, MPI_UINT64_T, &handle, &request), "MPI_Imrecv");
      continue;
    }
    // Pieces come behind their head, so that nobody else's can be meant.
    uint64_t head = 0;
    transfer.broken = !Check(MPI_Mrecv(&head, 1, MPI_UINT64_T, &handle, MPI_STATUS_IGNORE), "MPI_Mrecv");
    if (transfer.broken) continue;
    const size_t size = head * kUnit;
    transfer.message.resize(size);
    for (size_t begin = 0; begin < size; begin += kPieceBytes) {
      MPI_Request& request = transfer.requests.emplace_back(MPI_REQUEST_NULL);
      const auto piece = static_cast<int>(std::min(kPieceBytes, size - begin) / kUnit);
      transfer.broken = !Check(MPI_Irecv(transfer.message.data() + begin, piece, MPI_UINT64_T, status.MPI_SOURCE,
                                         kPieceTag, comm_, &request),
                               "MPI_Irecv");
      if (transfer.broken) break;
    }
  }
}

bool MpiCalls::Receive(const std::function<void(int from, std::vector<std::byte> message)>& give) {
  bool any = StartReceives();
  for (size_t p = 0; p < receives_.size(); ++p) {
    std::deque<Transfer>& waiting = receives_[p];
    while (!waiting.empty()) {
      bool failed = false;
      if (!MoveOn(waiting.front(), failed)) break;
      if (failed) {
        abandoned_.push_back(std::move(waiting));  // their sender died half-way
        waiting.clear();
        break;
      }
      any = true;
      std::vector<std::byte> message = std::move(waiting.front().message);
      waiting.pop_front();
      give(static_cast<int>(p), std::move(message));
    }
  }
  return any;
}

bool MpiCalls::LossesChanged() {
  if (!fault_tolerance_ || MPI_Wtime() < next_look_) return false;
  next_look_ = MPI_Wtime() + kLookSeconds;
  MPI_Group failed = MPI_GROUP_NULL;
  if (Find<FailedFunction>("MPIX_Comm_get_failed")(comm_, &failed) != MPI_SUCCESS) return false;
  int size = 0;
  MPI_Group_size(failed, &size);
  const bool changed = static_cast<size_t>(size) != lost_.size();
  if (changed) {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Comm_group(comm_, &all);
    std::vector<int> inside(static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) inside[static_cast<size_t>(i)] = i;
    lost_.resize(static_cast<size_t>(size));
    MPI_Group_translate_ranks(failed, size, inside.data(), all, lost_.data());
    MPI_Group_free(&all);
    // From now on, receiving from anybody goes on without them.
    int acknowledged = 0;
    Find<AcknowledgeFunction>("MPIX_Comm_ack_failed")(comm_, size, &acknowledged);
  }
  MPI_Group_free(&failed);
  return changed;
}

bool MpiCalls::Agree(bool value) {
  LossesChanged();
  int flag = value ? 1 : 0;
  const int code = Find<AgreeFunction>("MPIX_Comm_agree")(comm_, &flag);
  return code == MPI_SUCCESS && flag != 0;
}

int MpiCalls::Shrink() {
  const int before = place_.num_processes;
  MPI_Comm rest = MPI_COMM_NULL;
  const int code = Find<ShrinkFunction>("MPIX_Comm_shrink")(comm_, &rest);
  if (code != MPI_SUCCESS) Throw<PeerError>("MPIX_Comm_shrink: {}", ErrorText(code));
  Adopt(rest);
  left_out_ = true;
  return before - place_.num_processes;
}

void MpiCalls::Finalize() {
  // Open MPI 5 may wait for the dead here.
  if (left_out_ || !lost_.empty()) return;
  MPI_Barrier(comm_);
  MPI_Finalize();
}

}  // namespace antiphon::comm
