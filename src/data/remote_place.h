// Where a folder of files lies on a server: http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX.
//
// Of S3, keys, region and endpoint come from the environment, under the names that Amazon's own tools read:
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION (else us-east-1),
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (else Amazon's). An endpoint that is named finds the bucket in the path, as
// MinIO and Ceph expect it. Without keys, nothing is signed: buckets that anybody may read.
//
// Errors: UsageError for an address that cannot be, or that holds a password, which would stand in logs and
// configurations. Source: RFC 3986; Amazon S3 user guide, "Methods for accessing a bucket".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace antiphon::data {

/// Whether this names a server, not a folder of this machine. Paths keep such text as it is, unless they are normalised
/// or made absolute.
bool IsRemote(std::string_view place);

struct RemotePlace {
  /// `Environment` is asked for variables; empty text: not set.
  using Environment = std::string (*)(const char* name);
  static RemotePlace Parse(std::string_view address, Environment environment = &FromProcess);
  /// Of this process.
  static std::string FromProcess(const char* name);

  /// The address of a file in the folder.
  std::string UrlOf(std::string_view name) const { return url + "/" + std::string(name); }

  std::string url;  // http(s), without a slash at its end
  bool is_s3 = false;
  std::string region, key_id, secret, session_token;  // empty key_id: nothing is signed
  std::string ca_file;                                // certificates to trust instead of the system's; empty: those
};

}  // namespace antiphon::data
