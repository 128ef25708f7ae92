#include "data/remote_place.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/error.h"

namespace antiphon::data {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::string_view kS3 = "s3://";

bool BeginsWith(std::string_view text, std::string_view scheme) {
  return text.size() >= scheme.size() && std::equal(scheme.begin(), scheme.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

bool IsUnreserved(unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~'; }

// As S3 signs it: everything but unreserved characters and slashes.
std::string Encoded(std::string_view path) {
  std::string text;
  for (const char byte : path) {
    const auto c = static_cast<unsigned char>(byte);
    text += IsUnreserved(c) || c == '/' ? std::string(1, byte) : fmt::format("%{:02X}", c);
  }
  return text;
}

std::string_view WithoutSlashes(std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

std::string FirstSet(RemotePlace::Environment environment, const char* first, const char* second) {
  const std::string value = environment(first);
  return value.empty() ? environment(second) : value;
}

// `name`: whose address it is, for errors.
void CheckHttp(std::string_view address, std::string_view name) {
  const std::string_view rest = address.substr(address.find("://") + 3);
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (host.empty()) Throw<UsageError>("{} '{}' names no host; expected http://HOST/PATH", name, address);
  if (host.find('@') != std::string_view::npos) {
    Throw<UsageError>(
        "{} holds a name or password ('…@{}'), which would stand in logs and configurations: put them into ~/.netrc",
        name, host.substr(host.rfind('@') + 1));
  }
  for (const char c : address) {
    if (c == '?' || c == '#') {
      Throw<UsageError>("{} '{}' has a '{}': expected the address of a folder, to which names of files are added", name,
                        address, c);
    }
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) {
      Throw<UsageError>("{} '{}' holds blanks or control characters: write them as %20 and so on", name, address);
    }
  }
}

RemotePlace ParseS3(std::string_view address, RemotePlace::Environment environment) {
  const std::string_view rest = WithoutSlashes(address.substr(kS3.size()));
  const std::string_view bucket = rest.substr(0, rest.find('/'));
  const std::string prefix = bucket.size() < rest.size() ? Encoded(rest.substr(bucket.size())) : "";
  const bool is_bucket = !bucket.empty() && std::all_of(bucket.begin(), bucket.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
  if (!is_bucket) Throw<UsageError>("'{}' names no bucket; expected s3://BUCKET/PREFIX", address);
  RemotePlace place;
  place.is_s3 = true;
  place.region = FirstSet(environment, "AWS_REGION", "AWS_DEFAULT_REGION");
  if (place.region.empty()) place.region = "us-east-1";
  place.key_id = environment("AWS_ACCESS_KEY_ID");
  place.secret = environment("AWS_SECRET_ACCESS_KEY");
  place.session_token = environment("AWS_SESSION_TOKEN");
  if (place.key_id.empty() != place.secret.empty()) {
    throw UsageError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: set both, or none of them");
  }
  place.ca_file = environment("AWS_CA_BUNDLE");
  const std::string endpoint = FirstSet(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  if (!endpoint.empty()) {
    if (!BeginsWith(endpoint, kHttp) && !BeginsWith(endpoint, kHttps)) {
      Throw<UsageError>("AWS_ENDPOINT_URL is '{}'; expected http://HOST or https://HOST", endpoint);
    }
    CheckHttp(endpoint, "AWS_ENDPOINT_URL");
    place.url = fmt::format("{}/{}{}", WithoutSlashes(endpoint), bucket, prefix);
  } else if (bucket.find_first_of("._") != std::string_view::npos) {
    // No certificate is valid for such names in front of Amazon's.
    place.url = fmt::format("https://s3.{}.amazonaws.com/{}{}", place.region, bucket, prefix);
  } else {
    place.url = fmt::format("https://{}.s3.{}.amazonaws.com{}", bucket, place.region, prefix);
  }
  return place;
}

}  // namespace

bool IsRemote(std::string_view place) {
  return BeginsWith(place, kHttp) || BeginsWith(place, kHttps) || BeginsWith(place, kS3);
}

std::string RemotePlace::FromProcess(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

RemotePlace RemotePlace::Parse(std::string_view address, Environment environment) {
  RemotePlace place;
  if (BeginsWith(address, kS3)) {
    place = ParseS3(address, environment);
  } else {
    CheckHttp(address, "the address");
    place.url = WithoutSlashes(address);
  }
  if (place.ca_file.empty()) place.ca_file = environment("CURL_CA_BUNDLE");
  return place;
}

}  // namespace antiphon::data
