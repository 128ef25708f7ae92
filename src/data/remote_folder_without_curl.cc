#include "base/error.h"
#include "data/remote_folder.h"

namespace antiphon::data {
namespace {

[[noreturn]] void Refuse(std::string_view address) {
  Throw<UsageError>(
      "'{}' lies on a server, and this program was built without libcurl: copy the store to this machine, or build "
      "with libcurl4-openssl-dev installed (scripts/setup does)",
      address);
}

}  // namespace

std::string CurlLibrary() { return ""; }

struct RemoteFolder::Connection {};

RemoteFolder::RemoteFolder(std::string_view address, FetchOptions) { Refuse(address); }
RemoteFolder::~RemoteFolder() = default;

std::string RemoteFolder::Read(const std::string& name, uint64_t, const Stop&) const { Refuse(UrlOf(name)); }

void RemoteFolder::Fetch(const std::string& name, uint64_t, int, const std::filesystem::path&, const Stop&) const {
  Refuse(UrlOf(name));
}

}  // namespace antiphon::data
